"""Einstein summation and tensor contractions built on matmul."""

from __future__ import annotations

__all__: list[str] = []
