"""Ops that move, select, reduce and order elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ingot._native import array, constant
from ingot.export.emitting.emitter import Emit, Emitter, Value
from ingot.graph.arrays.length import Length
from ingot.graph.dtype import bool_, int8, int16, int32, int64
from ingot.graph.op import Op, apply
from ingot.graph.shape import Shape, size_of
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.extremes import maximum
from ingot.ops.index.along_axis import PutAlongAxis, TakeAlongAxis
from ingot.ops.index.indexing import CheckedPut, Put, Take
from ingot.ops.index.masking import MaskRank
from ingot.ops.internal.adjoints import Broadcast, Reshape, Sum, Transpose
from ingot.ops.reduce import extremes, reduction, scan, sorting
from ingot.ops.shape.creation import Arange
from ingot.ops.shape.diagonals import Diagonal
from ingot.ops.shape.joining import Concatenate
from ingot.ops.shape.movement import reshape
from ingot.ops.shape.slicing import DynamicSlice, DynamicSliceUpdate, Slice, SliceUpdate
from ingot.ops.shape.strided import AsStrided

__all__ = ["ARRANGEMENT"]

_SMALL = (bool_, int8, int16)  # whose sums and products MLX computes in int32
_REDUCTIONS: dict[type[Op], int] = {
    reduction.All: 0,
    reduction.Any: 1,
    extremes.Min: 4,
    extremes.Max: 5,
}
_SCANS: dict[type[Op], int] = {scan.CumMax: 0, scan.CumMin: 1, scan.CumSum: 2, scan.CumProd: 3}
_MODES = {"maximum": 0, "minimum": 1, "add": 2, "multiply": 3, "assign": 4}
_SUM, _PROD = 2, 3
_BEFORE_ALL = -(2**31)  # a stop that is before the first element of any axis


def _reduced(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(1 if axis in axes else length for axis, length in enumerate(shape))


def _reduce(emitter: Emitter, op: Any, x: Value) -> Value:
    dtype = op.infer(x)[1]
    state = (_REDUCTIONS[type(op)], op.axes)
    return emitter.primitive("Reduce", [x], state, _reduced(x.shape, op.axes), dtype)


def _total(emitter: Emitter, op: Any, x: Value) -> Value:
    """Sums and products. In small integers there are none."""
    dtype = int32 if op.dtype in _SMALL else op.dtype
    source = x if x.dtype in _SMALL and dtype is int32 else emitter.cast(x, dtype)
    state = (_SUM if isinstance(op, Sum) else _PROD, op.axes)
    found = emitter.primitive("Reduce", [source], state, _reduced(x.shape, op.axes), dtype)
    return emitter.cast(found, op.dtype)


def _arg_reduce(emitter: Emitter, op: Any, x: Value) -> Value:
    shape, dtype = op.infer(x)
    return emitter.primitive("ArgReduce", [x], (int(op.largest), op.axis), shape, dtype)


def _scan(emitter: Emitter, op: Any, x: Value) -> Value:
    state = (_SCANS[type(op)], op.axis, op.reverse, op.inclusive)
    return emitter.primitive("Scan", [x], state, x.shape, op.infer(x)[1])


def _along_axis(emitter: Emitter, op: Any, x: Value) -> Value:
    shape, dtype = op.infer(x)
    state = (op.kth, op.axis) if hasattr(op, "kth") else (op.axis,)
    return emitter.primitive(type(op).__name__, [x], state, shape, dtype)


def _search_sorted(emitter: Emitter, op: Any, sequence: Value, values: Value) -> Value:
    shape, dtype = op.infer(sequence, values)
    state = (op.side == "right",)
    return emitter.primitive("SearchSorted", [sequence, values], state, shape, dtype)


def _arange(emitter: Emitter, op: Arange) -> Value:
    if emitter.is_symbol(op.length):
        return _growing(emitter, op)
    stop = op.start + op.length * op.step
    if op.step == 0 or math.ceil((stop - op.start) / op.step) != op.length:
        return emitter.constant(op.evaluate(), op.dtype)
    state = (op.start, stop, op.step)
    return emitter.primitive("Arange", (), state, (op.length,), op.dtype)


def _growing(emitter: Emitter, op: Arange) -> Value:
    """A range whose length may change."""
    numbers = emitter.cast(emitter.iota(op.length), op.dtype)
    for name, operand, neutral in (("Multiply", op.step, 1), ("Add", op.start, 0)):
        if operand != neutral:
            filled = emitter.filled(operand, numbers)
            numbers = emitter.primitive(name, [numbers, filled], (), numbers.shape, op.dtype)
    return numbers


def _length(emitter: Emitter, op: Length) -> Value:
    return emitter.count(op.length, op.dtype)


def _broadcast(emitter: Emitter, op: Broadcast, x: Value) -> Value:
    return emitter.broadcast(x, op.shape)


def _reshape(emitter: Emitter, op: Reshape, x: Value) -> Value:
    return emitter.reshape(x, op.shape)


def _transpose(emitter: Emitter, op: Transpose, x: Value) -> Value:
    return emitter.transpose(x, op.axes)


def _as_strided(emitter: Emitter, op: AsStrided, x: Value) -> Value:
    flat = emitter.reshape(x, (size_of(x.shape),))
    state = (op.shape, op.strides, op.offset)
    return emitter.primitive("AsStrided", [flat], state, op.shape, x.dtype)


def _concatenate(emitter: Emitter, op: Concatenate, *inputs: Value) -> Value:
    shape, dtype = op.infer(*inputs)  # type: ignore[arg-type]
    return emitter.primitive("Concatenate", inputs, (op.axis,), shape, dtype)


def _bounds(emitter: Emitter, op: Slice | SliceUpdate, shape: Shape) -> tuple[Shape, Shape, Shape]:
    """MLX counts a stop before the first element from the end."""
    start, stop = [], []
    for first, end, stride, length in zip(op.start, op.stop, op.strides, shape, strict=True):
        if stride > 0:
            start.append(first)
            stop.append(emitter.end(length, end))
            continue
        start.append(emitter.end(length, first))
        if end < 0:
            end = _BEFORE_ALL if emitter.is_symbol(length) else end - length
        stop.append(end)
    return tuple(start), tuple(stop), op.strides


def _slice(emitter: Emitter, op: Slice, x: Value) -> Value:
    found = emitter.primitive("Slice", [x], _bounds(emitter, op, x.shape), op.kept_shape, x.dtype)
    if not op.dropped:
        return found
    return emitter.primitive("Squeeze", [found], (op.dropped,), op.shape, x.dtype)


def _slice_update(emitter: Emitter, op: SliceUpdate, x: Value, update: Value) -> Value:
    state = (_MODES["assign"], *_bounds(emitter, op, x.shape))
    return emitter.primitive("SliceUpdate", [x, update], state, x.shape, x.dtype)


def _unbatched(op: DynamicSlice | DynamicSliceUpdate) -> None:
    if op.batch:
        raise ValueError(
            "[export_function] slices with computed starts under vmap have no operation in MLX's "
            "files: use take or put_along_axis instead."
        )


def _dynamic_slice(emitter: Emitter, op: DynamicSlice, x: Value, starts: Value) -> Value:
    _unbatched(op)
    state = (op.axes, op.sizes)
    return emitter.primitive("DynamicSlice", [x, starts], state, op.sizes, x.dtype)


def _dynamic_slice_update(
    emitter: Emitter, op: DynamicSliceUpdate, x: Value, update: Value, starts: Value
) -> Value:
    _unbatched(op)
    inputs = [x, update, starts]
    return emitter.primitive("DynamicSliceUpdate", inputs, (op.axes,), x.shape, x.dtype)


def _moved(emitter: Emitter, x: Value, source: int, target: int, count: int) -> Value:
    """An array with the `count` axes from `source` on moved to `target`."""
    block = range(source, source + count)
    order = [axis for axis in range(x.ndim) if axis not in block]
    order[target:target] = block
    return emitter.transpose(x, order)


def _single(axes: Shape, shape: Shape) -> Shape:
    """The shape of one slice: 1 along the indexed axes, which MLX keeps."""
    return tuple(1 if axis in axes else length for axis, length in enumerate(shape))


def _take(emitter: Emitter, op: Take, x: Value, *indices: Value) -> Value:
    slices = _single(op.axes, x.shape)
    index_shape = indices[0].shape
    gathered = emitter.primitive(
        "Gather", [x, *indices], (op.axes, slices), (*index_shape, *slices), x.dtype
    )
    rest = tuple(length for axis, length in enumerate(x.shape) if axis not in op.axes)
    dropped = tuple(len(index_shape) + axis for axis in op.axes)
    shape = (*index_shape, *rest)
    taken = emitter.primitive("Squeeze", [gathered], (dropped,), shape, x.dtype)
    return _moved(emitter, taken, 0, op.position, len(index_shape))


def _put(emitter: Emitter, op: Put, x: Value, updates: Value, *indices: Value) -> Value:
    count = indices[0].ndim
    moved = _moved(emitter, updates, op.position, 0, count)
    shaped = emitter.reshape(moved, (*indices[0].shape, *_single(op.axes, x.shape)))
    state = (_MODES[op.mode], op.axes)
    return emitter.primitive("Scatter", [x, *indices, shaped], state, x.shape, x.dtype)


def _take_along(emitter: Emitter, op: TakeAlongAxis, x: Value, indices: Value) -> Value:
    return emitter.primitive("GatherAxis", [x, indices], (op.axis,), indices.shape, x.dtype)


def _put_along(
    emitter: Emitter, op: PutAlongAxis, x: Value, updates: Value, indices: Value
) -> Value:
    state = (int(op.mode == "assign"), op.axis)
    return emitter.primitive("ScatterAxis", [x, indices, updates], state, x.shape, x.dtype)


def _mask_rank(emitter: Emitter, op: MaskRank, mask: Value) -> Value:
    def ranks(mask: array) -> array:
        return astype(maximum(scan.cumsum(astype(mask, int32), -1) - 1, 0), int64)

    return emitter.composed(ranks, mask)[0]


def _diagonal(emitter: Emitter, op: Diagonal, x: Value) -> Value:
    *outer, rows, columns = x.shape
    length = op.infer(x)[0][-1]  # type: ignore[arg-type]
    first = op.offset if op.offset >= 0 else -op.offset * columns
    positions = np.int32(first) + np.arange(length, dtype=np.int32) * np.int32(columns + 1)

    def diagonal(x: array) -> array:
        flat = reshape(x, (*outer, rows * columns))
        return apply(Take((len(outer),)), flat, constant(positions, int32))

    return emitter.composed(diagonal, x)[0]


ARRANGEMENT: dict[type[Op], Emit] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(_SCANS, _scan),
    **dict.fromkeys((Sum, reduction.Prod), _total),
    **dict.fromkeys((extremes.ArgMax, extremes.ArgMin), _arg_reduce),
    **dict.fromkeys(
        (sorting.ArgPartition, sorting.ArgSort, sorting.Partition, sorting.Sort), _along_axis
    ),
    **dict.fromkeys((CheckedPut, Put), _put),
    Arange: _arange,
    AsStrided: _as_strided,
    Broadcast: _broadcast,
    Concatenate: _concatenate,
    Diagonal: _diagonal,
    DynamicSlice: _dynamic_slice,
    DynamicSliceUpdate: _dynamic_slice_update,
    Length: _length,
    MaskRank: _mask_rank,
    PutAlongAxis: _put_along,
    Reshape: _reshape,
    Slice: _slice,
    SliceUpdate: _slice_update,
    Take: _take,
    TakeAlongAxis: _take_along,
    Transpose: _transpose,
    sorting.SearchSorted: _search_sorted,
}
