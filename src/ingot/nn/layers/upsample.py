"""Resizing of signals, images and volumes.

Interpolation is separable: along each axis, every element of the result is a weighted sum of a few
elements of the input, the taps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import ceil
from typing import Literal

import ingot.core as mx
from ingot.nn.module import Module

__all__ = ["Upsample"]

Taps = list[tuple[mx.array, mx.array]]  # indices into the input, and their weights, along one axis


class Upsample(Module):
    """Resizes an array of shape (N, ..., C) along the axes between.

    Args:
        scale_factor: The factor by which lengths grow: one for all axes, or one for each.
        mode: "nearest" repeats elements, "linear" and "cubic" interpolate.
        align_corners: Whether the first and the last elements of input and result are at the same
            positions, when interpolating. Otherwise the edges of the elements are.
        antialias: Whether to widen the filter when lengths shrink, when interpolating. With
            "cubic", this chooses the coefficient -0.5 instead of -0.75 too.
    """

    def __init__(
        self,
        scale_factor: float | Sequence[float],
        mode: Literal["nearest", "linear", "cubic"] = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        super().__init__()
        if mode not in ("nearest", "linear", "cubic"):
            raise ValueError(
                f"[Upsample] mode must be 'nearest', 'linear' or 'cubic', got {mode!r}."
            )
        if antialias and mode == "nearest":
            raise ValueError(
                "[Upsample] antialias=True needs mode='linear' or 'cubic', got 'nearest'."
            )
        if antialias and align_corners:
            raise ValueError(
                "[Upsample] antialias=True needs align_corners=False, got align_corners=True."
            )
        self.scale_factor: float | tuple[float, ...] = (
            tuple(map(float, scale_factor))
            if isinstance(scale_factor, (list, tuple))
            else float(scale_factor)  # type: ignore[arg-type]
        )
        factors = (
            self.scale_factor if isinstance(self.scale_factor, tuple) else (self.scale_factor,)
        )
        if not all(0 < factor < math.inf for factor in factors):
            raise ValueError(
                f"[Upsample] scale_factor must be positive and finite, got {self.scale_factor}."
            )
        self.mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def _extra_repr(self) -> str:
        text = (
            f"scale_factor={self.scale_factor}, mode={self.mode!r}, "
            f"align_corners={self.align_corners}"
        )
        return f"{text}, antialias=True" if self.antialias else text

    def __call__(self, x: mx.array) -> mx.array:
        axes = x.ndim - 2
        if axes <= 0:
            raise ValueError(
                "[Upsample] expected an input with at least 3 dimensions, (N, ..., C), got shape "
                f"{x.shape}."
            )
        scale = self.scale_factor
        scales = scale if isinstance(scale, tuple) else (scale,) * axes
        if len(scales) != axes:
            raise ValueError(
                f"[Upsample] expected one scale for each of {axes} axes, got scale_factor={scales}."
            )
        if self.mode == "nearest":
            return _nearest(x, scales)
        for axis, factor in enumerate(scales, start=1):
            x = _weighted_sum(x, axis, self._taps(x.shape[axis], factor))
        return x

    def _taps(self, length: int, scale: float) -> Taps:
        positions = _source_positions(length, scale, self.align_corners)
        if self.antialias and self.mode == "linear":
            return _filtered_taps(positions, length, scale, _triangle, 1)
        if self.antialias:
            return _filtered_taps(positions, length, scale, lambda x: _cubic(x, -0.5), 2)
        return (
            _linear_taps(positions, length)
            if self.mode == "linear"
            else _cubic_taps(positions, length)
        )


# MLX's functions of this module, which programs import from it.


def upsample_nearest(x: mx.array, scale_factor: Sequence[float]) -> mx.array:
    """Elements repeated, or left out, by one factor for each axis between the first and last."""
    return Upsample(tuple(scale_factor))(x)


def upsample_linear(
    x: mx.array,
    scale_factor: Sequence[float],
    align_corners: bool = False,
    antialias: bool = False,
) -> mx.array:
    """Linear interpolation, by one factor for each axis between the first and last."""
    return Upsample(tuple(scale_factor), "linear", align_corners, antialias)(x)


def upsample_cubic(
    x: mx.array,
    scale_factor: Sequence[float],
    align_corners: bool = False,
    antialias: bool = False,
) -> mx.array:
    """Cubic interpolation, by one factor for each axis between the first and last."""
    return Upsample(tuple(scale_factor), "cubic", align_corners, antialias)(x)


def _nearest(x: mx.array, scales: tuple[float, ...]) -> mx.array:
    """Each element of the result is the nearest element of the input."""
    for axis, scale in enumerate(scales, start=1):
        x = (
            mx.repeat(x, int(scale), axis=axis)
            if scale == int(scale)
            else mx.take(x, _nearest_indices(x.shape[axis], scale), axis=axis)
        )
    return x


def _nearest_indices(length: int, scale: float) -> mx.array:
    count = int(scale * length)
    positions = mx.arange(count, dtype=mx.float32)
    if count > length:
        positions = mx.round((positions + 0.5) * (length / count) - 0.5)
    else:
        positions = positions * (length / count)
    return positions.astype(mx.uint32)


def _source_positions(length: int, scale: float, align_corners: bool) -> mx.array:
    """The positions of the result's elements in the input, in float32."""
    count = int(scale * length)
    numbers = mx.arange(count, dtype=mx.float32)
    if align_corners:
        return numbers * ((length - 1) / max(count - 1, 1))
    step = 1 / scale
    return numbers * step - ((count - 1) * step - length + 1) / 2


def _inside(positions: mx.array, length: int) -> mx.array:
    """`positions` as indices, clamped to the ends."""
    return mx.clip(positions, 0, length - 1).astype(mx.uint32)


def _linear_taps(positions: mx.array, length: int) -> Taps:
    """The two neighbours, weighted by proximity."""
    positions = mx.clip(positions, 0, length - 1)
    before = mx.floor(positions)
    weight = positions - before
    return [(before.astype(mx.uint32), 1 - weight), (mx.ceil(positions).astype(mx.uint32), weight)]


def _cubic_taps(positions: mx.array, length: int) -> Taps:
    """The four neighbours, weighted by Keys' cubic with coefficient -0.75."""
    first = mx.floor(positions)
    neighbours = [first + shift for shift in (-1, 0, 1, 2)]
    return [
        (_inside(index, length), _cubic(mx.abs(positions - index), -0.75)) for index in neighbours
    ]


def _filtered_taps(
    positions: mx.array,
    length: int,
    scale: float,
    kernel: Callable[[mx.array], mx.array],
    radius: int,
) -> Taps:
    """All elements within the support of a filter as wide as the step between positions.

    Elements beyond the ends have no weight, and the other weights are renormalised.
    """
    width = max(1 / scale, 1.0)
    reach = ceil(radius * width)
    neighbours = [mx.floor(positions) + shift for shift in range(-reach, reach + 1)]
    weights = []
    for index in neighbours:
        weight = kernel(mx.abs(positions - index) / width)
        weights.append(mx.where((index >= 0) & (index < length), weight, 0.0))
    total = weights[0]
    for weight in weights[1:]:
        total = total + weight
    total = mx.where(total > 0, total, 1.0)
    return [
        (_inside(index, length), weight / total)
        for index, weight in zip(neighbours, weights, strict=True)
    ]


def _triangle(distance: mx.array) -> mx.array:
    return mx.maximum(1.0 - distance, 0.0)


def _cubic(distance: mx.array, coefficient: float) -> mx.array:
    """Keys' cubic convolution kernel, with support up to distance 2."""
    a, x = coefficient, distance
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return mx.where(x <= 1.0, near, mx.where(x <= 2.0, far, 0.0))


def _weighted_sum(x: mx.array, axis: int, taps: Taps) -> mx.array:
    along = (-1, *(1,) * (x.ndim - axis - 1))
    samples = [mx.take(x, indices, axis=axis) * weights.reshape(along) for indices, weights in taps]
    total = samples[0]
    for sample in samples[1:]:
        total = total + sample
    return total
