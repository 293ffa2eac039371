"""Trigonometric and hyperbolic functions and their inverses, element by element."""

from __future__ import annotations

__all__: list[str] = []
