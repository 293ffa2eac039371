"""Gradient clipping."""

from __future__ import annotations

from typing import Any

import ingot.core as mx
from ingot.graph.errors import type_name, value_text
from ingot.utils import tree_map, tree_reduce

__all__ = ["clip_grad_norm"]


def clip_grad_norm(grads: Any, max_norm: float) -> tuple[Any, mx.array]:
    """Scale all gradients down together if their norm is too large.

    Args:
        grads: A tree of gradients.
        max_norm: The largest norm of all of them together, as one vector.

    Returns:
        The clipped gradients, and their norm before clipping.
    """
    if max_norm < 0:
        raise ValueError(f"[clip_grad_norm] max_norm must not be negative, got {max_norm}.")
    total = tree_reduce(lambda so_far, g: so_far + _squared_norm(g), grads, 0.0)
    norm = mx.sqrt(total)
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda g: _scaled(g, factor), grads), norm


def _squared_norm(gradient: Any) -> mx.array:
    if not isinstance(gradient, mx.array):
        raise TypeError(
            "[clip_grad_norm] grads is a tree of arrays, and has "
            f"{type_name(gradient)}: {value_text(gradient)} in it."
        )
    # The squares of numbers above 256 are too large for float16.
    wide = gradient.astype(mx.float32) if gradient.dtype == mx.float16 else gradient
    return wide.square().sum()


def _scaled(gradient: mx.array, factor: mx.array) -> mx.array:
    scaled = gradient * factor
    if mx.issubdtype(gradient.dtype, mx.floating):
        return scaled.astype(gradient.dtype)
    return scaled
