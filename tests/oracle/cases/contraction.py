"""Matrix products and what is made of them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.oracle.cases.case import Case, add
from tests.oracle.harness.compare import Close
from tests.oracle.harness.inputs import DTYPES, Array

# Inner lengths are at most 40 and terms about ten, so that absolute sums are below a few hundred.
PRODUCT = Close(4, 2, 200)
Shape = tuple[int, ...]

MATMULS: list[tuple[Shape, str, Shape, str]] = [
    ((3,), "plain", (3,), "plain"),
    ((3,), "plain", (3, 4), "transposed"),
    ((2, 3), "stepped", (3,), "reversed"),
    ((2, 3), "plain", (3, 4), "plain"),
    ((2, 3), "transposed", (3, 4), "transposed"),
    ((5, 40), "reversed", (40, 3), "stepped"),
    ((2, 0), "plain", (0, 3), "plain"),
    ((0, 2), "plain", (2, 3), "plain"),
    ((1, 1), "plain", (1, 1), "plain"),
    ((4, 2, 3), "plain", (3, 4), "plain"),
    ((4, 2, 3), "plain", (4, 3, 2), "transposed"),
    ((4, 2, 3), "broadcast", (1, 3, 2), "plain"),
    ((2, 1, 2, 3), "plain", (3, 3, 2), "plain"),
    ((2, 3), "plain", (5, 3, 2), "offset"),
    ((3,), "plain", (2, 3, 4), "plain"),
    ((2, 4, 3), "plain", (3,), "plain"),
    ((2, 3), "plain", (2, 3), "plain"),
    ((), "plain", (3,), "plain"),
    ((3,), "plain", (4,), "plain"),
    ((2, 2, 3), "plain", (3, 3, 4), "plain"),
]


def _pairs(dtype: str, table: list[tuple[Shape, str, Shape, str]]) -> Iterator[tuple[Array, Array]]:
    for shape_a, layout_a, shape_b, layout_b in table:
        a = Array(dtype, shape_a, layout_a, "finite", 0)
        b = Array(dtype, shape_b, layout_b, "finite", 1)
        yield a, b


def _matmul() -> Iterator[Case]:
    for dtype in DTYPES:
        for a, b in _pairs(dtype, MATMULS):
            yield Case("matmul", (a, b), close=PRODUCT)
            yield Case("array.__matmul__", (a, b), close=PRODUCT)
            for shape in ((), (2, 2), (2, 3), (2, 4), (4,), (5, 3), (4, 2, 2)):
                c = Array(dtype, shape, "plain", "finite", 2)
                yield Case("addmm", (c, a, b), close=PRODUCT)
            c = Array(dtype, (1,), "plain", "finite", 2)
            yield Case("addmm", (c, a, b, 0.5, 2.0), close=PRODUCT)
            yield Case("addmm", (c, a, b), {"alpha": 2.0, "beta": 0.0}, close=PRODUCT)
        a = Array(dtype, (2, 3), values="finite")
        for other in ("float16", "float32", "int32", "complex64"):
            yield Case("matmul", (a, Array(other, (3, 2), values="finite")), close=PRODUCT)


INNERS: list[tuple[Shape, str, Shape, str]] = [
    ((), "plain", (), "plain"),
    ((), "plain", (3,), "plain"),
    ((3,), "plain", (3,), "stepped"),
    ((2, 3), "transposed", (3,), "plain"),
    ((2, 3), "plain", (4, 3), "reversed"),
    ((2, 2, 3), "broadcast", (4, 3), "plain"),
    ((0,), "plain", (0,), "plain"),
    ((2, 0), "plain", (3, 0), "plain"),
    ((2, 3), "plain", (2, 3), "plain"),
    ((2, 3), "plain", (1, 3), "plain"),
    ((2,), "plain", (3,), "plain"),
]


def _products() -> Iterator[Case]:
    for dtype in DTYPES:
        for a, b in _pairs(dtype, INNERS):
            for op in ("inner", "outer", "kron", "vecdot"):
                yield Case(op, (a, b), close=PRODUCT)
            yield Case("vecdot", (a, b), {"axis": 0}, close=PRODUCT)
        a = Array(dtype, (2, 3, 4), "transposed", "finite")
        b = Array(dtype, (3, 4, 5), "stepped", "finite", 1)
        c = Array(dtype, (4, 3, 2), values="finite", seed=2)
        yield Case("tensordot", (a, b), close=PRODUCT)
        yield Case("tensordot", (a, b, 2), close=PRODUCT)
        yield Case("tensordot", (a, b, 0), close=PRODUCT)
        yield Case("tensordot", (a, b, 1), close=PRODUCT)
        yield Case("tensordot", (a, b), {"axes": [[1, 2], [0, 1]]}, close=PRODUCT)
        yield Case("tensordot", (a, c), {"axes": ([0, 2], [2, 0])}, close=PRODUCT)
        yield Case("tensordot", (a, c), {"axes": [[-1], [0]]}, close=PRODUCT)
        yield Case("tensordot", (a, c), {"axes": [[0], [0]]}, close=PRODUCT)
        yield Case("tensordot", (a, c), {"axes": [[0, 1], [0]]}, close=PRODUCT)
        yield Case("tensordot", (a, c, 4), close=PRODUCT)
        yield Case("kron", (a, Array(dtype, (2, 2), values="finite")), close=PRODUCT)
        yield Case("kron", (a, b), close=PRODUCT)


EINSUMS: list[tuple[str, tuple[Shape, ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ij->ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij->i", ((2, 3),)),
    ("ij", ((2, 3),)),
    ("ji", ((2, 3),)),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("iij->ij", ((3, 3, 2),)),
    ("i,i->", ((3,), (3,))),
    ("i,j->ij", ((3,), (2,))),
    ("i,j->ji", ((3,), (2,))),
    ("ij,ij->ij", ((2, 3), (2, 3))),
    ("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))),
    ("bij,jk->bik", ((2, 3, 4), (4, 2))),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
    ("i,i,i->i", ((3,), (3,), (3,))),
    ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 2))),
    ("...i->...", ((2, 3),)),
    ("...ij->...ji", ((2, 3, 4),)),
    ("ij , jk -> ik", ((2, 3), (3, 4))),
    (",->", ((), ())),
    (",i->i", ((), (3,))),
    ("ijk->k", ((2, 0, 3),)),
    ("abc,cd,bd->a", ((2, 3, 4), (4, 5), (3, 5))),
    ("ij,jk->ik", ((2, 3), (4, 4))),
    ("ij,jk->iz", ((2, 3), (3, 4))),
    ("ij->ii", ((2, 3),)),
    ("ijk->ij", ((2, 3),)),
    ("ij,jk->ik", ((2, 3),)),
    ("i1->i", ((2, 3),)),
    ("", ((),)),
]


def _einsums() -> Iterator[Case]:
    for subscripts, shapes in EINSUMS:
        for dtype in DTYPES:
            arrays = [
                Array(
                    dtype, shape, "transposed" if i % 2 and len(shape) > 1 else "plain", "finite", i
                )
                for i, shape in enumerate(shapes)
            ]
            yield Case("einsum", (subscripts, *arrays), close=PRODUCT)
        floats = [Array("float32", shape, values="finite") for shape in shapes]
        yield Case("einsum_path", (subscripts, *floats))
    yield Case("einsum", (3, Array("float32", (2,))))
    yield Case("einsum", ("i->",))


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_matmul, _products, _einsums):
        for case in generate():
            add(case)
