"""Comparisons, logic and selection, element by element."""

from __future__ import annotations

__all__: list[str] = []
