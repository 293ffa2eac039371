"""The oracle's cases with empty arrays in them: each length of a case set to 0 in turn.

In: a case that is known to be valid. Out: cases in which some length is 0 everywhere it occurs (so
that shapes that belonged together still do), and cases in which one axis of one array is empty
(so that one operand alone is: empty indices, empty updates, an empty reduced axis).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tests.oracle.cases.case import Case
from tests.oracle.harness.inputs import Array, Given

Shape = tuple[int, ...]


def arrays_of(value: Any) -> Iterator[Array | Given]:
    """The descriptions of arrays in arguments."""
    if isinstance(value, (Array, Given)):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays_of(item)


def _reshaped(value: Any, shapes: Iterator[Shape]) -> Any:
    """`value` with the shapes of its arrays replaced, in the order of `arrays_of`."""
    if isinstance(value, Array):
        return value.but(shape=next(shapes))
    if isinstance(value, Given):
        shape = next(shapes)
        return Array(value.dtype, shape) if 0 in shape else value
    if isinstance(value, dict):
        return {key: _reshaped(item, shapes) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_reshaped(item, shapes) for item in value)
    return value


def _shape(array: Array | Given) -> Shape:
    return array.shape if isinstance(array, Array) else np.shape(array.value)


def _variants(shapes: list[Shape]) -> Iterator[list[Shape]]:
    for length in sorted({length for shape in shapes for length in shape} - {0}):
        yield [tuple(0 if n == length else n for n in shape) for shape in shapes]
    for number, shape in enumerate(shapes):
        for axis in range(len(shape)):
            emptied = (*shape[:axis], 0, *shape[axis + 1 :])
            yield [*shapes[:number], emptied, *shapes[number + 1 :]]


def emptied(case: Case) -> Iterator[Case]:
    """The variants of a case in which something is empty that was not; each once."""
    shapes = [_shape(array) for array in arrays_of((case.args, case.kwargs))]
    seen = {tuple(shapes)}
    for variant in _variants(shapes):
        if tuple(variant) not in seen:
            seen.add(tuple(variant))
            made = iter(variant)
            args, kwargs = _reshaped((case.args, case.kwargs), made)
            yield replace(case, args=args, kwargs=kwargs)
