"""Ops that make arrays: from numbers, shapes, Python values and other arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.oracle.cases.case import Case, add
from tests.oracle.harness.compare import Close
from tests.oracle.harness.inputs import DTYPES, FLOATS, INTEGERS, Array, Dtype, varied

SHAPES: list[Any] = [(), 3, (3,), [2, 3], (2, 0), (0,), (2, 1, 3), -1, (2, -1)]
ARANGES: list[tuple[Any, ...]] = [
    (5,),
    (0,),
    (-3,),
    (5.0,),
    (2.5,),
    (2, 7),
    (7, 2),
    (2, 9, 3),
    (9, 2, -3),
    (0, 1, 0.25),
    (1.0, -1.0, -0.5),
    (0, 10, 0),
    (0.5, 3),
    (-5, 5, 2),
    (0, 3, 5),
]


def _filled() -> Iterator[Case]:
    for shape in SHAPES:
        for op in ("zeros", "ones"):
            yield Case(op, (shape,))
        for dtype in DTYPES:
            for op in ("zeros", "ones"):
                yield Case(op, (shape, Dtype(dtype)))
                yield Case(op, (shape,), {"dtype": Dtype(dtype)})
            for value in (True, 3, 2.5):
                yield Case("full", (shape, value, Dtype(dtype)))
            yield Case("full", (shape, Array(dtype, (), values="unit")))
        for value in (True, 3, 2.5, 1 + 2j, -1):
            yield Case("full", (shape, value))
        yield Case("full", (shape, Array("float32", (3,), "reversed")))
        yield Case("full", (), {"shape": shape, "vals": 2, "dtype": Dtype("int8")})


def _shape_only(op: str) -> Any:
    """`empty` has arbitrary values: compare shape and dtype."""

    def run(mx: Any, *args: Any, **kwargs: Any) -> Any:
        array = getattr(mx, op)(*args, **kwargs)
        mx.eval(array)
        return array.shape, array.dtype

    return run


def _likes() -> Iterator[Case]:
    for dtype in DTYPES:
        for array in varied(dtype, small=True):
            for op in ("zeros_like", "ones_like"):
                yield Case(op, (array,))
                yield Case(op, (array, Dtype("float16")))
                yield Case(op, (array,), {"dtype": Dtype("int32")})
            yield Case("full_like", (array, 3))
            yield Case("full_like", (array, 2.5), {"dtype": Dtype("float32")})
            yield Case("full_like", (array, Array("int32", (), values="positive")))
            yield Case("empty_like", (array,), run=_shape_only("empty_like"))
            yield Case("empty_like", (array, Dtype("int8")), run=_shape_only("empty_like"))
        yield Case("empty", ((2, 3), Dtype(dtype)), run=_shape_only("empty"))
    for shape in SHAPES:
        yield Case("empty", (shape,), run=_shape_only("empty"))


def _ranges() -> Iterator[Case]:
    close = Close(2, 1, 10)
    for args in ARANGES:
        yield Case("arange", args, close=close)
        for dtype in (
            "int8",
            "uint8",
            "int32",
            "int64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
        ):
            yield Case("arange", args, {"dtype": Dtype(dtype)}, close=close)
    yield Case("arange", (), {"start": 1, "stop": 5, "step": 2})
    yield Case("arange", (), {"stop": 5})
    yield Case("arange", (1, 5), {"step": 2})
    yield Case("arange", (5,), {"dtype": Dtype("bool_")})
    yield Case("arange", (float("nan"),))
    yield Case("arange", (float("inf"),))
    yield Case("arange", ("5",))
    for args in ((0, 1), (0, 1, 5), (2.0, -1.0, 7), (0, 1, 0), (0, 1, 1), (3, 3, 4), (0, 1, -1)):
        yield Case("linspace", args, close=Close(4, 1, 1))
        yield Case("linspace", args, {"endpoint": False}, close=Close(4, 1, 1))
        for dtype in (*FLOATS, "int32"):
            yield Case("linspace", args, {"dtype": Dtype(dtype)}, close=Close(4, 1, 1))
    yield Case("linspace", (), {"start": 0, "stop": 2, "num": 3}, close=Close(4, 1, 1))
    for op in ("hanning", "hamming", "blackman", "bartlett"):
        for size in (0, 1, 2, 3, 8, 33, -1):
            yield Case(op, (size,), close=Close(8, 1, 1))


def _identities() -> Iterator[Case]:
    for args in ((3,), (3, 4), (4, 3, 1), (3, 3, -2), (3, 3, 9), (0,), (1,), (2, 0), (-1,)):
        yield Case("eye", args)
    for dtype in DTYPES:
        yield Case("eye", (3, 4, 1, Dtype(dtype)))
        yield Case("eye", (), {"n": 2, "m": 3, "k": -1, "dtype": Dtype(dtype)})
        yield Case("identity", (3, Dtype(dtype)))
    for n in (0, 1, 4, -1):
        yield Case("identity", (n,))


NUMPY_DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
)
PYTHON_VALUES: list[Any] = [
    *(True, 3, 2.5, 1 + 2j, -7, 2**31, 2**40, -(2**31) - 1, float("inf")),
    *([], [[]], [1, 2, 3], [1, 2.5], [True, False], [True, 2], [1j, 2], (1, 2)),
    *([[1, 2], [3, 4]], [[1], [2.5]], [[[1]], [[2]]], [(1, 2), [3, 4]], [[], []]),
    *([[1, 2], [3]], [1, [2]], [[1], 2], "text", ["text"], None, [None], {}, object),
    *([2**31], [2**40], [2**63], [-(2**63)], 2**64, -(2**63) - 1, [1, True, 2.5, 1j]),
]


def _arrays() -> Iterator[Case]:
    for op in ("array", "asarray"):
        for value in PYTHON_VALUES:
            yield Case(op, (value,))
        for dtype in DTYPES:
            for value in (True, 3, 2.5, [1, 2], [[1.5, 0.0]], [True, False], [], 1j):
                yield Case(op, (value, Dtype(dtype)))
                yield Case(op, (value,), {"dtype": Dtype(dtype)})
            array = Array(dtype, (2, 3), "transposed", "unit")
            yield Case(op, (array,))
            yield Case(op, ([array, array],))
            yield Case(op, ([Array(dtype, ()), 1],))
            for other in DTYPES:
                yield Case(op, (array, Dtype(other)))
        for name in NUMPY_DTYPES.split():
            base = np.arange(12).reshape(3, 4).astype(name)
            for data in (base, base.T, base[::-1, ::2], base[:0], base[0, 0], base[1]):
                yield Case(op, (data,))
                yield Case(op, (data, Dtype("float32")))
            yield Case(op, ([base[0], base[1]],))
            yield Case(op, (base[0, 0].item(),))
        yield Case(op, (np.array(["a"]),))
        yield Case(op, (np.array([object()]),))
        yield Case(op, (np.zeros((2, 2), ">f4"),))
        yield Case(op, (np.float32(2.5),))
        yield Case(op, (np.int64(3),))
        yield Case(op, (np.zeros(3, np.complex128),))
        yield Case(op, ([np.float32(1), 2],))
        yield Case(op, (range(3),))
        yield Case(op, (memoryview(b"abc"),))
        yield Case(op, (b"abc",))
    for copy in (None, True, False):
        yield Case("asarray", ([1, 2],), {"copy": copy})
        yield Case("asarray", (np.arange(3),), {"copy": copy})
        yield Case("asarray", (Array("float32", (3,)),), {"copy": copy})
        yield Case("asarray", (Array("float32", (3,)), Dtype("int8")), {"copy": copy})
        for name in NUMPY_DTYPES.split():
            yield Case("from_dlpack", (np.arange(6).reshape(2, 3).astype(name),), {"copy": copy})
        yield Case("from_dlpack", (Array("float32", (2, 3), "transposed"),), {"copy": copy})
    yield Case("from_dlpack", ([1, 2],))
    yield Case("from_dlpack", (np.arange(6)[::2],))


def _casts() -> Iterator[Case]:
    for dtype in DTYPES:
        for target in DTYPES:
            # Floats out of the target's range have no defined value, hence small numbers; integers
            # wrap.
            values = "any" if dtype in INTEGERS else "positive"
            for array in varied(dtype, values, small=True):
                yield Case("astype", (array, Dtype(target)))
            if target in FLOATS:
                yield Case("astype", (Array(dtype, (37,)), Dtype(target)))
    yield Case("astype", (Array("float32", (3,)), "int32"))
    yield Case("astype", (Array("float32", (3,)), int))
    yield Case("astype", (2.5, Dtype("int32")))


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_filled, _likes, _ranges, _identities, _arrays, _casts):
        for case in generate():
            add(case)
