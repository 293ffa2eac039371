"""Ops that move elements: reshape, transpose, split, pad and their kin. Always exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.oracle.cases.case import Case, add, call
from tests.oracle.cases.reduction import SUM
from tests.oracle.harness.compare import EXACT
from tests.oracle.harness.inputs import DTYPES, Array, Dtype

# Every layout of a few shapes; movement does not look at values, so that one dtype goes deep and
# the others wide.
BASES = [
    Array("float32", ()),
    Array("float32", (6,)),
    Array("float32", (0,)),
    Array("float32", (2, 0, 3)),
    Array("float32", (1, 6), "broadcast"),
    Array("float32", (3, 4), "transposed"),
    Array("float32", (4, 6), "stepped"),
    Array("float32", (2, 3, 4)),
    Array("float32", (2, 3, 4), "transposed"),
    Array("float32", (2, 3, 4), "reversed"),
    Array("float32", (2, 3, 4), "broadcast"),
    Array("float32", (1, 2, 1, 3), "offset"),
]

# Arguments after the array. Those that do not fit a shape are errors in both libraries.
PARAMETERS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "reshape": [
        *(((shape,), {}) for shape in [(6,), (-1,), (2, 3), (3, -1), (4, 6), (2, 3, 4), (), (1,)]),
        *(((shape,), {}) for shape in [(0, -1), (2, -1, 2), (-1, -1), (24, 1, 1), (5, -1), [2, 3]]),
        ((), {"shape": (-1, 2)}),
    ],
    "flatten": [
        ((), {}),
        ((1,), {}),
        ((0, 1), {}),
        ((-2, -1), {}),
        ((), {"start_axis": 1, "end_axis": -1}),
        ((2, 1), {}),
        ((5,), {}),
    ],
    "unflatten": [
        ((0, (2, -1)), {}),
        ((-1, (-1, 2)), {}),
        ((1, (3, 1)), {}),
        ((0, (1, 1, -1)), {}),
        ((), {"axis": -1, "shape": (2, 2)}),
        ((9, (2, 2)), {}),
        ((0, ()), {}),
    ],
    "squeeze": [
        *(((axis,), {}) for axis in (0, -1, 2, (0, 2), [0], (0, 0), 7)),
        ((), {}),
        ((), {"axis": 0}),
    ],
    "expand_dims": [
        *(((axis,), {}) for axis in (0, -1, 1, 2, (0, 1), (0, -1), [0, 2], (0, 0), 9, -9)),
        ((), {"axis": 0}),
    ],
    "transpose": [
        ((), {}),
        ((None,), {}),
        *(
            ((axes,), {})
            for axes in [(1, 0), (0, 2, 1), (-1, 0, 1), (2, 1, 0), [0], (0, 0), (3, 1)]
        ),
        ((), {"axes": (1, 0)}),
    ],
    "swapaxes": [
        *((axes, {}) for axes in [(0, 1), (0, -1), (-1, -2), (1, 2), (0, 0), (5, 0)]),
        ((), {"axis1": 0, "axis2": 1}),
    ],
    "moveaxis": [
        *((axes, {}) for axes in [(0, 1), (0, -1), (-1, 0), (2, 0), (0, 0), (5, 0)]),
        ((), {"source": 0, "destination": -1}),
    ],
    "matrix_transpose": [((), {})],
    "broadcast_to": [
        *(
            ((shape,), {})
            for shape in [(6,), (2, 6), (2, 3, 4), (5, 3, 4), (2, 1), (0,), (2, 0, 3)]
        ),
        *(((shape,), {}) for shape in [(), (5, 1, 2, 7, 3), (-1, 6)]),
        ((), {"shape": (3, 4)}),
    ],
    "flip": [
        *(((axis,), {}) for axis in (None, 0, -1, 1, (0, 1), (0, -1), [0], (), (0, 0), 5)),
        ((), {}),
        ((), {"axis": 0}),
    ],
    "roll": [
        *(((shift,), {}) for shift in (0, 1, -2, 9, (1, 2), (1,))),
        *(((shift, axis), {}) for shift in (1, -3, 100, (1, -1)) for axis in (0, -1, (0, 1), (1,))),
        ((1, None), {}),
        ((1, 7), {}),
        (((1, 2), (0,)), {}),
    ],
    "repeat": [
        *(((repeats,), {}) for repeats in (0, 1, 3, -1)),
        *(((2, axis), {}) for axis in (0, 1, -1, 5)),
        ((), {"repeats": 2, "axis": -1}),
    ],
    "tile": [
        *(((reps,), {}) for reps in (0, 1, 2, (2,), (2, 1), (1, 3), (2, 1, 2, 1), (), [2, 2], -1))
    ],
    "split": [
        *(((sections,), {}) for sections in (1, 2, 3, 0, [1], [1, 3], [0, 2, 9], [-2], [3, 1], [])),
        *(((sections, axis), {}) for sections in (2, 3, [1, 2], [-1]) for axis in (1, -1, 2, 5)),
        ((), {"indices_or_sections": 2, "axis": 0}),
    ],
    "unstack": [
        ((), {}),
        *(((), {"axis": axis}) for axis in (0, 1, -1, 5)),
    ],
    "pad": [
        *(((width,), {}) for width in (0, 1, (1,), (1, 2), [(1, 2)], [(0, 1), (2, 0)], -1)),
        ((2, "edge"), {}),
        ((1, "constant", 5), {}),
        ((1,), {"constant_values": 2.5}),
        ((), {"pad_width": 2, "mode": "reflect"}),
        ((1, "symmetric"), {}),
        ((2, "symmetric"), {}),
        ((1, "reflect"), {}),
        ((1, "wrong"), {}),
        ((1,), {"constant_values": Array("float32", (), values="finite")}),
    ],
    "diag": [*(((k,), {}) for k in (0, 1, -1, 3, -5, 9)), ((), {}), ((), {"k": 1})],
    "diagonal": [
        ((), {}),
        *(((offset,), {}) for offset in (1, -1, 3, -5)),
        *(((0, *axes), {}) for axes in [(1, 0), (0, -1), (1, 2), (0, 0), (0, 5)]),
        ((), {"offset": 1, "axis1": -1, "axis2": -2}),
    ],
    "tril": [*(((k,), {}) for k in (0, 1, -1, 5)), ((), {}), ((), {"k": -2})],
    "triu": [*(((k,), {}) for k in (0, 1, -1, 5)), ((), {}), ((), {"k": -2})],
    "trace": [
        ((), {}),
        *(((offset,), {}) for offset in (1, -1, 3)),
        *(((0, *axes), {}) for axes in [(1, 0), (0, -1), (1, 2), (0, 0), (0, 5)]),
        ((), {"offset": 1, "axis1": -1, "axis2": -2, "dtype": Dtype("int32")}),
    ],
    "contiguous": [((), {}), ((), {"allow_col_major": True}), ((True,), {})],
    "diff": [
        ((), {}),
        *(((n,), {}) for n in (0, 1, 2, 9, -1)),
        *(((1, axis), {}) for axis in (0, 1, -2, 7)),
        ((), {"n": 2, "axis": 0}),
    ],
}
PARAMETERS["permute_dims"] = PARAMETERS["transpose"]
# These also compute.
VALUES = {"trace": "finite", "diff": "finite"}


def _moved() -> Iterator[Case]:
    for op, parameters in PARAMETERS.items():
        values = VALUES.get(op, "any")
        for args, kwargs in parameters:
            for base in BASES:
                array = base.but(values=values)
                yield Case(op, (array, *args), kwargs, close=SUM if op == "trace" else EXACT)
        for dtype in DTYPES:
            for layout in ("plain", "transposed", "stepped"):
                array = Array(dtype, (4, 6), layout, values)
                for args, kwargs in (parameters[0], parameters[1 % len(parameters)]):
                    yield Case(op, (array, *args), kwargs, close=SUM if op == "trace" else EXACT)


def _joined() -> Iterator[Case]:
    for op in ("concatenate", "concat", "stack"):
        for dtype in DTYPES:
            for base in (Array(dtype, (3, 4)), Array(dtype, (2, 3, 4))):
                parts = [base, base.but(layout="transposed", seed=1), base.but(layout="stepped")]
                for axis in (0, 1, -1, None, 5):
                    yield Case(op, (parts,), {"axis": axis})
                yield Case(op, (parts,))
                yield Case(op, (parts[:1], 1))
            vector = Array(dtype, (4,), "reversed")
            yield Case(op, ([vector, Array("int16", (4,), seed=3)],))
            yield Case(op, ([vector, Array("float16", (4,), seed=3)],))
            yield Case(op, ([vector, Array(dtype, (0,))],))
        yield Case(op, ([],))
        yield Case(op, ([Array("float32", (2,)), Array("float32", (2, 2))],))
        yield Case(op, ([Array("float32", (2, 3)), Array("float32", (3, 3))], 1))
        yield Case(op, ([Array("float32", ()), Array("float32", ())],))
        yield Case(op, (Array("float32", (2, 3)),))
        yield Case(op, ((Array("float32", (2, 3)), Array("float32", (2, 3), seed=1)),))
        yield Case(op, ([1, Array("float32", ())],))


def _several() -> Iterator[Case]:
    for dtype in DTYPES:
        a, b = Array(dtype, (3, 1), values="ties"), Array(dtype, (4,), "stepped")
        yield Case("broadcast_arrays", (a, b))
        yield Case("broadcast_arrays", (a, b, Array(dtype, ())))
        yield Case("broadcast_arrays", (a,))
        yield Case("broadcast_arrays", (a, Array(dtype, (2, 3))))
        for indexing in ("xy", "ij", "wrong"):
            for sparse in (False, True):
                arrays = (b, Array(dtype, (3,), "reversed"), Array(dtype, (2,)))
                for n in (1, 2, 3):
                    kwargs = {"indexing": indexing, "sparse": sparse}
                    yield Case("meshgrid", arrays[:n], kwargs)
        for op in ("atleast_1d", "atleast_2d", "atleast_3d"):
            for shape in ((), (3,), (2, 3), (2, 3, 4), (1, 2, 3, 4), (0,)):
                yield Case(op, (Array(dtype, shape),))
            yield Case(op, (Array(dtype, ()), Array(dtype, (2, 2), "transposed")))
    yield Case("broadcast_arrays", ())
    yield Case("meshgrid", ())
    yield Case("meshgrid", (Array("float32", (2, 2)), Array("float32", (3,))))
    yield Case("atleast_1d", ())
    for shapes in [
        ((3, 1), (4,)),
        ((), ()),
        ((2, 3),),
        ((0,), (1,)),
        ((2,), (3,)),
        ((2, 1, 4), (3, 1)),
    ]:
        yield Case("broadcast_shapes", shapes)
    yield Case("broadcast_shapes", ())
    yield Case("broadcast_shapes", ([2, 1], [3]))


def _strided() -> Iterator[Case]:
    for dtype in DTYPES:
        base = Array(dtype, (4, 6))
        for layout in ("plain", "transposed", "stepped"):
            array = base.but(layout=layout)
            yield Case("as_strided", (array, (3, 3), (6, 1)))
            yield Case("as_strided", (array, (5, 2), (2, 3), 4))
            yield Case(
                "as_strided", (array,), {"shape": (3, 2, 2), "strides": (0, 2, 1), "offset": 2}
            )
        yield Case("as_strided", (base,))
        yield Case("as_strided", (base, (2, 3)))
        for other in DTYPES:
            for array in (base, base.but(layout="transposed"), base.but(shape=(3, 8))):
                integers = array.but(values="any" if dtype != "bool_" else "ties")
                if other != "bool_":
                    yield Case("view", (integers, Dtype(other)))
        yield Case("view", (Array(dtype, (), values="unit"), Dtype("uint8")))


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_moved, _joined, _several, _strided):
        for case in generate():
            add(case)
    call("tri", 4)
    for args in ((3, 5), (5, 3, 1), (4, 4, -2), (0,), (3, 0), (-1,)):
        call("tri", *args)
    for dtype in DTYPES:
        call("tri", 3, 4, 1, Dtype(dtype))
        call("tri", n=3, m=2, k=-1, dtype=Dtype(dtype))
