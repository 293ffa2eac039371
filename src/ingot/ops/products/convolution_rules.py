"""The ops behind all convolutions, with their rules.

`Convolution` does not flip filters, and its parameters include the lengths of its result rather
than the padding after the input: everything outside the input is 0. Its VJP for the input is a
convolution with reversed filters and with stride and input dilation exchanged. Its VJP for the
filters is `ConvolutionByFilters`, whose own derivatives are convolutions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial as deferred
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.phases import Geometry
from ingot.graph.op import Op, apply
from ingot.graph.roles import Correlation, CorrelationByFilters
from ingot.graph.shape import Shape
from ingot.ops.elementwise.complex_numbers import conj
from ingot.ops.products.correlation import correlate, correlate_batch
from ingot.ops.shape.movement import flip, reshape, transpose

__all__ = ["Convolution", "ConvolutionByFilters"]


@dataclass(frozen=True)
class _Bilinear(Op, abstract=True):
    """Shared by the two ops: linearity in each input, and the geometry of windows."""

    strides: Shape  # the steps from one result to the next
    before: Shape  # zeros in front of the input; a negative number removes elements
    steps: Shape  # the distances between elements that a filter reads: kernel dilation
    spreads: Shape  # the distances of the input's elements among zeros: input dilation
    groups: int  # of channels that do not mix

    @property
    def geometry(self) -> Geometry:
        """The geometry, as the computation takes it."""
        return Geometry(self.strides, self.before, self.steps, self.spreads)

    def jvp(
        self, tangents: tuple[array | None, ...], out: array, a: array, b: array
    ) -> array | None:
        by_a = None if tangents[0] is None else apply(self, tangents[0], b)
        by_b = None if tangents[1] is None else apply(self, a, tangents[1])
        if by_a is None or by_b is None:
            return by_b if by_a is None else by_a
        return by_a + by_b


@dataclass(frozen=True)
class Convolution(_Bilinear, Correlation):
    """Sums of products of the input's windows and filters of the same dtype."""

    lengths: Shape  # of the result, without batch and channels

    def infer(self, x: array, filters: array) -> tuple[Shape, Dtype]:
        return (x.shape[0], *self.lengths, filters.shape[0]), x.dtype

    def evaluate(self, x: np.ndarray, filters: np.ndarray) -> np.ndarray:
        return correlate(x, filters, self.lengths, self.geometry, self.groups)

    def vjp(self, cotangent: array, out: array, x: array, filters: array) -> tuple[Any, Any]:
        return (
            deferred(self.cotangent_of_input, cotangent, x.shape, filters),
            deferred(self.cotangent_of_filters, cotangent, x, filters.shape),
        )

    def cotangent_of_input(self, cotangent: array, shape: Shape, filters: array) -> array:
        """The convolution of the cotangent with the reversed filters, with channels exchanged."""
        taps = filters.shape[1:-1]
        before = tuple(
            (count - 1) * step - padding
            for count, step, padding in zip(taps, self.steps, self.before, strict=True)
        )
        backward = Convolution(
            self.spreads, before, self.steps, self.strides, self.groups, shape[1:-1]
        )
        exchanged = _exchanged(conj(filters), self.groups)
        return apply(backward, cotangent, flip(exchanged, range(1, len(taps) + 1)))

    def cotangent_of_filters(self, cotangent: array, x: array, shape: Shape) -> array:
        """The sums of products of inputs and cotangents for each tap."""
        by_filters = ConvolutionByFilters(*self.geometry, self.groups, shape[1:-1])
        return apply(by_filters, conj(x), cotangent)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array, filters: array) -> array:
        if not batched[1]:  # more examples
            merged = reshape(x, (size * x.shape[1], *x.shape[2:]))
            result = apply(self, merged, filters)
            return reshape(result, (size, x.shape[1], *result.shape[1:]))
        if not batched[0]:  # more filters in each group
            more = _batch_into_outputs(filters, self.groups)
            return _batch_from_channels(apply(self, x, more), size, self.groups)
        more = _batch_into_outputs(filters, 1)
        result = apply(_with_groups(self, size), _batch_into_channels(x, 1), more)
        return _batch_from_channels(result, size, 1)


@dataclass(frozen=True)
class ConvolutionByFilters(_Bilinear, CorrelationByFilters):
    """The gradient of a convolution with respect to its filters: for each tap, a sum
    over windows.
    """

    taps: Shape

    def infer(self, x: array, outputs: array) -> tuple[Shape, Dtype]:
        return (outputs.shape[-1], *self.taps, x.shape[-1] // self.groups), x.dtype

    def evaluate(self, x: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        return correlate_batch(x, outputs, self.taps, self.geometry, self.groups)

    def vjp(self, cotangent: array, out: array, x: array, outputs: array) -> tuple[Any, Any]:
        forward = Convolution(*self.geometry, self.groups, outputs.shape[1:-1])

        def of_input() -> array:
            filters = conj(cotangent)
            return forward.cotangent_of_input(conj(outputs), x.shape, filters)

        return of_input, lambda: apply(forward, conj(x), cotangent)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array, outputs: array) -> array:
        if not batched[0]:  # more filters in each group
            more = _batch_into_channels(outputs, self.groups)
            return _batch_from_outputs(apply(self, x, more), size, self.groups)
        if batched[1]:
            more = _batch_into_channels(outputs, 1)
            result = apply(_with_groups(self, size), _batch_into_channels(x, 1), more)
            return _batch_from_outputs(result, size, 1)
        # More input channels for all filters.
        result = apply(self, _batch_into_channels(x, self.groups), outputs)
        return _batch_from_channels(result, size, 1)


def _with_groups(op: Any, factor: int) -> Any:
    return replace(op, groups=factor * op.groups)


def _exchanged(filters: array, groups: int) -> array:
    """Filters with input and output channels exchanged, within each group."""
    outputs, *taps, inputs = filters.shape
    last = filters.ndim - 1
    if groups == 1:
        return transpose(filters, (last, *range(1, last), 0))
    parts = reshape(filters, (groups, outputs // groups, *taps, inputs))
    moved = transpose(parts, (0, last + 1, *range(2, last + 1), 1))
    return reshape(moved, (groups * inputs, *taps, outputs // groups))


def _batch_into_channels(x: array, groups: int) -> array:
    """(B, ..., groups * C) as (..., groups * B * C)."""
    size, *front, channels = x.shape
    ndim = len(front)
    parts = reshape(x, (size, *front, groups, channels // groups))
    moved = transpose(parts, (*range(1, ndim + 2), 0, ndim + 2))
    return reshape(moved, (*front, size * channels))


def _batch_from_channels(x: array, size: int, groups: int) -> array:
    """(..., groups * B * C) as (B, ..., groups * C)."""
    *front, channels = x.shape
    ndim = len(front)
    parts = reshape(x, (*front, groups, size, channels // (groups * size)))
    moved = transpose(parts, (ndim + 1, *range(ndim + 1), ndim + 2))
    return reshape(moved, (size, *front, channels // size))


def _batch_into_outputs(filters: array, groups: int) -> array:
    """(B, groups * O, ...) as (groups * B * O, ...)."""
    size, outputs, *rest = filters.shape
    parts = reshape(filters, (size, groups, outputs // groups, *rest))
    moved = transpose(parts, (1, 0, *range(2, parts.ndim)))
    return reshape(moved, (size * outputs, *rest))


def _batch_from_outputs(filters: array, size: int, groups: int) -> array:
    """(groups * B * O, ...) as (B, groups * O, ...)."""
    outputs, *rest = filters.shape
    parts = reshape(filters, (groups, size, outputs // (groups * size), *rest))
    moved = transpose(parts, (1, 0, *range(2, parts.ndim)))
    return reshape(moved, (size, outputs // size, *rest))
