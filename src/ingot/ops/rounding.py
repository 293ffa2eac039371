"""Rounding to whole numbers and decimals."""

from __future__ import annotations

__all__: list[str] = []
