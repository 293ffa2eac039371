"""The arena of a plan whose sizes are symbolic: blocks that values share one after the other.

Which values share a block is decided by the example at hand. A block is as large as the largest of
them for each shape, so that no shape is too large for what was decided.
"""

from __future__ import annotations

from ingot.compiler.forms.size import Number, Size, hint_of, largest
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.plan.arena import ALIGNMENT

__all__ = ["SymbolicArena"]


class _Block:
    def __init__(self, offset: Size) -> None:
        self.offset = offset
        self.sizes: list[Number] = []  # of the values that were or are in it
        self.hint = 0

    def add(self, size: Number) -> None:
        """Makes room for a value."""
        self.sizes.append(size)
        self.hint = max(self.hint, hint_of(size))


class SymbolicArena:
    """Blocks of one memory, given and taken back. Offsets are sizes that `finish` defines."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._blocks: list[_Block] = []
        self._free: list[_Block] = []

    def take(self, nbytes: Number) -> Number:
        """The offset of a free block: the smallest that is large enough, or else the largest, which
        grows; or a new one.
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
        """Makes the block of a value free again."""
        self._free.append(next(block for block in self._blocks if block.offset is offset))

    @property
    def size(self) -> Number:
        """The bytes of all blocks; defines where they are."""
        total: Number = 0
        for block in self._blocks:
            self._sizes.define(block.offset, total)
            total = total + largest((ALIGNMENT, *block.sizes))
        return total
