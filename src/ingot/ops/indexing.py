"""Gather and scatter primitives, slices and their updates."""

from __future__ import annotations

__all__: list[str] = []
