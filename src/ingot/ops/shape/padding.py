"""Padding: arrays with more elements around them, constant or taken from their own edges."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from ingot._native import array, wrap
from ingot.graph.device import StreamLike
from ingot.graph.errors import value_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.internal.adjoints import Broadcast
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.joining import between, concatenate
from ingot.ops.shape.movement import as_array, broadcast_to, flip, require_array, reshape
from ingot.ops.shape.slicing import SliceUpdate

__all__ = ["pad"]

Widths = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PadBorder(Broadcast):
    """A computed number broadcast to the shape of a padded array: one for all of a batch."""

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        raise ValueError(
            "[pad] vmap over constant_values is not supported: pad with 0 and select the values "
            "with mx.where."
        )


def pad(
    a: array,
    pad_width: Any,
    mode: str = "constant",
    constant_values: Any = 0,
    *,
    stream: StreamLike = None,
) -> array:
    """An array with elements added before and after it along its axes.

    Args:
        a: The array.
        pad_width: How many: a number for both ends of all axes, a pair (before, after) for all
            axes, or a pair for each.
        mode: Where they come from: "constant", "edge" (the outermost element), "reflect" (the array
            mirrored at its outermost element) or "symmetric" (the array mirrored after it).
        constant_values: The number for mode "constant"; of an array the first element.
        stream: The stream or device to run on.
    """
    require_array("pad", a)
    widths = _pad_widths(pad_width, a.ndim)
    if mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(
            f'[pad] mode is "constant", "edge", "reflect" or "symmetric", got {mode!r}.'
        )
    if mode == "constant":
        return _pad_constant(a, widths, constant_values, stream)
    padded = wrap(a)
    for axis, (before, after) in enumerate(widths):
        if before == after == 0:
            continue
        if mode == "edge":
            padded = _pad_edge(padded, axis, before, after, stream)
        else:
            padded = _pad_mirrored(padded, axis, before, after, mode, stream)
    return padded


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def _pairs(pad_width: Any) -> Widths:
    """The pairs that are given: one for each axis, or one for all of them."""
    items: tuple[Any, ...] = tuple(pad_width) if _is_sequence(pad_width) else (pad_width,)
    if all(_is_sequence(item) for item in items):
        return tuple((index(before), index(after)) for before, after in items)
    before, after = items * 2 if len(items) == 1 else items
    return ((index(before), index(after)),)


def _pad_widths(pad_width: Any, ndim: int) -> Widths:
    """The pair (before, after) for each axis."""
    try:
        pairs = _pairs(pad_width)
    except (TypeError, ValueError):
        raise TypeError(
            "[pad] pad_width must be an int, a pair of ints or one pair for each axis, got "
            f"{value_text(pad_width)}."
        ) from None
    if len(pairs) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim:
        raise ValueError(f"[pad] {len(pairs)} pairs of widths were given for {ndim} axes.")
    for pair in pairs:
        if min(pair) < 0:
            raise ValueError(
                f"[pad] widths cannot be negative, got {shape_text(pair)}: "
                "remove elements with a slice."
            )
    return pairs


def _pad_constant(a: array, widths: Widths, value: Any, stream: StreamLike) -> array:
    if value is None:
        raise TypeError(
            "[pad] constant_values must be a number or an array of one element, got None."
        )
    constant = as_array("pad", value, a.dtype)
    if constant.size == 0:
        raise ValueError("[pad] constant_values must be one number, got an empty array.")
    if constant.size > 1:
        constant = reshape(constant, (-1,))[0]  # as in MLX, the first element counts
    if all(before == after == 0 for before, after in widths):
        return wrap(a)
    starts = tuple([before for before, _ in widths])
    stops = tuple([before + length for length, before in zip(a.shape, starts, strict=True)])
    shape = [stop + after for stop, (_, after) in zip(stops, widths, strict=True)]
    number = reshape(astype(constant, a.dtype), ())
    if not number._node.evaluated:
        around = apply(PadBorder(tuple(shape)), number, stream=stream)
    else:
        around = broadcast_to(number, shape, stream=stream)
    return apply(SliceUpdate(starts, stops, (1,) * len(shape)), around, a, stream=stream)


def _pad_edge(a: array, axis: int, before: int, after: int, stream: StreamLike) -> array:
    shape = a.shape

    def repeated(edge: array, count: int) -> array:
        return broadcast_to(edge, (*shape[:axis], count, *shape[axis + 1 :]), stream=stream)

    if shape[axis] == 0:
        return zeros((*shape[:axis], before + after, *shape[axis + 1 :]), a.dtype, stream=stream)
    length = shape[axis]
    first = repeated(between(a, axis, 0, 1), before)
    last = repeated(between(a, axis, length - 1, length), after)
    return concatenate([first, a, last], axis, stream=stream)


def _pad_mirrored(
    a: array, axis: int, before: int, after: int, mode: str, stream: StreamLike
) -> array:
    length = a.shape[axis]
    if length == 0:
        raise ValueError(
            f"[pad] axis {axis} of shape {shape_text(a.shape)} is empty: "
            f'mode "{mode}" has nothing to mirror.'
        )
    if length == 1:
        return _pad_edge(a, axis, before, after, stream)
    # Reflection does not repeat the outermost element.
    shared = 1 if mode == "reflect" else 0
    mirrored = flip(a, axis)
    period = length - shared
    parts = [a]
    for number in range(-(-after // period)):
        source = a if number % 2 else mirrored
        taken = min(after - number * period, period)
        parts.append(between(source, axis, shared, shared + taken))
    for number in range(-(-before // period)):
        source = a if number % 2 else mirrored
        taken = min(before - number * period, period)
        parts.insert(0, between(source, axis, period - taken, period))
    return concatenate(parts, axis, stream=stream)
