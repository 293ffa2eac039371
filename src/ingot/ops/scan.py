"""Cumulative sums, products and extremes."""

from __future__ import annotations

__all__: list[str] = []
