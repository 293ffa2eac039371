"""Reductions, scans and softmax."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.oracle.cases.case import Case, add
from tests.oracle.harness import references
from tests.oracle.harness.compare import EXACT, Close
from tests.oracle.harness.inputs import DTYPES, INEXACT, Array, Dtype

AXES: list[Any] = [None, 0, -1, 1, (0, 2), (-1, 0), [1], (), 7, (0, 0)]
SHAPES = [
    ((), "plain"),
    ((1,), "plain"),
    ((37,), "plain"),
    ((0,), "plain"),
    ((2, 0, 3), "plain"),
    ((3, 4), "transposed"),
    ((4, 5), "stepped"),
    ((2, 3, 4), "plain"),
    ((2, 3, 4), "reversed"),
    ((2, 3, 4), "broadcast"),
    ((3, 2, 5), "transposed"),
]

# A sum of n terms of size 3 errs in proportion to their absolute sum, which is about a hundred
# here.
SUM = Close(4, 2, 100)
REDUCTIONS: dict[str, tuple[tuple[str, ...], Close]] = {
    "all": (("any", "ties"), EXACT),
    "any": (("any", "ties"), EXACT),
    "sum": (("finite",), SUM),
    "prod": (("unit",), Close(32, 4)),
    "max": (("any", "ties"), EXACT),
    "min": (("any", "ties"), EXACT),
    "mean": (("finite",), Close(4, 2, 10)),
    "median": (("finite", "ties"), Close(2, 1)),
    "logsumexp": (("finite", "any"), Close(8, 1, 1)),
    "argmax": (("finite", "ties"), EXACT),
    "argmin": (("finite", "ties"), EXACT),
    "count_nonzero": (("any", "ties"), EXACT),
}
SPREADS = {"var": Close(16, 4, 10), "std": Close(16, 4, 5)}
SCANS: dict[str, tuple[str, Close]] = {
    "cumsum": ("finite", SUM),
    "cumprod": ("unit", Close(32, 4)),
    "cummax": ("any", EXACT),
    "cummin": ("any", EXACT),
    "logcumsumexp": ("finite", Close(8, 2, 4)),
}
SCANS["cumulative_sum"] = SCANS["cumsum"]
SCANS["cumulative_prod"] = SCANS["cumprod"]


def _deep(dtype: str) -> bool:
    """Whether all combinations of parameters are tried with `dtype`; the others get a selection."""
    return dtype in ("float32", "int32", "bool_")


def _parameters(op: str, dtype: str) -> Iterator[dict[str, Any]]:
    axes = [axis for axis in AXES if not (op in ("argmax", "argmin") and isinstance(axis, tuple))]
    if _deep(dtype):
        yield from ({"axis": axis, "keepdims": keep} for axis, keep in product(axes, (False, True)))
    else:
        yield from ({"axis": axis} for axis in (None, 0, -1))
        yield {"axis": axes[-3], "keepdims": True}


def _reductions() -> Iterator[Case]:
    for op, (kinds, close) in REDUCTIONS.items():
        for dtype, values, (shape, layout) in product(DTYPES, kinds, SHAPES):
            array = Array(dtype, shape, layout, values)
            exact = op == "logsumexp" and dtype != "complex64"
            reference = references.logsumexp if exact else None
            yield Case(op, (array,), close=close, reference=reference)
            for parameters in _parameters(op, dtype):
                yield Case(op, (array,), parameters, None, close, reference)
            if op != "count_nonzero":
                yield Case(op, (array, -1, True), close=close, reference=reference)
    for dtype in INEXACT[:-1]:
        for op in ("max", "min", "argmax", "argmin"):
            for axis in (None, 0, 1):
                yield Case(op, (Array(dtype, (6, 7), values="nan"),), {"axis": axis})


def _spreads() -> Iterator[Case]:
    for op, close in SPREADS.items():
        for dtype, (shape, layout) in product(DTYPES, SHAPES):
            array = Array(dtype, shape, layout, "finite")
            yield Case(op, (array,), close=close)
            yield Case(op, (array, -1, True, 1), close=close)
            for parameters in _parameters(op, dtype):
                yield Case(op, (array,), parameters, close=close)
            for ddof in (0, 1, 2, 50):
                yield Case(op, (array,), {"axis": 0, "ddof": ddof}, close=close)
            yield Case(op, (array,), {"correction": 1}, close=close)
            yield Case(op, (array,), {"ddof": 1, "correction": 1}, close=close)


def _exponential(mx: Any, array: Any, *args: Any, **kwargs: Any) -> Any:
    """The logarithm of a complex number is defined up to multiples of 2 pi i: undo it."""
    return mx.exp(mx.logcumsumexp(array, *args, **kwargs))


def _complex_logarithms() -> Iterator[Case]:
    for shape, layout in SHAPES:
        array = Array("complex64", shape, layout, "unit")
        for axis, reverse in product((None, 0, -1), (False, True)):
            kwargs = {"axis": axis, "reverse": reverse}
            yield Case("logcumsumexp", (array,), kwargs, _exponential, Close(32, 2, 10))


def _scans() -> Iterator[Case]:
    for op, (values, close) in SCANS.items():
        for dtype, (shape, layout) in product(DTYPES, SHAPES):
            if op == "logcumsumexp" and dtype == "complex64":
                continue
            array = Array(dtype, shape, layout, values)
            # MLX computes exp in single precision, whatever the dtype.
            exact = op == "logcumsumexp" and dtype == "float64" and shape
            reference = references.logcumsumexp if exact else None
            yield Case(op, (array,), close=close, reference=reference)
            for axis in (0, 1, -1, 7) if _deep(dtype) else (0, -1):
                yield Case(op, (array, axis), close=close, reference=reference)
                for reverse, inclusive in product((False, True), (False, True)):
                    flags = {"axis": axis, "reverse": reverse, "inclusive": inclusive}
                    yield Case(op, (array,), flags, None, close, reference)
            flags = {"reverse": True, "inclusive": False}
            yield Case(op, (array,), flags, None, close, reference)
        if ("sum" in op and op != "logcumsumexp") or "prod" in op:
            for dtype, target in product(DTYPES, ("int32", "float16", "float32", "bool_", "int64")):
                array = Array(dtype, (3, 4), values="ties")
                yield Case(op, (array,), {"axis": 1, "dtype": Dtype(target)}, close=close)


def _normalised() -> Iterator[Case]:
    close = Close(8, 2, 0.01)
    for dtype, (shape, layout) in product(DTYPES, SHAPES):
        array = Array(dtype, shape, layout, "finite")
        simple = dtype != "complex64" and 0 not in shape
        for axis in AXES if _deep(dtype) else (None, 0, -1):
            for precise in (False, True):
                kwargs = {"axis": axis, "precise": precise}
                reference = references.softmax if simple and not isinstance(axis, tuple) else None
                yield Case("softmax", (array,), kwargs, None, close, reference)
        reference = references.softmax if simple else None
        yield Case("softmax", (array,), close=close, reference=reference)
    for dtype in INEXACT[:-1]:
        # Rows with NaN and inf.
        array = Array(dtype, (6, 7))
        yield Case("softmax", (array, -1), close=close, reference=references.softmax)


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_reductions, _spreads, _scans, _complex_logarithms, _normalised):
        for case in generate():
            add(case)
