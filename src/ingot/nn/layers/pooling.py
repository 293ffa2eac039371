"""Pooling layers: the maximum or the mean of each window of a signal, image or volume."""

from __future__ import annotations

from collections.abc import Sequence

import ingot.core as mx
from ingot.nn.module import Module
from ingot.ops.reduce.pooling import pool

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]

Lengths = int | Sequence[int]


class _Pool(Module):
    """Shared by all pooling layers: (N, ..., C) is divided into windows, which are reduced."""

    _dimensions: int
    _kind: str

    def __init__(
        self, kernel_size: Lengths, stride: Lengths | None = None, padding: Lengths = 0
    ) -> None:
        super().__init__()
        sizes = self._lengths("kernel_size", kernel_size, 1)
        steps = sizes if stride is None else self._lengths("stride", stride, 1)
        self._kernel_size = sizes
        self._stride = steps
        self._padding = self._lengths("padding", padding, 0)

    def _lengths(self, name: str, given: Lengths, least: int) -> tuple[int, ...]:
        """One length per axis, from one for all or from several."""
        count = self._dimensions
        lengths = (given,) * count if isinstance(given, int) else given
        if not isinstance(lengths, (tuple, list)) or len(lengths) != count:
            raise ValueError(
                f"[{type(self).__name__}] {name} must be an int or a tuple of {count} ints, "
                f"got {given!r}."
            )
        if any(length < least for length in lengths):
            raise ValueError(
                f"[{type(self).__name__}] {name} must be at least {least}, got {given!r}."
            )
        return tuple(lengths)

    def _extra_repr(self) -> str:
        return f"kernel_size={self._kernel_size}, stride={self._stride}, padding={self._padding}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim != self._dimensions + 2:
            raise ValueError(
                f"[{type(self).__name__}] expected an input with {self._dimensions + 2} "
                f"dimensions, the batch first and the channels last, got shape {x.shape}."
            )
        return pool(x, self._kind, self._kernel_size, self._stride, self._padding)


class MaxPool1d(_Pool):
    """The largest values in windows of signals of shape (N, L, C).

    Args:
        kernel_size: The length of the windows.
        stride: The step from one window to the next; the length of a window by default.
        padding: How many elements, which never are the largest, are added at both ends.
    """

    _dimensions = 1
    _kind = "max"


class MaxPool2d(_Pool):
    """The largest values in windows of images of shape (N, H, W, C).

    Args:
        kernel_size: Height and width of the windows, or one int for both.
        stride: The steps from one window to the next; the size of a window by default.
        padding: How many elements, which never are the largest, are added at all sides.
    """

    _dimensions = 2
    _kind = "max"


class MaxPool3d(_Pool):
    """The largest values in windows of volumes of shape (N, D, H, W, C).

    Args:
        kernel_size: Depth, height and width of the windows, or one int for all.
        stride: The steps from one window to the next; the size of a window by default.
        padding: How many elements, which never are the largest, are added at all sides.
    """

    _dimensions = 3
    _kind = "max"


class AvgPool1d(_Pool):
    """The means of windows of signals of shape (N, L, C).

    Args:
        kernel_size: The length of the windows.
        stride: The step from one window to the next; the length of a window by default.
        padding: How many zeros are added at both ends. They count in the means.
    """

    _dimensions = 1
    _kind = "mean"


class AvgPool2d(_Pool):
    """The means of windows of images of shape (N, H, W, C).

    Args:
        kernel_size: Height and width of the windows, or one int for both.
        stride: The steps from one window to the next; the size of a window by default.
        padding: How many zeros are added at all sides. They count in the means.
    """

    _dimensions = 2
    _kind = "mean"


class AvgPool3d(_Pool):
    """The means of windows of volumes of shape (N, D, H, W, C).

    Args:
        kernel_size: Depth, height and width of the windows, or one int for all.
        stride: The steps from one window to the next; the size of a window by default.
        padding: How many zeros are added at all sides. They count in the means.
    """

    _dimensions = 3
    _kind = "mean"
