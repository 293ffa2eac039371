"""Sorting, partitions and searches.

Partitions are compared up to the order within each part, which neither library promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.oracle.cases.case import Case, add
from tests.oracle.harness.inputs import DTYPES, Array

AXES: list[Any] = [None, 0, -1, 1, 7]
SHAPES = [
    ((), "plain"),
    ((1,), "plain"),
    ((37,), "plain"),
    ((0,), "plain"),
    ((2, 0, 3), "plain"),
    ((4, 5), "transposed"),
    ((4, 5), "stepped"),
    ((3, 6), "reversed"),
    ((3, 6), "broadcast"),
    ((2, 3, 4), "plain"),
]


def _partitioned(op: str) -> Any:
    """The values before, at and after `kth`, each part sorted."""

    def run(mx: Any, array: Any, kth: int, axis: Any = -1) -> Any:
        result = getattr(mx, op)(array, kth, axis)
        if op == "argpartition":
            source = mx.flatten(array) if axis is None else array
            result = mx.take_along_axis(source, result, -1 if axis is None else axis)
        if axis is None or array.ndim == 0:
            axis = 0
        kth = kth % max(result.shape[axis], 1)
        before, at, after = mx.split(result, [kth, kth + 1], axis)
        return mx.sort(before, axis), at, mx.sort(after, axis)

    return run


def _sorted_topk(mx: Any, array: Any, k: int, axis: Any = -1) -> Any:
    result = mx.topk(array, k, axis)
    return mx.sort(result, 0 if axis is None else axis)


def _sorts() -> Iterator[Case]:
    for dtype, (shape, layout) in product(DTYPES, SHAPES):
        kinds = (
            ("any", "ties", "nan") if dtype.endswith("6") or "float" in dtype else ("any", "ties")
        )
        for values in kinds:
            array = Array(dtype, shape, layout, values)
            yield Case("sort", (array,))
            for axis in AXES:
                yield Case("sort", (array, axis))
                yield Case("sort", (array,), {"axis": axis})
                yield Case("argsort", (array,), {"axis": axis})
            yield Case("argsort", (array,))
        for values in ("ties", "finite"):
            array = Array(dtype, shape, layout, values)
            for axis, kth in product(AXES, (0, 2, -1, 99)):
                for op in ("partition", "argpartition"):
                    yield Case(op, (array, kth), {"axis": axis}, _partitioned(op))
                yield Case("topk", (array, kth), {"axis": axis}, _sorted_topk)


def _searches() -> Iterator[Case]:
    def search(mx: Any, sequence: Any, values: Any, **kwargs: Any) -> Any:
        return mx.searchsorted(mx.sort(sequence), values, **kwargs)

    for dtype in DTYPES:
        for length, (shape, layout) in product((0, 1, 9), SHAPES):
            sequence = Array(dtype, (length,), values="ties")
            values = Array(dtype, shape, layout, "finite", 1)
            yield Case("searchsorted", (sequence, values), run=search)
            for side in ("left", "right"):
                yield Case("searchsorted", (sequence, values), {"side": side}, search)
        yield Case("searchsorted", (Array(dtype, (5,), values="ties"), 1), run=search)
        yield Case("searchsorted", (Array(dtype, (3, 5)), Array(dtype, (2,))))
        for other in ("int8", "float16", "float32"):
            values = Array(other, (4,), values="finite")
            yield Case("searchsorted", (Array(dtype, (5,), values="ties"), values), run=search)


def _unique() -> Iterator[Case]:
    for dtype, (shape, layout) in product(DTYPES, SHAPES):
        array = Array(dtype, shape, layout, "ties")
        for size in (0, 2, 9):
            yield Case("unique", (array, size))
            yield Case("unique", (array, size, True, True, True), {"fill_value": 1})


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_sorts, _searches, _unique):
        for case in generate():
            add(case)
