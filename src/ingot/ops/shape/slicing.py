"""Slices and their updates: sub-arrays at static positions (views) and at computed ones.

`Slice` and `SliceUpdate` are what `a[1:3]` and `a[1:3] = v` become; a negative stride goes
backwards, so a flip is a slice. `DynamicSlice` and `DynamicSliceUpdate` take their starts from an
array; they are behind `slice` and `slice_update`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, reduce
from operator import gt, setitem
from typing import Any

import numpy as np

from ingot._native import Dtype, array, in_tracing, make
from ingot.graph.device import StreamLike
from ingot.graph.dtype import is_integer, promote
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Change, apply, changed_copy
from ingot.graph.roles import Assemble, Host, View
from ingot.graph.shape import Shape, as_lengths, normalize_axis, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.movement import broadcast_to, require_array, reshape
from ingot.tuning_memory import MAX_SHARED_SLICES

__all__ = ["slice", "slice_update"]

_UPDATE = "it writes into a copy of its input"


def span(start: int, stop: int, stride: int) -> builtins.slice:
    """Python's slice between positions; a stop before the first element is -1."""
    return builtins.slice(start, stop if stop >= 0 else None, stride)


def span_length(start: int, stop: int, stride: int) -> int:
    """The number of elements between positions; plain arithmetic, so that it can be symbolic."""
    if stride == 1:
        return stop - start
    if stride > 0:
        return (stop - start + stride - 1) // stride
    return (start - stop - stride - 1) // -stride


def broadcast_batch(x: array, size: int, batched: bool) -> array:
    """An input of a vmap rule with the batch axis in front, broadcast along it if it has none."""
    return x if batched else broadcast_to(x, (size, *x.shape))


@dataclass(frozen=True)
class Slice(View):
    """The elements start, start + stride, ... before stop of each axis, as a view.

    All are positions: only a stop may be -1, for a negative stride that goes down to the first
    element. The axes in `dropped`, of which one element is left, are removed.
    """

    start: Shape
    stop: Shape
    strides: Shape
    dropped: Shape = ()

    @cached_property
    def kept_shape(self) -> Shape:
        """The lengths of all axes, the dropped ones included."""
        lengths = map(span_length, self.start, self.stop, self.strides)
        if not self.dropped:
            return tuple(lengths)
        return tuple([1 if axis in self.dropped else n for axis, n in enumerate(lengths)])

    @cached_property
    def shape(self) -> Shape:
        """The shape of the result."""
        if not self.dropped:
            return self.kept_shape
        return tuple([n for axis, n in enumerate(self.kept_shape) if axis not in self.dropped])

    @cached_property
    def index(self) -> tuple[Any, ...]:
        """NumPy's index for the same elements."""
        spans: list[Any] = list(map(span, self.start, self.stop, self.strides))
        for axis in self.dropped:
            spans[axis] = self.start[axis]
        return tuple(spans)

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return self.shape, x.dtype

    def is_no_op(self, x: Any) -> bool:
        return not self.dropped and set(self.strides) <= {1} and self.kept_shape == x.shape

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return x[self.index]

    def extent(self, shape: Shape) -> Shape:
        spans = zip(self.start, self.kept_shape, self.strides, strict=True)
        return tuple(first + 1 + max(0, (count - 1) * step) for first, count, step in spans)

    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape]:
        offset = sum(first * stride for first, stride in zip(self.start, strides, strict=True))
        stepped = [step * stride for step, stride in zip(self.strides, strides, strict=True)]
        return offset, tuple([n for axis, n in enumerate(stepped) if axis not in self.dropped])

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        update = reshape(cotangent, self.kept_shape) if self.dropped else cotangent
        if self.kept_shape == x.shape:  # all elements, permuted: the slice is its own inverse
            return (apply(Slice(self.start, self.stop, self.strides), update),)
        slot = SliceUpdate(self.start, self.stop, self.strides)
        return (apply(slot, zeros(x.shape, x.dtype), update),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return None if tangents[0] is None else apply(self, tangents[0])

    def vmap(self, size: int, batched: tuple[bool], x: array) -> array:
        dropped = tuple(axis + 1 for axis in self.dropped)
        return apply(Slice((0, *self.start), (size, *self.stop), (1, *self.strides), dropped), x)


@dataclass(frozen=True)
class SliceUpdate(Assemble):
    """The first input with the elements of a `Slice` replaced by the second, of their shape."""

    start: Shape
    stop: Shape
    strides: Shape

    def infer(self, x: array, update: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    evaluate = changed_copy

    def change(self, x: np.ndarray, update: np.ndarray) -> Change:
        return setitem, x, tuple(map(span, self.start, self.stop, self.strides)), update

    def vjp(self, cotangent: array, out: array, x: array, update: array) -> tuple[array, array]:
        nothing = zeros(update.shape, cotangent.dtype)
        taken = apply(Slice(self.start, self.stop, self.strides), cotangent)
        return apply(self, cotangent, nothing), taken

    def jvp(
        self, tangents: tuple[array | None, array | None], out: array, x: array, update: array
    ) -> array:
        return apply(self, *zeros_for_none(tangents, (x, update)))

    def vmap(self, size: int, batched: tuple[bool, bool], x: array, update: array) -> array:
        shifted = SliceUpdate((0, *self.start), (size, *self.stop), (1, *self.strides))
        return apply(
            shifted,
            broadcast_batch(x, size, batched[0]),
            broadcast_batch(update, size, batched[1]),
        )

    def expanded(self, build: Callable[..., Any], x: Any, update: Any) -> Any | None:
        replaces_all = update.shape == x.shape and set(self.strides) <= {1}
        return update if replaces_all else None

    def slices(self, x: Any, update: Any) -> list[tuple[int, View]]:
        everything = Slice((0,) * len(x.shape), x.shape, (1,) * len(x.shape))
        return [(0, everything), (1, Slice(self.start, self.stop, self.strides))]

    def boxes(self, x: Any, update: Any) -> list[tuple[int, Shape]] | None:
        if any(stride != 1 for stride in self.strides):
            return None
        return [(0, (0,) * len(x.shape)), (1, self.start)]


def zeros_for_none(tangents: Sequence[array | None], primals: Sequence[array]) -> list[array]:
    """The tangents, with zeros for inputs that do not vary, in a common dtype: those of integers
    may be fractions.
    """
    filled = [
        zeros(primal.shape, primal.dtype) if tangent is None else tangent
        for tangent, primal in zip(tangents, primals, strict=True)
    ]
    dtype = reduce(promote, [tangent.dtype for tangent in filled])
    return [astype(tangent, dtype) for tangent in filled]


def slice_op(start: Shape, stop: Shape, strides: Shape, dropped: Shape = ()) -> Slice:
    """The op for a slice, the same object for equal ones: evaluation recognises it and makes the
    view without Python. In a trace nothing is gained, and symbolic lengths must not be compared.
    """
    is_shared = not in_tracing() and all(type(n) is int for n in (*start, *stop))
    return (_shared_slice if is_shared else Slice)(start, stop, strides, dropped)


@lru_cache(maxsize=MAX_SHARED_SLICES)
def _shared_slice(start: Shape, stop: Shape, strides: Shape, dropped: Shape) -> Slice:
    return Slice(start, stop, strides, dropped)


def element(a: array, axis: int, position: int, stream: StreamLike = None) -> array:
    """Element `position` of one axis, which is removed. Negative positions count from the end."""
    shape = a.shape
    length = shape[axis]
    if not -length <= position < length:
        raise IndexError(
            f"[index] index {position} is out of range for an axis of length {length}."
        )
    if position < 0:
        position += length
    before, after = shape[:axis], shape[axis + 1 :]
    ndim = len(shape)
    start = (0,) * axis + (position,) + (0,) * (ndim - axis - 1)
    op = slice_op(start, (*before, position + 1, *after), (1,) * ndim, (axis,))
    return make(op, (a,), before + after, a.dtype, stream)


@dataclass(frozen=True)
class _Dynamic(Host, abstract=True):
    """Shared by the slices with computed starts.

    `axes` and `sizes` exclude the `batch` axes that vmap has added in front of all inputs: each
    batch element has its own starts.
    """

    axes: Shape
    sizes: Shape
    batch: int = 0

    def checked(self, shape: Shape, starts: np.ndarray) -> np.ndarray:
        """The starts as int64, after checking that the slices are in bounds."""
        starts = starts.astype(np.int64)
        for number, axis in enumerate(self.axes):
            length = shape[self.batch + axis]
            size = self.sizes[axis]
            column = starts[..., number]
            wrong = column[(column < 0) | (column > length - size)]
            if wrong.size:
                raise IndexError(
                    f"[slice] a slice of size {size} from {wrong[0]} on does not lie within an "
                    f"axis of length {length}."
                )
        return starts

    def windows(self, x: np.ndarray, starts: np.ndarray, writeable: bool) -> tuple[Any, Any]:
        """A view of `x` and the index into it that selects the slices of all batch elements."""
        starts = self.checked(x.shape, starts)
        if self.batch == 0:
            begin = dict(zip(self.axes, starts.tolist(), strict=True))
            spans = (
                builtins.slice(begin.get(axis, 0), begin.get(axis, 0) + size)
                for axis, size in enumerate(self.sizes)
            )
            return x, tuple(spans)
        core = tuple(range(self.batch, x.ndim))
        view = np.lib.stride_tricks.sliding_window_view(x, self.sizes, core, writeable=writeable)
        begin = {axis: starts[..., number] for number, axis in enumerate(self.axes)}
        begins = (begin.get(axis, 0) for axis in range(len(self.sizes)))
        return view, (*np.indices(x.shape[: self.batch], sparse=True), *begins)


class DynamicSlice(_Dynamic):
    """The slice of `sizes` whose starts along `axes` are the elements of the second input."""

    first_index = 1
    why_host = "where it starts is computed"

    def infer(self, x: array, starts: array) -> tuple[Shape, Dtype]:
        return x.shape[: self.batch] + self.sizes, x.dtype

    def evaluate(self, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
        view, slot = self.windows(x, starts, writeable=False)
        return view[slot]

    def vjp(self, cotangent: array, out: array, x: array, starts: array) -> tuple[array, None]:
        slot = DynamicSliceUpdate(self.axes, self.sizes, self.batch)
        return apply(slot, zeros(x.shape, x.dtype), cotangent, starts), None

    def jvp(
        self, tangents: tuple[array | None, None], out: array, x: array, starts: array
    ) -> array | None:
        return None if tangents[0] is None else apply(self, tangents[0], starts)

    def vmap(self, size: int, batched: tuple[bool, bool], x: array, starts: array) -> array:
        op = DynamicSlice(self.axes, self.sizes, self.batch + 1)
        return apply(
            op, broadcast_batch(x, size, batched[0]), broadcast_batch(starts, size, batched[1])
        )


class DynamicSliceUpdate(_Dynamic):
    """The first input with the slice at the starts of the third replaced by the second."""

    first_index = 2
    why_host = _UPDATE

    def infer(self, x: array, update: array, starts: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    evaluate = changed_copy

    def change(self, x: np.ndarray, update: np.ndarray, starts: np.ndarray) -> Change:
        return setitem, *self.windows(x, starts, writeable=True), update

    def vjp(
        self, cotangent: array, out: array, x: array, update: array, starts: array
    ) -> tuple[array, array, None]:
        nothing = zeros(update.shape, cotangent.dtype)
        taken = apply(DynamicSlice(self.axes, self.sizes, self.batch), cotangent, starts)
        return apply(self, cotangent, nothing, starts), taken, None

    def jvp(
        self,
        tangents: tuple[array | None, array | None, None],
        out: array,
        x: array,
        update: array,
        starts: array,
    ) -> array:
        return apply(self, *zeros_for_none(tangents[:2], (x, update)), starts)

    def vmap(
        self, size: int, batched: tuple[bool, bool, bool], x: array, update: array, starts: array
    ) -> array:
        op = DynamicSliceUpdate(self.axes, self.sizes, self.batch + 1)
        return apply(
            op,
            broadcast_batch(x, size, batched[0]),
            broadcast_batch(update, size, batched[1]),
            broadcast_batch(starts, size, batched[2]),
        )


def slice(
    a: array,
    start_indices: array,
    axes: Sequence[int],
    slice_size: Sequence[int],
    *,
    stream: StreamLike = None,
) -> array:
    """The part of `a` with shape `slice_size` that starts where `start_indices` says.

    The starts may be computed; the shape may not. A slice that does not lie within `a` raises
    IndexError when it is evaluated.

    Args:
        a: The array to take a part of.
        start_indices: The first position along each of `axes`: a 0-d or 1-d array of integers.
        axes: The axes that the starts belong to; the slice starts at 0 along the others.
        slice_size: The lengths of the slice along all axes of `a`.
        stream: The stream or device to run on.

    Returns:
        The slice.
    """
    sliced = _checked_axes("slice", a, start_indices, axes)
    sizes = as_lengths("slice", slice_size)
    shape = a.shape
    if len(sizes) != len(shape):
        raise ValueError(
            f"[slice] slice_size {shape_text(sizes)} needs a length for each of the array's "
            f"{len(shape)} axes."
        )
    if any(not 0 <= size <= length for size, length in zip(sizes, shape, strict=True)):
        raise ValueError(
            f"[slice] a slice of shape {shape_text(sizes)} does not fit into shape "
            f"{shape_text(shape)}."
        )
    starts = reshape(start_indices, (len(sliced),))
    return make(DynamicSlice(sliced, sizes), (a, starts), sizes, a.dtype, stream)


def slice_update(
    a: array, update: array, start_indices: array, axes: Sequence[int], *, stream: StreamLike = None
) -> array:
    """`a` with the part that starts where `start_indices` says replaced by `update`.

    Args:
        a: The array to update; it is not changed.
        update: What to write, converted to the dtype of `a`. Axes that it lacks in front have
            length 1 if they are among `axes`; along others it is repeated.
        start_indices: The first position along each of `axes`: a 0-d or 1-d array of integers.
        axes: The axes that the starts belong to; the update starts at 0 along the others.
        stream: The stream or device to run on.

    Returns:
        The updated array. An update that does not lie within `a` raises IndexError when it is
        evaluated.
    """
    require_array("slice_update", update)
    sliced = _checked_axes("slice_update", a, start_indices, axes)
    shape = a.shape
    missing = len(shape) - update.ndim
    sizes = tuple(1 if axis in sliced else shape[axis] for axis in range(missing)) + update.shape
    if len(sizes) != len(shape) or any(map(gt, sizes, shape)):
        raise ValueError(
            f"[slice_update] an update of shape {shape_text(update.shape)} does not fit into shape "
            f"{shape_text(shape)}."
        )
    values = broadcast_to(astype(update, a.dtype), sizes)
    starts = reshape(start_indices, (len(sliced),))
    return make(DynamicSliceUpdate(sliced, sizes), (a, values, starts), shape, a.dtype, stream)


def _checked_axes(name: str, a: array, starts: array, axes: Sequence[int]) -> Shape:
    """The axes counted from the front, after checking the starts against them."""
    require_array(name, a)
    require_array(name, starts)
    if not is_integer(starts.dtype):
        raise ValueError(f"[{name}] start indices must be integers, got dtype {starts.dtype.name}.")
    if starts.ndim > 1:
        raise ValueError(
            f"[{name}] start indices have at most one axis, got shape {shape_text(starts.shape)}."
        )
    given = as_lengths(name, axes)
    if len(given) != starts.size:
        raise ValueError(
            f"[{name}] {starts.size} start indices do not match {len(given)} axes: each has one."
        )
    if len(given) > a.ndim:
        raise ValueError(
            f"[{name}] {len(given)} start indices are too many for an array with {a.ndim} axes."
        )
    sliced = tuple(normalize_axis(name, axis, a.ndim) for axis in given)
    if len(set(sliced)) != len(sliced):
        raise ValueError(f"[{name}] axes {tuple(axes)} name an axis twice.")
    return sliced
