"""Convolutions, and their gradients with respect to the filters as convolutions."""

from __future__ import annotations

from ingot.export.emitting.emitter import Emit, Emitter, Value
from ingot.graph.op import Op
from ingot.graph.shape import Shape
from ingot.ops.products.convolution_rules import Convolution, ConvolutionByFilters

__all__ = ["CONVOLUTIONS"]


def _convolved(
    emitter: Emitter,
    x: Value,
    filters: Value,
    strides: Shape,
    before: Shape,
    steps: Shape,
    spreads: Shape,
    groups: int,
    lengths: Shape,
) -> Value:
    """A convolution with results of `lengths`: the padding behind the input follows from them."""
    after = []
    for axis, length in enumerate(lengths):
        reach = (filters.shape[axis + 1] - 1) * steps[axis] + 1
        spread = (x.shape[axis + 1] - 1) * spreads[axis] + 1
        needed = (length - 1) * strides[axis] + reach - spread - before[axis]
        # Up to `strides - 1` elements more give no further result.
        after.append(needed if needed >= 0 else min(0, needed + strides[axis] - 1))
    x, first, last = _without_negative(emitter, x, before, tuple(after), spreads)
    state = (strides, first, last, steps, spreads, groups, False)
    shape = (x.shape[0], *lengths, filters.shape[0])
    return emitter.primitive("Convolution", [x, filters], state, shape, x.dtype)


def _without_negative(
    emitter: Emitter, x: Value, before: Shape, after: Shape, spreads: Shape
) -> tuple[Value, Shape, Shape]:
    """Negative padding drops elements, which MLX's files do by a slice."""
    if min((*before, *after)) >= 0:
        return x, before, after
    start, stop, first, last = [0], [x.shape[0]], [], []
    for axis, (low, high, spread) in enumerate(zip(before, after, spreads, strict=True)):
        length = x.shape[axis + 1]
        skipped = -(-max(-low, 0) // spread)  # whole elements, of `spread` positions each
        dropped = -(-max(-high, 0) // spread)
        start.append(skipped)
        stop.append(length - dropped)
        first.append(low + skipped * spread)
        last.append(high + dropped * spread)
    start.append(0)
    stop.append(x.shape[-1])
    shape = tuple(end - begin for begin, end in zip(start, stop, strict=True))
    state = (tuple(start), tuple(stop), (1,) * x.ndim)
    cut = emitter.primitive("Slice", [x], state, shape, x.dtype)
    return cut, tuple(first), tuple(last)


def _convolution(emitter: Emitter, op: Convolution, x: Value, filters: Value) -> Value:
    geometry = (op.strides, op.before, op.steps, op.spreads)
    return _convolved(emitter, x, filters, *geometry, op.groups, op.lengths)


def _by_filters(emitter: Emitter, op: ConvolutionByFilters, x: Value, outputs: Value) -> Value:
    """Channels take the role of examples, and the other way around: a tap is a position at which
    the cotangents, spread by the strides, are filters.
    """
    channels, filters = x.shape[-1] // op.groups, outputs.shape[-1] // op.groups
    made = []
    for group in range(op.groups):
        part = _channels(emitter, x, group * channels, channels)
        of_part = _channels(emitter, outputs, group * filters, filters)
        exchanged, by = (_exchanged(emitter, each) for each in (part, of_part))
        found = _convolved(
            emitter, exchanged, by, op.steps, op.before, op.strides, op.spreads, 1, op.taps
        )
        made.append(_exchanged(emitter, found))
    if len(made) == 1:
        return made[0]
    shape = (outputs.shape[-1], *op.taps, channels)
    return emitter.primitive("Concatenate", made, (0,), shape, x.dtype)


def _exchanged(emitter: Emitter, x: Value) -> Value:
    """An array with its first and last axes exchanged."""
    return emitter.transpose(x, (x.ndim - 1, *range(1, x.ndim - 1), 0))


def _channels(emitter: Emitter, x: Value, first: int, count: int) -> Value:
    if count == x.shape[-1]:
        return x
    shape = (*x.shape[:-1], count)
    start = (*(0 for _ in x.shape[:-1]), first)
    state = (start, (*x.shape[:-1], first + count), (1,) * x.ndim)
    return emitter.primitive("Slice", [x], state, shape, x.dtype)


CONVOLUTIONS: dict[type[Op], Emit] = {
    Convolution: _convolution,
    ConvolutionByFilters: _by_filters,
}
