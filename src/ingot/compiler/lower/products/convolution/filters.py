"""Packing filters: panels of columns that a register tile reads one after the other.

(groups, outputs, *taps, channels) with any strides become (groups, panels, taps * channels,
columns): a vector of outputs for each tap and channel. Missing columns are 0.
"""

from __future__ import annotations

from math import prod

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, CopyBlock, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, kernel_of
from ingot.compiler.lower.products.convolution.plain import Plain, given_lanes
from ingot.compiler.lower.products.register_tile import lanes_of

__all__ = ["pack_filters", "packed_filters"]


def packed_filters(
    builder: NestBuilder, plain: Plain, columns: int, argument: int, offset: int
) -> Buffer:
    """Panels of packed filters, (groups, panels, rows, columns), in scratch memory."""
    panels = -(-plain.outputs // columns)
    shape = (plain.groups, panels, plain.depth, columns)
    return builder.row_major("panels", plain.dtype, shape, argument, offset)


def pack_filters(plain: Plain, step: Step, columns: int, offset: int) -> Kernel:
    """The kernel that packs the filters, which are the value of a step."""
    builder = NestBuilder()
    source = plain.filters.buffer(builder, 0)
    target = packed_filters(builder, plain, columns, 1, offset)
    groups, panels, depth, _ = target.shape
    taps = plain.filters.layout.shape[2:-1]
    assert isinstance(depth, int)
    with builder.parallel((groups, panels, *taps), plain.channels * columns) as indices:
        group, panel, *tap = indices
        _Packing(builder, plain, source, target, (group, panel), tuple(tap)).run()
    return kernel_of(builder.nest, (step, None))


class _Packing:
    """One tap of a panel."""

    def __init__(
        self,
        builder: NestBuilder,
        plain: Plain,
        source: Buffer,
        target: Buffer,
        panel: tuple[Index, Index],
        tap: tuple[Index, ...],
    ) -> None:
        self.builder = builder
        self.plain = plain
        self.source = source
        self.target = target
        self.panel = panel
        self.tap = tap
        taps = plain.filters.layout.shape[2:-1]
        row = affine(0)
        for number, index in enumerate(tap):
            row = row + affine(index) * prod(taps[number + 1 :])
        self.row = row * plain.channels  # the first row of the tap

    def run(self) -> None:
        plain, builder = self.plain, self.builder
        columns = self.target.shape[-1]
        assert isinstance(columns, int)
        first = affine(self.panel[1]) * columns
        there = affine(columns)  # columns that are outputs
        if plain.outputs % columns:
            there = affine(builder.multiple(0, columns, affine(plain.outputs) - first, by=1))
        layout = plain.filters.layout
        size, side = plain.filters.dtype.size, lanes_of(plain.dtype)
        transposes = (
            layout.strides[-1] == size
            and layout.strides[1] != size
            and plain.filters.dtype is plain.dtype
            and plain.channels >= side
        )
        if transposes:
            self._transposed(first, there, side)
        else:
            with builder.loop(0, plain.channels, copies=1) as channel:  # LLVM would unroll all
                self._row(first, affine(channel), affine(0), there)
        if plain.outputs % columns:
            with builder.loop(0, plain.channels) as channel:
                zero = Constant(plain.dtype, 0)
                with builder.loop(there, columns, kind="vector") as column:
                    builder.store(zero, self.target, self._at(affine(channel), affine(column)))

    def _at(self, channel: Affine, column: Affine) -> tuple[Affine, ...]:
        return (*map(affine, self.panel), self.row + channel, column)

    def _from(self, output: Affine, channel: Affine) -> tuple[Affine, ...]:
        return (affine(self.panel[0]), output, *map(affine, self.tap), channel)

    def _row(self, first: Affine, channel: Affine, begin: Affine, end: Affine) -> None:
        """Copies some outputs of a channel one by one."""
        builder = self.builder
        lanes = given_lanes(self.source, 1)
        with builder.loop(begin, end, kind="vector", lanes=lanes) as column:
            value = self._value(first + column, channel)
            builder.store(value, self.target, self._at(channel, affine(column)))

    def _value(self, output: Affine, channel: Affine) -> Value:
        """An element of the filters, or a pair of them as one word."""
        words, dtype = self.builder.words, self.plain.dtype

        def loaded(number: Affine) -> Value:
            return words.cast(self.builder.load(self.source, self._from(output, number)), dtype)

        if not self.plain.has_pairs:
            return loaded(channel)
        high = words.left_shift(loaded(channel * 2 + 1), Constant(dtype, 16))
        return words.bitwise_or(loaded(channel * 2), high)

    def _transposed(self, first: Affine, there: Affine, side: int) -> None:
        """Copies square blocks, transposed in registers, and the remainder element by element."""
        builder, plain = self.builder, self.plain
        whole = there
        if there.terms or there.constant % side:
            whole = affine(builder.multiple(0, there, by=side))
        channels = plain.channels - plain.channels % side
        # the panel's rows as a matrix, the target of copied blocks
        target = self._rows()
        with (
            builder.loop(0, whole, step=side) as column,
            builder.loop(0, channels, step=side) as channel,
        ):
            axes = (len(self.source.shape) - 1, 1)
            row = self._first_row() + channel
            source = self._from(first + column, affine(channel))
            at = (row, affine(column))
            builder.body.append(CopyBlock(target, at, self.source, source, axes, side))
        with builder.loop(channels, plain.channels) as channel:
            self._row(first, affine(channel), affine(0), whole)
        if whole is not there:
            with builder.loop(0, plain.channels, copies=1) as channel:  # LLVM would unroll all
                self._row(first, affine(channel), whole, there)

    def _rows(self) -> Buffer:
        target = self.target
        groups, panels, depth, columns = target.shape
        rows = groups * panels * depth  # type: ignore[operator]
        strides = target.strides[-2:]
        return self.builder.buffer(
            "rows", target.dtype, (rows, columns), strides, target.argument, target.offset
        )

    def _first_row(self) -> Affine:
        _, panels, depth, _ = self.target.shape
        assert isinstance(panels, int)
        assert isinstance(depth, int)
        group, panel = self.panel
        return (affine(group) * panels + panel) * depth + self.row
