"""Poisoned memory: new blocks are filled with 0xFF, so that reading what nobody wrote shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ingot import _native


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Fills every block of the allocator, arenas included, before it is handed out."""
    before = _native.set_memory_poison(True)
    try:
        yield
    finally:
        _native.set_memory_poison(before)
