"""Masking: causal order, explicit masks, and sinks, which compete with the scores of keys."""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.products.attention.operands import (
    KernelBuilder,
    Lengths,
    Memory,
    lowest,
)
from ingot.graph.dtype import bool_, int32
from ingot.graph.roles import Attend, AttendBackward

__all__ = ["Masking"]

HeadIndex = tuple[Affine, Affine]  # an example and a head of queries


class Masking:
    """The masking of one op, as statements of the nest that is being built."""

    def __init__(
        self,
        op: Attend | AttendBackward,
        extras: Sequence[Step],
        strides_of: dict[Step, tuple[int, ...]],
        lengths: Lengths,
    ) -> None:
        self.causal = op.causal
        self.lengths = lengths
        named = [("mask", extras[0])] if op.has_mask else []
        named += [("sinks", extras[-1])] if len(extras) > op.has_mask else []
        found = {name: Memory.of(name, each, strides_of[each]) for name, each in named}
        self.mask, self.sinks = found.get("mask"), found.get("sinks")
        self._mask: Buffer | None = None
        self._sinks: Buffer | None = None
        self._tile: Buffer | None = None
        self._positions: Buffer | None = None

    @property
    def hides(self) -> bool:
        """Whether keys may be masked, so that their scores are the lowest number."""
        return self.causal or (self.mask is not None and self.mask.dtype is bool_)

    def open(self, builder: KernelBuilder) -> None:
        """Declares the memory that a kernel needs."""
        self._mask = None if self.mask is None else builder.view(self.mask)
        self._sinks = None if self.sinks is None else builder.view(self.sinks)
        blocks = builder.blocks
        if self.mask is not None and self.mask.shape[2] != 1:
            dtype = bool_ if self.mask.dtype is bool_ else blocks.dtype
            self._tile = builder.local("tile", blocks.keys, blocks.queries, dtype=dtype)
        if self.causal:
            self._positions = builder.local("positions", blocks.queries, dtype=int32)

    def sink(self, builder: KernelBuilder, head_index: HeadIndex) -> Value | None:
        """The sink of a head, broadcast to all lanes, if there is one."""
        return (
            None if self._sinks is None else builder.everywhere(self.sink_at(builder, head_index))
        )

    def sink_at(self, builder: KernelBuilder, head_index: HeadIndex) -> Value:
        """The sink of a head."""
        assert self._sinks is not None
        example, head = head_index
        found = builder.at(self._sinks, 0 if self._sinks.shape[0] == 1 else example, head)
        return builder.wide(found)

    def start(self, builder: KernelBuilder, first: Affine) -> None:
        """Begins a block of queries: computes the last key that each of them attends to."""
        if self._positions is None:
            return
        with builder.loop(0, builder.blocks.queries, kind="vector") as lane:
            position = builder.position(first + lane + self.lengths.ahead, int32)
            builder.put(position, self._positions, lane)

    def key_ends(self, first: Affine, count: int) -> tuple[Affine, ...]:
        """The end of the keys that any of `count` queries attends to, from the first on. A query
        that attends to none has the mean of all values.
        """
        keys, ahead = affine(self.lengths.keys), self.lengths.ahead
        return (keys, first + (count + ahead)) if self.causal and ahead >= 0 else (keys,)

    def load(
        self,
        builder: KernelBuilder,
        head_index: HeadIndex,
        first: Affine,
        start: Affine,
        stop: Affine,
    ) -> None:
        """Transposes the mask of a block of queries and keys."""
        if self._tile is None:
            return
        lengths, mask = self.lengths, self._mask
        assert mask is not None
        with builder.loop(0, builder.blocks.queries) as lane:
            row = builder.least(0, first + lane, lengths.queries - 1)
            with builder.loop(0, stop - start, kind="vector") as key:
                index = self._index(mask, head_index, row, start + key)
                element = builder.at(mask, *index)
                element = element if mask.dtype is bool_ else builder.wide(element)
                builder.put(element, self._tile, key, lane)

    def _index(self, mask: Buffer, head_index: HeadIndex, row: Affine, key: Affine) -> list[Affine]:
        """The index of a score in the mask, which is broadcast along axes of length 1."""
        wanted = (*head_index, row, key)
        return [
            affine(0) if length == 1 else at for length, at in zip(mask.shape, wanted, strict=True)
        ]

    def masked(
        self,
        builder: KernelBuilder,
        head_index: HeadIndex,
        score: Value,
        key: Affine,
        in_block: Affine,
        column: int,
    ) -> Value:
        """The scores of a key and a bundle of queries, from a column of their block on."""
        words, hidden = builder.words, builder.numbers(lowest(builder.blocks.dtype))
        if self._positions is not None:
            last = builder.lanes_at(self._positions, column)
            position = builder.everywhere(builder.position(key, int32))
            score = words.select(words.greater_equal(last, position), score, hidden)
        if self._mask is None:
            return score
        if self._tile is not None:
            part = builder.lanes_at(self._tile, in_block, column)
        else:
            element = builder.at(self._mask, *self._index(self._mask, head_index, affine(0), key))
            is_flag = element.dtype is bool_
            part = builder.everywhere(element if is_flag else builder.wide(element))
        if part.dtype is bool_:
            return words.select(part, score, hidden)
        return words.add(score, part)
