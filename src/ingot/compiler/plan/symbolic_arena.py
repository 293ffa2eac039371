"""The arena of a plan with symbolic sizes: blocks that several values share, one after the other.

The example at hand decides which values share a block. For each shape a block is as large as the
largest of its values, so the decision is valid for all shapes.
"""

from __future__ import annotations

from ingot.compiler.forms.size import Number, Size, hint_of, largest
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.plan.arena import ALIGNMENT

__all__ = ["SymbolicArena"]


class _Block:
    def __init__(self, offset: Size) -> None:
        self.offset = offset
        self.sizes: list[Number] = []  # of all values that ever share it
        self.hint = 0

    def add(self, size: Number) -> None:
        """Adds a value to the block."""
        self.sizes.append(size)
        self.hint = max(self.hint, hint_of(size))


class SymbolicArena:
    """An allocator of blocks with symbolic sizes. Their offsets are sizes that `finish` defines."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._blocks: list[_Block] = []
        self._free: list[_Block] = []

    def take(self, nbytes: Number) -> Number:
        """The offset of a free block: the smallest that is large enough, else the largest, which
        grows, else a new one.
        """
        wanted = -(-nbytes // ALIGNMENT) * ALIGNMENT
        hint = hint_of(wanted)
        if self._free:
            fitting = [block for block in self._free if block.hint >= hint]
            if fitting:
                block = min(fitting, key=lambda each: each.hint)
            else:
                block = max(self._free, key=lambda each: each.hint)
            self._free.remove(block)
        else:
            block = _Block(self._sizes.later(sum(each.hint for each in self._blocks)))
            self._blocks.append(block)
        block.add(wanted)
        return block.offset

    def give_back(self, offset: Number, nbytes: Number) -> None:
        """Frees the block of a value."""
        self._free.append(next(block for block in self._blocks if block.offset is offset))

    @property
    def size(self) -> Number:
        """The total size of the blocks; defines their offsets."""
        total: Number = 0
        for block in self._blocks:
            self._sizes.define(block.offset, total)
            total = total + largest((ALIGNMENT, *block.sizes))
        return total
