"""Where programs written for MLX look for `Module`; it is in `ingot.nn.module`."""

from ingot.nn.module import Module

__all__ = ["Module"]
