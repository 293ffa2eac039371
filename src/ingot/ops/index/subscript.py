"""a[...] and a[...] = v: Python's subscripts lowered to slices, gathers and scatters.

A subscript is parsed first: ints and slices become one `Slice`, and index arrays gather from its
result. An assignment is the inverse: the slice is taken, the values are scattered into it, and it
is written back.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index as as_int
from typing import Any

import numpy as np

from ingot._native import array, make, wrap
from ingot.graph.boundary import at_boundary, attach
from ingot.graph.dtype import bool_
from ingot.graph.errors import value_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply
from ingot.graph.reporting.hints import INDEXED, add_hints
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.arithmetic import add, multiply, reciprocal
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.extremes import maximum, minimum
from ingot.ops.index.indexing import Put, Take, checked_indices, move_block
from ingot.ops.index.masking import assign_where
from ingot.ops.index.nonzero import mask_indices, selected_by
from ingot.ops.shape.movement import as_array, broadcast_to, reshape
from ingot.ops.shape.slicing import Slice, SliceUpdate, element, span_length

__all__ = ["ArrayAt"]

_EVERYTHING = slice(None)
_INDEXED = object()  # placeholder for the axes of the indices in a list of a result's axes

_COMBINE: dict[str, Callable[[array, array], array]] = {
    "assign": lambda old, new: new,
    "add": add,
    "multiply": multiply,
    "maximum": maximum,
    "minimum": minimum,
}


@dataclass(slots=True)
class Selection:
    """The elements that a subscript selects, and their arrangement in the result."""

    part: Slice | None  # the slice for ints and slices; None for everything
    axes: Shape  # of the slice's result: those indexed by arrays
    indices: tuple[array, ...]
    to_front: bool  # whether the axes of the indices go first, wherever a gather puts them
    shape: Shape  # of the result
    plain_shape: Shape  # of the result without its new axes


def getitem(a: array, index: Any) -> array:
    """`a[index]`.

    Ints, slices, None, Ellipsis, arrays and lists of ints are combined as with NumPy. Slices are
    views. An int out of range raises IndexError at once, an array of indices when it is evaluated.
    A boolean mask is evaluated at once, since the result's shape depends on its values.
    """
    shape = a.shape
    if shape and type(index) is int:
        return element(a, 0, index)
    if shape and type(index) is slice:
        begin, end, stride = _bounds("getitem", index, shape[0])
        rest = (0,) * (len(shape) - 1)
        op = Slice((begin, *rest), (end, *shape[1:]), (stride,) + (1,) * len(rest))
        return make(op, (a,), (span_length(begin, end, stride), *shape[1:]), a.dtype)
    mask = None if isinstance(index, (tuple, bool)) else _as_mask(index)
    if mask is not None:
        return selected_by("getitem", a, mask)
    return read(a, locate("getitem", a, index))


def setitem(a: array, index: Any, value: Any) -> None:
    """`a[index] = value`: points the handle to an updated array; graphs keep the old one.

    The value is converted to the dtype of `a` and broadcast. A boolean mask over the first axes
    assigns where it is True.
    """
    values = astype(_as_values("setitem", a, value), a.dtype)
    mask = _as_mask(index)
    if mask is not None:
        updated = assign_where(a, mask, values)
    else:
        updated = write("setitem", a, locate("setitem", a, index), values, "assign")
    a._node = updated._node


def read(a: array, selection: Selection) -> array:
    """The elements of a selection."""
    part = _part(a, selection)
    if selection.indices:
        op = Take(selection.axes)
        part = apply(op, part, *selection.indices)
        if selection.to_front:
            part = move_block(part, op.position, 0, selection.indices[0].ndim)
    if len(selection.shape) != len(selection.plain_shape):
        return reshape(part, selection.shape)
    return wrap(a) if part is a else part


def _part(a: array, selection: Selection) -> array:
    """The slice for the ints and slices of a subscript."""
    if selection.part is None:
        return a
    shape = selection.part.shape if selection.indices else selection.plain_shape
    return make(selection.part, (a,), shape, a.dtype)


def write(name: str, a: array, selection: Selection, values: array, mode: str) -> array:
    """`a` with `values` combined into a selection."""
    updates = reshape(_fitted(name, values, selection.shape), selection.plain_shape)
    part = _part(a, selection)
    if selection.indices:
        op = Put(selection.axes, mode)
        if selection.to_front:
            updates = move_block(updates, 0, op.position, selection.indices[0].ndim)
        part = apply(op, part, updates, *selection.indices)
    else:
        part = _COMBINE[mode](part, updates)
    if selection.part is None:
        return part
    back = SliceUpdate(selection.part.start, selection.part.stop, selection.part.strides)
    return make(back, (a, reshape(part, selection.part.kept_shape)), a.shape, a.dtype)


def locate(name: str, a: array, index: Any) -> Selection:
    """The selection of a subscript."""
    lengths = a.shape
    spans: list[tuple[int, int, int]] = []
    dropped: list[int] = []
    arrays: dict[int, array] = {}  # by axis of the slice's result
    layout: list[Any] = []  # the result's axes: lengths, None for a new one, and _INDEXED
    everything = True
    for entry in _entries(name, index, lengths):
        if entry is None:
            layout.append(None)
            continue
        axis = len(spans)
        length = lengths[axis]
        if entry is _EVERYTHING:
            spans.append((0, length, 1))
            layout.append(length)
        elif type(entry) is slice:
            span = _bounds(name, entry, length)
            spans.append(span)
            layout.append(span_length(*span))
            everything = everything and span == (0, length, 1)
        elif type(entry) is int:
            position = _position(name, entry, length)
            spans.append((position, position + 1, 1))
            layout.append(_INDEXED)
            dropped.append(axis)
        else:
            spans.append((0, length, 1))
            layout.append(_INDEXED)
            arrays[axis - len(dropped)] = entry
    part = None
    if dropped or not everything:
        start, stop, strides = zip(*spans, strict=True)
        part = Slice(start, stop, strides, tuple(dropped))
    if not arrays:
        lengths = tuple([n for n in layout if n is not None and n is not _INDEXED])
        shape = lengths if None not in layout else _arranged(layout, (), False)
        return Selection(part, (), (), False, shape, lengths)
    axes = tuple(arrays)
    rest = lengths if part is None else part.shape
    indices = checked_indices(name, [rest[axis] for axis in axes], list(arrays.values()))
    index_shape = indices[0].shape
    to_front = _is_separated(layout)
    shape = _arranged(layout, index_shape, to_front)
    plain = [length for length in layout if length is not None]
    plain_shape = shape if len(plain) == len(layout) else _arranged(plain, index_shape, to_front)
    return Selection(part, axes, indices, to_front, shape, plain_shape)


def _entries(name: str, index: Any, lengths: Shape) -> list[Any]:
    """The entries of a subscript: None and, for each axis in order, a slice, int or array."""
    ndim = len(lengths)
    entries: list[Any] = []
    has_masks = False
    count = 0
    ellipsis_at = -1
    for entry in index if type(index) is tuple else (index,):
        kind = type(entry)
        if entry is Ellipsis:
            if ellipsis_at >= 0:
                raise ValueError(f"[{name}] a subscript can have only one ellipsis.")
            ellipsis_at = len(entries)
        elif entry is None:
            entries.append(None)
        else:
            part = entry if kind is slice or kind is int else _entry(name, entry)
            is_mask = isinstance(part, array) and part.dtype is bool_
            has_masks = has_masks or is_mask
            entries.append(part)
            count += part.ndim if is_mask else 1
    if count > ndim:
        raise ValueError(f"[{name}] too many indices: {count} for an array with {ndim} axes.")
    if count < ndim:
        at = len(entries) if ellipsis_at < 0 else ellipsis_at
        entries[at:at] = [_EVERYTHING] * (ndim - count)
    return _without_masks(name, entries, lengths) if has_masks else entries


def _without_masks(name: str, entries: list[Any], lengths: Shape) -> list[Any]:
    """The entries with index arrays, one for each of its axes, in the place of each mask."""
    found: list[Any] = []
    axis = 0
    for entry in entries:
        if not isinstance(entry, array) or entry.dtype is not bool_:
            found.append(entry)
            axis += entry is not None
            continue
        covered = lengths[axis : axis + entry.ndim]
        if entry.ndim == 0 or entry.shape != covered:
            raise ValueError(
                f"[{name}] a mask of shape {shape_text(entry.shape)} does not match the axes of "
                f"lengths {shape_text(covered)} that it stands for in the subscript."
            )
        found += mask_indices(name, entry)
        axis += entry.ndim
    return found


def _entry(name: str, entry: Any) -> Any:
    """One entry of a subscript that is neither a plain int nor an array."""
    if isinstance(entry, list) or (isinstance(entry, np.ndarray) and entry.dtype.kind == "b"):
        entry = array(entry)
    if isinstance(entry, array):
        return entry
    if not isinstance(entry, bool):
        try:
            return as_int(entry)
        except TypeError:
            pass
    hint = ""
    if isinstance(entry, (np.ndarray, range)):
        hint = ": make it an array first"
    elif isinstance(entry, (float, np.floating)):
        hint = ": indices are integers, use int(...) or //"
    raise ValueError(
        f"[{name}] an array cannot be indexed with {type(entry).__name__} {entry!r}{hint}."
    )


def _bounds(name: str, entry: slice, length: int) -> tuple[int, int, int]:
    """The start, stop and stride of a slice as nonnegative positions; (0, 0, 1) if it is empty.

    Like `slice.indices`, but with plain arithmetic, which keeps symbolic lengths symbolic.
    """
    try:
        stride = 1 if entry.step is None else _as_int(entry.step)
        if stride > 0:
            start = 0 if entry.start is None else _clamped(entry.start, 0, length, length)
            stop = length if entry.stop is None else _clamped(entry.stop, 0, length, length)
            return (start, stop, stride) if start < stop else (0, 0, 1)
        last = length - 1
        start = last if entry.start is None else _clamped(entry.start, -1, last, length)
        stop = -1 if entry.stop is None else _clamped(entry.stop, -1, last, length)
    except TypeError:
        raise ValueError(
            f"[{name}] the parts of a slice must be ints or None, got {value_text(entry)}."
        ) from None
    if stride == 0:
        raise ValueError(f"[{name}] the step of a slice cannot be 0.")
    return (start, stop, stride) if start > stop else (0, 0, 1)


def _as_int(number: Any) -> int:
    return number if isinstance(number, int) else as_int(number)


def _clamped(bound: Any, lowest: int, highest: int, length: int) -> int:
    """A bound of a slice, which may count from the end, clamped to limits."""
    position = _as_int(bound)
    if position < 0:
        position = position + length
    if position < lowest:
        return lowest
    return position if position < highest else highest


def _position(name: str, position: int, length: int) -> int:
    if not -length <= position < length:
        raise IndexError(
            f"[{name}] index {position} is out of range for an axis of length {length}."
        )
    return position + length if position < 0 else position


def _is_separated(layout: list[Any]) -> bool:
    """Whether a slice or a new axis separates ints and arrays, as in a[0, :, indices]."""
    positions = [at for at, length in enumerate(layout) if length is _INDEXED]
    return positions[-1] - positions[0] >= len(positions)


def _arranged(layout: list[Any], index_shape: Shape, to_front: bool) -> Shape:
    """The lengths of the result's axes, with those of the indices first or in place."""
    shape: list[int] = list(index_shape) if to_front else []
    pending = () if to_front else index_shape
    for length in layout:
        if length is _INDEXED:
            shape.extend(pending)
            pending = ()
        else:
            shape.append(1 if length is None else length)
    return tuple(shape)


def _as_values(name: str, a: array, value: Any) -> array:
    """Convert the assigned values; numbers take the dtype of `a` if it can hold their kind."""
    if value is None:
        raise TypeError(f"[{name}] takes a number or an array, got None.")
    return as_array(name, value, a.dtype)


def _fitted(name: str, values: array, shape: Shape) -> array:
    """The values broadcast to the shape of the selection, without leading axes of length 1."""
    extra = values.ndim - len(shape)
    if extra > 0 and values.shape[:extra] == (1,) * extra:
        values = reshape(values, values.shape[extra:])
    own = values.shape
    fits = len(own) <= len(shape) and all(
        length in (wanted, 1) for length, wanted in zip(own[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"[{name}] values of shape {shape_text(own)} do not broadcast to shape "
            f"{shape_text(shape)}, which the subscript names."
        )
    return broadcast_to(values, shape)


def _as_mask(index: Any) -> array | None:
    """The subscript as a boolean mask, if it is one."""
    is_numpy = isinstance(index, (np.ndarray, np.bool_)) and index.dtype.kind == "b"
    if is_numpy or isinstance(index, (bool, list)):
        index = array(index)
    return index if isinstance(index, array) and index.dtype is bool_ else None


_NO_INDEX = object()


class ArrayAt:
    """`a.at[index]`: updates of a selection, in which repeated indices accumulate.

    `a.at[index].add(v)` is a new array; `a` is unchanged.
    """

    def __init__(self, a: array, index: Any = _NO_INDEX) -> None:
        self._array = a
        self._index = index

    def __getitem__(self, index: Any) -> ArrayAt:
        return ArrayAt(self._array, index)

    def add(self, value: Any) -> array:
        """`a` with `value` added."""
        return self._updated("add", self._values("add", value))

    def subtract(self, value: Any) -> array:
        """`a` with `value` subtracted."""
        return self._updated("add", -self._values("subtract", value))

    def multiply(self, value: Any) -> array:
        """`a` multiplied by `value`."""
        return self._updated("multiply", self._values("multiply", value))

    def divide(self, value: Any) -> array:
        """`a` multiplied by the reciprocal of `value`, which is converted to the dtype of `a`."""
        return self._updated("multiply", reciprocal(self._values("divide", value)))

    def maximum(self, value: Any) -> array:
        """`a` with the larger of its elements and `value`."""
        return self._updated("maximum", self._values("maximum", value))

    def minimum(self, value: Any) -> array:
        """`a` with the smaller of its elements and `value`."""
        return self._updated("minimum", self._values("minimum", value))

    def _values(self, name: str, value: Any) -> array:
        return _as_values(f"at.{name}", self._array, value)

    def _updated(self, mode: str, values: array) -> array:
        a = self._array
        if self._index is _NO_INDEX:
            raise ValueError("[at] say what to update: a.at[index], or a.at[...] for everything.")
        return write("at", a, locate("at", a, self._index), astype(values, a.dtype), mode)


def at(a: array) -> ArrayAt:
    """The property `array.at`: updates of what a subscript names, `a.at[index].add(v)`."""
    return ArrayAt(a)


# Used by subscripts; set here, like the operators, so that it works without the public module.
attach(
    __getitem__=at_boundary(getitem, "array.__getitem__"),
    __setitem__=at_boundary(setitem, "array.__setitem__"),
)
add_hints(ArrayAt, INDEXED)
