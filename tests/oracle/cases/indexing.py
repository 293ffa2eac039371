"""Indexing: getitem, setitem, `at`, take, put and slices at run-time positions.

Indices stay within range: MLX reads and writes foreign memory beyond it. What ingot does there is
tested in test_errors_match_mlx.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.oracle.cases.case import Case, add
from tests.oracle.harness.compare import Close
from tests.oracle.harness.inputs import DTYPES, INTEGERS, Array, Given

s = slice
N = None
E = Ellipsis
# Indices into an array of shape (4, 3, 5).
STATIC: list[Any] = [
    *(0, -1, 3, -4, N, E, s(N), ()),
    *(s(1, 3), s(N, N, 2), s(N, N, -1), s(-1, 0, -2), s(2, 1), s(10, 20), s(-100, 2), s(3, N, -1)),
    *((0, 1), (0, 1, 2), (-1, -1, -1), (s(1, 3), 0), (0, s(N), 1), (E, 0), (E, s(N, N, 2)), (0, E)),
    *((N, 0), (0, N), (E, N), (N, E, N), (s(N), N, 1), (N, N), (1, E, 2), (s(N, N, -2), s(N), -1)),
    *((s(0, 0),), (s(N), s(N), s(4, 0, -3)), (0, 0, 0, N), (E,), (N, s(2), E, s(N, N, 3))),
    *((0, 1, 2, 3), (E, E), "x", 1.5, (0, 1.5), True, [0, 1], [0, 2]),
]


def _given(value: Any, dtype: str = "int32") -> Given:
    return Given(value, dtype)


# Indices that hold arrays.
GATHERS: list[Any] = [
    _given(2),
    _given([0, 2]),
    _given([-1, 1, 1]),
    _given([[0, 1], [2, 3]]),
    _given([], "int32"),
    (_given([0, 1]), _given([2, 0])),
    (_given([0, 1]), 2),
    (1, _given([0, 2])),
    (s(N), _given([0, 2])),
    (s(1, 3), _given([0, 2]), s(N, N, 2)),
    (_given([0, 1]), s(N), _given([2, 4])),
    (_given([[0], [1]]), _given([0, 2, 1])),
    (E, _given([4, 0])),
    (_given([0, 1]), E),
    (N, _given([0, 1])),
    (_given([0, 1]), N),
    (s(N), N, _given([0, 1])),
    (_given(1), _given(2)),
    (_given(1), s(N), 0),
    (s(N, N, -1), _given([0, 1])),
    (_given([3, 0]), _given([0, 1]), _given([2, 2])),
    (0, s(N), _given([1, 3])),
    (_given([0, 1]), _given([0, 1, 2])),
    _given([0.5], "float32"),
    _given([True, False, True, False], "bool_"),
]


def _get(mx: Any, array: Any, index: Any) -> Any:
    return array[index]


def _set(mx: Any, array: Any, index: Any, value: Any) -> Any:
    """The changed array, and one that shared its values, which must not change."""
    alias = array + array
    before = mx.array(array)
    array[index] = value
    return array, alias, before


def _at(name: str) -> Any:
    def run(mx: Any, array: Any, index: Any, value: Any) -> Any:
        return getattr(array.at[index], name)(value), array

    return run


def _getitems() -> Iterator[Case]:
    for index in (*STATIC, *GATHERS):
        for layout in ("plain", "transposed", "reversed", "broadcast"):
            array = Array("float32", (4, 3, 5), layout)
            yield Case("array.__getitem__", (array, index), run=_get)
        for dtype in DTYPES:
            array = Array(dtype, (4, 3, 5))
            yield Case("array.__getitem__", (array, index), run=_get)
    for index in (E, N, (), (N, E), 0, s(N), (E, N), _given([0])):
        yield Case("array.__getitem__", (Array("int32", ()), index), run=_get)
    for index in (s(N), s(1, 3), E, (s(N), 0), (E, 0), _given([], "int32")):
        yield Case("array.__getitem__", (Array("int32", (0, 3)), index), run=_get)
    for dtype in INTEGERS:
        array = Array("float32", (5, 2))
        yield Case("array.__getitem__", (array, _given([0, 3, 1], dtype)), run=_get)
        yield Case("array.__getitem__", (array, (_given(1, dtype), s(N))), run=_get)


# Shapes of values to assign: those that do not broadcast are errors in both libraries.
VALUES: list[Any] = [
    1,
    2.5,
    Array("float32", (), values="finite"),
    Array("float32", (5,), values="finite"),
    Array("float32", (1, 5), values="finite"),
    Array("float32", (3, 5), values="finite"),
    Array("float32", (2, 5), "transposed", "finite"),
    Array("int32", (1,), values="finite"),
]
# An index that names a position twice has no defined winner in assignment.
UNIQUE = [index for index in GATHERS if repr(index) != repr(GATHERS[2])]


def _setitems() -> Iterator[Case]:
    for index, value in product((*STATIC, *UNIQUE), VALUES):
        for layout in ("plain", "transposed"):
            array = Array("float32", (4, 3, 5), layout, "finite")
            yield Case("array.__setitem__", (array, index, value), run=_set)
    for dtype, index in product(DTYPES, (0, s(N, N, 2), (E, 1), UNIQUE[1], UNIQUE[4])):
        array = Array(dtype, (4, 3, 5), values="finite")
        for value in (True, 3, 1.5, Array("float16", (1,), values="positive")):
            yield Case("array.__setitem__", (array, index, value), run=_set)
    for index in (E, N, (), (N, E)):
        yield Case("array.__setitem__", (Array("int32", ()), index, 7), run=_set)
    yield Case("array.__setitem__", (Array("int32", (3,)), 0, [1, 2]), run=_set)
    yield Case("array.__setitem__", (Array("int32", (3,)), s(N), None), run=_set)
    yield Case("array.__setitem__", (Array("int32", (3,)), s(N), "text"), run=_set)
    # A boolean mask of the array's own shape may be assigned to.
    mask = Array("bool_", (4, 3), seed=1)
    for value in (0, 2.5, Array("float32", (), values="finite")):
        yield Case("array.__setitem__", (Array("float32", (4, 3)), mask, value), run=_set)
        yield Case("array.__setitem__", (Array("float32", (4, 3, 5)), mask, value), run=_set)


def _ats() -> Iterator[Case]:
    close = Close(4, 2, 10)
    names = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
    for name in names:
        for index, value in product((*STATIC, *GATHERS), (2, VALUES[2], VALUES[3], VALUES[5])):
            array = Array("float32", (4, 3, 5), values="finite")
            yield Case("array.at", (array, index, value), None or {}, _at(name), close, None, name)
        for dtype in DTYPES:
            array = Array(dtype, (4, 3, 5), values="positive")
            for index in (1, s(N, N, 2), GATHERS[2], GATHERS[5], (E, GATHERS[2])):
                value = Array(dtype, (1,), values="positive")
                yield Case("array.at", (array, index, value), {}, _at(name), close, None, name)
                yield Case("array.at", (array, index, 2), {}, _at(name), close, None, name)


def _takes() -> Iterator[Case]:
    for dtype, layout in product(DTYPES, ("plain", "transposed", "stepped")):
        array = Array(dtype, (4, 5), layout)
        for axis in (None, 0, 1, -1, 7):
            for indices in (2, _given([0, 3, -1]), _given([[1, 0], [3, 3]]), _given([], "int32")):
                yield Case("take", (array, indices), {"axis": axis})
        yield Case("take", (array, _given([1, 2], "uint8"), 1))
        yield Case("take", (array, _given([0.5], "float32")))
        for axis, indices in (
            (1, _given([[0], [4], [2], [1]])),
            (0, _given([[0, 1, 2, 3, 0], [3, 2, 1, 0, 0]])),
            (-1, _given([[0, -1], [4, 4], [2, 0], [1, 1]])),
            (None, _given([0, 19, 7])),
            (0, _given([1, 2])),
            (7, _given([[0]])),
            (1, _given([[0, 1]])),
        ):
            yield Case("take_along_axis", (array, indices), {"axis": axis})
            value = Array(dtype, (), values="unit")
            yield Case("put_along_axis", (array, indices, value), {"axis": axis})
        yield Case("take_along_axis", (array, _given([[0], [1], [2], [3]])))
        source = Array(dtype, (4, 2), values="ties", seed=4)
        indices = _given([[0, 1], [2, 3], [4, 0], [1, 2]], "uint32")
        yield Case("put_along_axis", (array, indices, source, 1))
        # Small numbers: a float out of the range of integers has no defined value there.
        floats = Array("float32", (4, 2), values="positive")
        yield Case("put_along_axis", (array, indices, floats, 1))


def _slices() -> Iterator[Case]:
    for dtype, layout in product(DTYPES, ("plain", "transposed", "stepped")):
        array = Array(dtype, (4, 5), layout)
        yield Case("slice", (array, _given([1, 2]), (0, 1), (2, 3)))
        yield Case("slice", (array, _given([1]), (1,), (4, 2)))
        yield Case("slice", (array, _given(1), (-1,), (4, 2)))
        yield Case("slice", (array, _given([1]), (0, 1), (2, 3)))
        yield Case("slice", (array, _given([1]), (7,), (2, 3)))
        yield Case("slice", (array, _given([0, 0]), (0, 1), (9, 3)))
        yield Case("slice", (array, _given([0, 0]), (0, 0), (2, 3)))
        update = Array(dtype, (2, 3), "transposed", seed=1)
        yield Case("slice_update", (array, update, _given([1, 2]), (0, 1)))
        yield Case("slice_update", (array, update, _given([1]), (1,)))
        yield Case("slice_update", (array, update, _given([1]), (0, 1)))
        floats = Array("float32", (1, 5), values="positive")
        yield Case("slice_update", (array, floats, _given([2]), (0,)))
        yield Case("slice_update", (array, Array(dtype, (9, 9)), _given([0, 0]), (0, 1)))


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_getitems, _setitems, _ats, _takes, _slices):
        for case in generate():
            add(case)
