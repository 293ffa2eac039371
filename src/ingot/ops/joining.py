"""Joining and splitting: concatenate, stack, split, tile, repeat, pad, roll."""

from __future__ import annotations

__all__: list[str] = []
