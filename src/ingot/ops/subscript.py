"""a[...] and a[...] = v: Python's subscripts turned into slices, gathers and scatters."""

from __future__ import annotations

__all__: list[str] = []
