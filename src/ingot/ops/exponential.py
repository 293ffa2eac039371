"""Exponentials and logarithms, element by element, with sigmoid and the error function."""

from __future__ import annotations

__all__: list[str] = []
