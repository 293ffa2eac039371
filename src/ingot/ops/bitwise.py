"""Bitwise logic and shifts of integers and booleans."""

from __future__ import annotations

__all__: list[str] = []
