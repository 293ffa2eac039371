"""Diagonals and triangles of matrices."""

from __future__ import annotations

__all__: list[str] = []
