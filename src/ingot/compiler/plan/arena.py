"""The arena: offsets in one block of memory for a program's intermediate values."""

from __future__ import annotations

from bisect import bisect

__all__ = ["ALIGNMENT", "Arena"]

ALIGNMENT = 64


class Arena:
    """A best-fit allocator of offsets in one block of memory."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (offset, size), by offset

    def take(self, nbytes: int) -> int:
        """Allocates the smallest free block that fits, and returns its offset."""
        wanted = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        fitting = [(size, offset) for offset, size in self._free if size >= wanted]
        if fitting:
            size, offset = min(fitting)
            self._free.remove((offset, size))
            if size > wanted:
                self._add(offset + wanted, size - wanted)
            return offset
        last = self._free[-1] if self._free else None
        if last is not None and last[0] + last[1] == self.size:
            self._free.pop()
            self.size = last[0] + wanted
            return last[0]
        offset = self.size
        self.size += wanted
        return offset

    def give_back(self, offset: int, nbytes: int) -> None:
        """Frees a block."""
        self._add(offset, max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT))

    def _add(self, offset: int, size: int) -> None:
        """Joins a free block with its free neighbours."""
        free = self._free
        position = bisect(free, (offset, size))
        if position < len(free) and offset + size == free[position][0]:
            size += free.pop(position)[1]
        if position > 0 and sum(free[position - 1]) == offset:
            position -= 1
            before, length = free.pop(position)
            offset, size = before, size + length
        free.insert(position, (offset, size))
