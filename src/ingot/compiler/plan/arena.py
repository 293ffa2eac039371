"""The arena: offsets in one block of memory for a program's intermediate values."""

from __future__ import annotations

from bisect import bisect, insort

__all__ = ["ALIGNMENT", "Arena"]

ALIGNMENT = 64


class Arena:
    """A best-fit allocator of offsets in one block of memory."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (offset, size), by offset
        self._by_size: list[tuple[int, int]] = []  # (size, offset) of the same blocks, by size

    def take(self, nbytes: int) -> int:
        """Allocates the smallest free block that fits, and returns its offset."""
        wanted = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        smallest = bisect(self._by_size, (wanted, -1))
        if smallest < len(self._by_size):
            size, offset = self._by_size[smallest]
            self._remove(bisect(self._free, (offset, size)) - 1)
            if size > wanted:
                self._add(offset + wanted, size - wanted)
            return offset
        if self._free and sum(self._free[-1]) == self.size:
            offset, _ = self._remove(len(self._free) - 1)
            self.size = offset + wanted
            return offset
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
            size += self._remove(position)[1]
        if position > 0 and sum(free[position - 1]) == offset:
            position -= 1
            before, length = self._remove(position)
            offset, size = before, size + length
        free.insert(position, (offset, size))
        insort(self._by_size, (size, offset))

    def _remove(self, position: int) -> tuple[int, int]:
        """Takes a free block, by its position among them, out of both lists."""
        offset, size = self._free.pop(position)
        del self._by_size[bisect(self._by_size, (size, offset)) - 1]
        return offset, size
