"""Pooling: extremes or means of windows that move along the axes of images, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ingot.graph.roles.products.tiled import Tiled
from ingot.graph.shape import size_of
from ingot.tuning_products import MIN_POOLING_ALONE

if TYPE_CHECKING:
    from ingot.graph.shape import Shape

__all__ = ["Pooling", "PoolingBackward", "PoolingWindows"]

_WHY_HOST = "its lengths are not known"


class PoolingWindows(NamedTuple):
    """The windows along each axis between the batch and the channels."""

    sizes: Shape
    steps: Shape  # from one window to the next
    padding: Shape  # elements added at both ends, fewer than those of a window

    def counts(self, lengths: Shape) -> Shape:
        """The number of windows along axes of these lengths."""
        return tuple(
            (length + 2 * padding - size) // step + 1
            for length, size, step, padding in zip(lengths, *self, strict=True)
        )


class Pooling(Tiled, role=True):
    """Images (N, ..., C) give one element for each window and channel: (N, *counts, C).

    Write a frozen dataclass with these fields, and the rules. There are loop nests for float dtypes
    and known lengths, which all but small ones run through without `compile` too.
    """

    kind: str  # "max", where padding is never the largest element, or "mean", where it is 0
    windows: PoolingWindows

    why_host = _WHY_HOST

    def runs_alone(self, *shapes: Shape) -> bool:
        return size_of(shapes[0]) >= MIN_POOLING_ALONE


class PoolingBackward(Tiled, role=True):
    """The cotangent of the images, from that of the results of `Pooling` and, for "max", the
    images; the largest elements of a window share its cotangent.

    Write a frozen dataclass with these fields, and the rules.
    """

    kind: str
    windows: PoolingWindows
    lengths: Shape  # of the images' axes between batch and channels

    why_host = _WHY_HOST

    def runs_alone(self, *shapes: Shape) -> bool:
        return size_of(shapes[0]) >= MIN_POOLING_ALONE
