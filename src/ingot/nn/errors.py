"""Errors of layers that are called with inputs of the wrong shape."""

from __future__ import annotations

import ingot.core as mx
from ingot.nn.module import Module

__all__ = ["input_error"]


def input_error(layer: Module, x: mx.array, features: int, error: ValueError) -> ValueError:
    """The error of a layer whose product with an input failed.

    Args:
        layer: The layer, which the user knows; the product is a detail.
        x: The input.
        features: How long the last axis of inputs has to be.
        error: That of the product, kept if the input has as many features.
    """
    if x.shape[-1:] == (features,):
        return error
    name = type(layer).__name__
    return ValueError(
        f"[{name}] expected {features} features along the last axis, got shape {x.shape}."
    )
