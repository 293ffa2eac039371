"""New arrays: filled, counted, identity matrices and windows."""

from __future__ import annotations

__all__: list[str] = []
