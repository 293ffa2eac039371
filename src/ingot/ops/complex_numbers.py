"""Real and imaginary parts and conjugates."""

from __future__ import annotations

__all__: list[str] = []
