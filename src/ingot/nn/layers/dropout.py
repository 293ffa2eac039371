"""Dropout: sets random elements to zero during training."""

from __future__ import annotations

from typing import Any

import ingot.core as mx
from ingot.nn.module import Module

__all__ = ["Dropout", "Dropout2d", "Dropout3d"]


class _Dropout(Module):
    """Shared by the layers, which differ in which elements are dropped together."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"[{type(self).__name__}] p must be a probability below 1, got {p}.")
        self._p_1 = 1 - p

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def _dropped(self, x: mx.array, mask_shape: Any) -> mx.array:
        if self._p_1 == 1 or not self.training:
            return x
        mask = mx.random.bernoulli(self._p_1, mask_shape)
        return (mask * x) * (1 / self._p_1)


class Dropout(_Dropout):
    """Sets each element to zero with probability p, in training mode.

    The others are multiplied with 1 / (1 - p), so that the mean stays the same.

    Args:
        p: The probability.
    """

    def __call__(self, x: mx.array) -> mx.array:
        return self._dropped(x, x.shape)


class Dropout2d(_Dropout):
    """Sets whole channels of images to zero with probability p, in training mode.

    The others are multiplied with 1 / (1 - p). Images have the shape (N, H, W, C) or (H, W, C).

    Args:
        p: The probability.
    """

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim not in (3, 4):
            raise ValueError(
                f"[Dropout2d] expected an input with 3 or 4 dimensions, got shape {x.shape}."
            )
        return self._dropped(x, (*x.shape[:-3], 1, 1, x.shape[-1]))


class Dropout3d(_Dropout):
    """Sets whole channels of volumes to zero with probability p, in training mode.

    The others are multiplied with 1 / (1 - p). Volumes have the shape (N, D, H, W, C) or
    (D, H, W, C).

    Args:
        p: The probability.
    """

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim not in (4, 5):
            raise ValueError(
                f"[Dropout3d] expected an input with 4 or 5 dimensions, got shape {x.shape}."
            )
        return self._dropped(x, (*x.shape[:-4], 1, 1, 1, x.shape[-1]))
