"""Primitives that move, select, reduce and order elements."""

from __future__ import annotations

from ingot._native import array
from ingot.export.building.elementwise import Build, chosen
from ingot.export.format import Primitive
from ingot.graph.arrays.construct import scalar
from ingot.graph.op import apply
from ingot.graph.shape import Shape, broadcast_shapes, normalize_axis, size_of
from ingot.ops.elementwise.arithmetic import add, multiply
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.extremes import maximum, minimum
from ingot.ops.index.along_axis import PutAlongAxis, put_along_axis, take_along_axis
from ingot.ops.index.indexing import Put, Take, move_block
from ingot.ops.index.masking import MaskRank
from ingot.ops.reduce.extremes import argmax, argmin, max, min
from ingot.ops.reduce.reduction import all, any, prod, sum
from ingot.ops.reduce.scan import cummax, cummin, cumprod, cumsum
from ingot.ops.reduce.sorting import SearchSorted, argpartition, argsort, partition, sort
from ingot.ops.reduce.statistics import logsumexp, softmax
from ingot.ops.shape.creation import arange
from ingot.ops.shape.joining import concatenate, split
from ingot.ops.shape.movement import (
    broadcast_to,
    expand_dims,
    flatten,
    reshape,
    squeeze,
    transpose,
    unflatten,
)
from ingot.ops.shape.padding import pad
from ingot.ops.shape.slicing import Slice, SliceUpdate, slice, slice_update
from ingot.ops.shape.strided import as_strided

__all__ = ["ARRANGEMENT"]

_REDUCTIONS = (all, any, sum, prod, min, max)
_SCANS = (cummax, cummin, cumsum, cumprod)
_UPDATES = ("maximum", "minimum", "add", "multiply", "assign")
_COMBINATIONS = (maximum, minimum, add, multiply, None)


def _broadcast(primitive: Primitive, x: array, *others: array) -> array:
    """To the recorded shape, or to the one of the other inputs, whatever that is in this call."""
    shape: Shape = primitive.state[0]
    if others:
        shape = x.shape
        for other in others:
            shape = broadcast_shapes("broadcast", shape, other.shape)
    return broadcast_to(x, shape)


def _broadcast_axes(primitive: Primitive, x: array, *others: array) -> array:
    """To the lengths of the other inputs along all axes but some."""
    (kept,) = primitive.state
    rest: Shape = ()
    for other in (x, *others):
        rest = broadcast_shapes("broadcast", rest, _without(other.shape, kept))
    ndim = len(rest) + len(kept)
    lengths = list(rest)
    for axis in sorted(axis % ndim for axis in kept):
        behind = axis - ndim
        lengths.insert(axis, x.shape[behind] if -behind <= x.ndim else 1)
    return broadcast_to(x, tuple(lengths))


def _without(shape: Shape, axes: tuple[int, ...]) -> Shape:
    dropped = {axis % len(shape) if axis < 0 else axis for axis in axes if len(shape)}
    return tuple(length for axis, length in enumerate(shape) if axis not in dropped)


def _reshape(primitive: Primitive, x: array) -> array:
    return reshape(x, primitive.state[0])


def _expand_dims(primitive: Primitive, x: array) -> array:
    return expand_dims(x, primitive.state[0])


def _squeeze(primitive: Primitive, x: array) -> array:
    return squeeze(x, primitive.state[0])


def _transpose(primitive: Primitive, x: array) -> array:
    return transpose(x, primitive.state[0])


def _flatten(primitive: Primitive, x: array) -> array:
    return flatten(x, *primitive.state)


def _unflatten(primitive: Primitive, x: array) -> array:
    return unflatten(x, *primitive.state)


def _as_strided(primitive: Primitive, x: array) -> array:
    shape, strides, offset = primitive.state
    return as_strided(x, shape, strides, offset)


def _concatenate(primitive: Primitive, *inputs: array) -> array:
    return concatenate(list(inputs), primitive.state[0])


def _split(primitive: Primitive, x: array) -> list[array]:
    positions, axis = primitive.state
    return split(x, positions, axis)


def _pad(primitive: Primitive, x: array, value: array) -> array:
    axes, before, after = primitive.state
    widths = [(0, 0)] * x.ndim
    for axis, low, high in zip(axes, before, after, strict=True):
        widths[normalize_axis("pad", axis, x.ndim)] = (low, high)
    return pad(x, widths, constant_values=value)


def _spans(shape: Shape, start: Shape, stop: Shape, strides: Shape) -> tuple[Shape, Shape, Shape]:
    """A slice in positions: bounds from the end are resolved, those outside are cut."""
    if not len(shape) == len(start) == len(stop) == len(strides):
        raise ValueError(f"a slice of {len(start)} axes does not fit shape {shape}")
    firsts, ends = [], []
    for length, first, end, stride in zip(shape, start, stop, strides, strict=True):
        if stride == 0:
            raise ValueError("a slice has a stride of 0")
        taken = range(length)[first:end:stride]
        firsts.append(taken.start if taken else 0)
        ends.append(taken.stop if taken else 0)
    return tuple(firsts), tuple(ends), strides


def _slice(primitive: Primitive, x: array) -> array:
    return apply(Slice(*_spans(x.shape, *primitive.state)), x)


def _slice_update(primitive: Primitive, x: array, update: array) -> array:
    mode, *bounds = primitive.state
    combine = chosen(primitive, _COMBINATIONS, mode)
    spans = _spans(x.shape, *bounds)
    window = Slice(*spans)
    given = broadcast_to(update, window.shape)
    new = given if combine is None else combine(apply(window, x), given)
    return apply(SliceUpdate(*spans), x, astype(new, x.dtype))


def _dynamic_slice(primitive: Primitive, x: array, starts: array) -> array:
    axes, sizes = primitive.state
    return slice(x, starts, axes, sizes)


def _dynamic_slice_update(primitive: Primitive, x: array, update: array, starts: array) -> array:
    return slice_update(x, update, starts, primitive.state[0])


def _indices(
    axes: tuple[int, ...], shape: Shape, indices: tuple[array, ...]
) -> tuple[tuple[int, ...], list[array]]:
    """The indexed axes in order, and their indices in one shape."""
    if not axes or len(set(axes)) != len(axes) or len(axes) != len(indices):
        raise ValueError(f"{len(indices)} arrays of indices do not fit axes {axes}")
    slots = [normalize_axis("gather", axis, len(shape)) for axis in axes]
    common: Shape = ()
    for index in indices:
        common = broadcast_shapes("gather", common, index.shape)
    order = sorted(range(len(axes)), key=slots.__getitem__)
    ordered = tuple(slots[number] for number in order)
    return ordered, [broadcast_to(indices[number], common) for number in order]


def _gather(primitive: Primitive, x: array, *indices: array) -> array:
    axes, lengths = primitive.state
    if not axes:
        return reshape(_cut(x, lengths, ()), lengths)
    slots, found = _indices(axes, x.shape, indices)
    if len(lengths) != x.ndim or _is_longer(lengths, slots):
        raise ValueError(f"slices of shape {lengths} along {axes} are not supported")
    op = Take(slots)
    taken = apply(op, _cut(x, lengths, slots), *found)
    in_front = move_block(taken, op.position, 0, found[0].ndim)
    return reshape(in_front, (*found[0].shape, *lengths))


def _is_longer(lengths: Shape, slots: tuple[int, ...]) -> bool:
    """Whether a slice has several elements along an indexed axis."""
    return not {lengths[axis] for axis in slots} <= {1}


def _cut(x: array, lengths: Shape, slots: tuple[int, ...]) -> array:
    """The first elements along all axes that are not indexed."""
    if len(lengths) != x.ndim:
        raise ValueError(f"slices of shape {lengths} do not fit shape {x.shape}")
    stop = tuple(length if axis in slots else lengths[axis] for axis, length in enumerate(x.shape))
    for wanted, length in zip(stop, x.shape, strict=True):
        if wanted > length:
            raise ValueError(f"slices of shape {lengths} do not fit shape {x.shape}")
    return x if stop == x.shape else apply(Slice((0,) * x.ndim, stop, (1,) * x.ndim), x)


def _scatter(primitive: Primitive, x: array, *inputs: array) -> array:
    mode, axes = primitive.state
    *indices, updates = inputs
    slots, found = _indices(axes, x.shape, tuple(indices))
    op = Put(slots, chosen(primitive, _UPDATES, mode))
    rest = tuple(length for axis, length in enumerate(x.shape) if axis not in slots)
    index_shape = found[0].shape
    if size_of(updates.shape) != size_of(index_shape) * size_of(rest):
        raise ValueError(f"updates of shape {updates.shape} do not cover whole slices")
    shaped = reshape(updates, (*index_shape, *rest))
    placed = move_block(shaped, 0, op.position, len(index_shape))
    return apply(op, x, astype(placed, x.dtype), *found)


def _masked_scatter(primitive: Primitive, x: array, mask: array, values: array) -> array:
    """For each element of the first axis: its k-th True gets the k-th value."""
    if mask.shape != x.shape or x.ndim < 2 or values.ndim != 2 or len(values) != len(x):
        raise ValueError(
            f"a mask of shape {mask.shape} and values of shape {values.shape} do not fit shape "
            f"{x.shape}"
        )
    flat = reshape(mask, (len(x), size_of(x.shape[1:])))
    ranks = apply(MaskRank(values.shape[1]), flat)
    chosen_values = reshape(take_along_axis(values, ranks, 1), x.shape)
    return where(mask, astype(chosen_values, x.dtype), x)


def _gather_axis(primitive: Primitive, x: array, indices: array) -> array:
    return take_along_axis(x, indices, primitive.state[0])


def _scatter_axis(primitive: Primitive, x: array, indices: array, updates: array) -> array:
    mode, axis = primitive.state
    if chosen(primitive, ("add", "assign"), mode) == "assign":
        return put_along_axis(x, indices, updates, axis)
    slot = normalize_axis("scatter", axis, x.ndim)
    shape = tuple(
        length if number == slot else whole
        for number, (length, whole) in enumerate(zip(indices.shape, x.shape, strict=True))
    )
    full = [broadcast_to(each, shape) for each in (astype(updates, x.dtype), indices)]
    return apply(PutAlongAxis(slot, "add"), x, *full)


def _reduce(primitive: Primitive, x: array) -> array:
    kind, axes = primitive.state
    found: array = chosen(primitive, _REDUCTIONS, kind)(x, axes, keepdims=True)
    return found


def _arg_reduce(primitive: Primitive, x: array) -> array:
    kind, axis = primitive.state
    found: array = chosen(primitive, (argmin, argmax), kind)(x, axis, keepdims=True)
    return found


def _scan(primitive: Primitive, x: array) -> array:
    kind, axis, reverse, inclusive = primitive.state
    scan = chosen(primitive, _SCANS, kind)
    found: array = scan(x, axis, reverse=reverse, inclusive=inclusive)
    return found


def _sort(primitive: Primitive, x: array) -> array:
    return sort(x, primitive.state[0])


def _arg_sort(primitive: Primitive, x: array) -> array:
    return argsort(x, primitive.state[0])


def _partition(primitive: Primitive, x: array) -> array:
    return partition(x, *primitive.state)


def _arg_partition(primitive: Primitive, x: array) -> array:
    return argpartition(x, *primitive.state)


def _search_sorted(primitive: Primitive, sequence: array, values: array) -> array:
    return apply(SearchSorted("right" if primitive.state[0] else "left"), sequence, values)


def _softmax(primitive: Primitive, x: array) -> array:
    return softmax(x, -1, precise=primitive.state[0])


def _log_sum_exp(primitive: Primitive, x: array) -> array:
    return logsumexp(x, -1, keepdims=True)


def _arange(primitive: Primitive) -> array:
    start, stop, step = primitive.state
    return arange(start, stop, step, dtype=primitive.specs[0].dtype)


def _number_of_elements(primitive: Primitive, x: array) -> array:
    axes, inverted, dtype = primitive.state
    count = size_of([x.shape[normalize_axis("mean", axis, x.ndim)] for axis in axes])
    return scalar(1 / count if inverted and count else count, dtype)


ARRANGEMENT: dict[str, Build] = {
    "Arange": _arange,
    "ArgPartition": _arg_partition,
    "ArgReduce": _arg_reduce,
    "ArgSort": _arg_sort,
    "AsStrided": _as_strided,
    "Broadcast": _broadcast,
    "BroadcastAxes": _broadcast_axes,
    "Concatenate": _concatenate,
    "DynamicSlice": _dynamic_slice,
    "DynamicSliceUpdate": _dynamic_slice_update,
    "ExpandDims": _expand_dims,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherAxis": _gather_axis,
    "LogSumExp": _log_sum_exp,
    "MaskedScatter": _masked_scatter,
    "NumberOfElements": _number_of_elements,
    "Pad": _pad,
    "Partition": _partition,
    "Reduce": _reduce,
    "Reshape": _reshape,
    "Scan": _scan,
    "Scatter": _scatter,
    "ScatterAxis": _scatter_axis,
    "SearchSorted": _search_sorted,
    "Slice": _slice,
    "SliceUpdate": _slice_update,
    "Softmax": _softmax,
    "Sort": _sort,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unflatten": _unflatten,
}
