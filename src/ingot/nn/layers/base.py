"""Alias for programs written for MLX: `Module` is in `ingot.nn.module`."""

from ingot.nn.module import Module

__all__ = ["Module"]
