"""Reductions: sums, products, extremes, logic over axes."""

from __future__ import annotations

__all__: list[str] = []
