"""Split reductions: of few long rows, along other axes than the last, and with long strides.

Blocks, or groups of them (`graph/numerics/reduction_order.py`), are reduced independently on
several threads; their results go to scratch memory, and a second kernel combines them. The groups
do not depend on the number of threads, so neither do the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import Buffer, Carried, Value
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import depends_on_order
from ingot.compiler.lower.group import GroupBuilder, Known, Point
from ingot.compiler.lower.kernel import Kernel, Lowered
from ingot.compiler.lower.reductions.accumulator import Accumulator
from ingot.compiler.lower.reductions.columns import Columns
from ingot.compiler.lower.reductions.flat_columns import columns_of
from ingot.compiler.lower.reductions.row_blocks import Rows
from ingot.compiler.lower.tiles import crosses
from ingot.graph.numerics.reduction_order import PART, inner_axes
from ingot.graph.shape import contiguous, size_of
from ingot.tuning import MAX_UNSPLIT_ELEMENTS, MIN_UNSPLIT_TILES

__all__ = ["Across", "columns", "split"]

PARTIAL_BYTES = 8  # of a partial result

Strides = dict[Step, tuple[int, ...]]


def split(builder: GroupBuilder, strides_of: Strides) -> Lowered:
    """Reductions of few long rows, or of axes in any order: groups of blocks, then their
    results.
    """
    domain = builder.domain
    maps, outputs = elements_of(builder), outputs_of(builder, whole=True)

    def elements(point: Point, at: Affine) -> list[Value]:
        known: Known = {}
        builder.compute(maps, known, point)
        builder.store_outputs(outputs, known, point)
        return [builder.reduced_input(step, known, point) for step in builder.reductions]

    accumulators = [Accumulator(step) for step in builder.reductions]
    reduced = Rows(builder, accumulators, elements)
    parts = reduced.parts
    if reduced.blocks <= reduced.in_part:
        with builder.rows(domain.size(domain.reduced)) as point:
            _store_results(builder, accumulators, reduced.row(point), point)
        return Lowered([builder.finish()])
    partials = _partials(builder, accumulators, parts, by_part=False)
    lengths = [domain.lengths[axis] for axis in domain.kept]
    work = domain.size(domain.reduced) // parts
    with builder.parallel((*lengths, parts), work) as (*kept, part):
        here = [affine(0)] * len(domain.lengths)
        for axis, index in zip(domain.kept, kept, strict=True):
            here[axis] = affine(index)
        totals = reduced.part(tuple(here), affine(part))
        for buffer, total in zip(partials, totals, strict=True):
            builder.store(total, buffer, [affine(index) for index in (*kept, part)])
    scratch = PARTIAL_BYTES * domain.size(domain.kept) * parts * len(accumulators)
    finish = _combine_partials(builder.group, strides_of, parts, by_part=False)
    return Lowered([builder.finish(), finish], scratch)


def outputs_of(builder: GroupBuilder, whole: bool) -> list[Step]:
    """The outputs with an element at each point of the domain, or those with one per row."""
    size = size_of(builder.group.domain)
    return [step for step in builder.group.outputs if (size_of(step.shape) == size) is whole]


def elements_of(builder: GroupBuilder) -> list[Step]:
    """The steps with an element at each point of the domain."""
    reduced = [step.inputs[0] for step in builder.reductions]
    return builder.closure([*reduced, *outputs_of(builder, whole=True)], lambda step: False)


def _store_results(
    builder: GroupBuilder,
    accumulators: Sequence[Accumulator],
    totals: Sequence[Value],
    point: Point,
) -> None:
    """Computes and stores the outputs that depend on the totals of a row."""
    known = {
        x.step: x.result(builder, total) for x, total in zip(accumulators, totals, strict=True)
    }
    outputs = outputs_of(builder, whole=False)
    builder.compute(builder.closure(outputs, lambda step: step in known), known, point)
    builder.store_outputs(outputs, known, point)


def _partials(
    builder: GroupBuilder, accumulators: Sequence[Accumulator], parts: int, by_part: bool
) -> list[Buffer]:
    """Scratch memory for partial results, by row or (`by_part`) by part; each reduction's are
    contiguous.
    """
    kept = [builder.domain.lengths[axis] for axis in builder.domain.kept]
    lengths = [parts, *kept] if by_part else [*kept, parts]
    return _scratch(builder, accumulators, lengths, contiguous(lengths, PARTIAL_BYTES))


def _scratch(
    builder: GroupBuilder,
    accumulators: Sequence[Accumulator],
    lengths: Sequence[int],
    strides: Sequence[int],
) -> list[Buffer]:
    """A scratch buffer for each reduction, as one more argument of the kernel."""
    distance = PARTIAL_BYTES * size_of(lengths)
    argument = len(builder.operands)
    builder.operands.append(None)
    return [
        builder.buffer(f"partial{number}", x.total, lengths, strides, argument, number * distance)
        for number, x in enumerate(accumulators)
    ]


def _combine_partials(
    group: Group, strides_of: Strides, parts: int, by_part: bool, are_blocks: bool = False
) -> Kernel:
    """The second kernel of a split reduction. Parts that are single blocks are combined in
    groups.
    """
    builder = GroupBuilder(group, strides_of)
    accumulators = [Accumulator(step) for step in builder.reductions]
    partials = _partials(builder, accumulators, parts, by_part)
    # unrolled, so that LLVM vectorises across rows
    kind = "unroll" if type(parts) is int and parts <= PART else "for"

    def combine(kept: list[Affine], begin: Affine, *ends: Affine) -> list[Carried]:
        totals = [Carried(x.total, x.start(x.total)) for x in accumulators]
        with builder.loop(begin, *ends, carried=totals, kind=kind) as part:
            index = [affine(part), *kept] if by_part else [*kept, affine(part)]
            for x, total, buffer in zip(accumulators, totals, partials, strict=True):
                total.update = x.combine(builder, total, builder.load(buffer, index))
        return totals

    with builder.rows(parts) as point:
        kept = [point[axis] for axis in builder.domain.kept]
        if not are_blocks or parts <= PART:
            totals = combine(kept, affine(0), affine(parts))
        else:
            totals = [Carried(x.total, x.start(x.total)) for x in accumulators]
            with builder.loop(0, -(-parts // PART), carried=totals, copies=1) as number:
                first = affine(number) * PART
                found = combine(kept, first, first + PART, affine(parts))
                for x, total, each in zip(accumulators, totals, found, strict=True):
                    total.update = x.combine(builder, total, each)
        _store_results(builder, accumulators, totals, point)
    return builder.finish()


def columns(builder: GroupBuilder, strides_of: Strides) -> Lowered:
    """Reductions along other axes than the last, in tiles of columns. They are not split if the
    work is too small for several threads, or if there are enough tiles for all of them.
    """
    domain = builder.domain
    tiles = columns_of(builder, elements_of(builder), outputs_of(builder, whole=True))
    accumulators = tiles.accumulators
    is_small = size_of(domain.lengths) <= MAX_UNSPLIT_ELEMENTS
    is_split = not is_small and tiles.blocks > 1 and tiles.count < MIN_UNSPLIT_TILES
    are_blocks = bool(tiles.is_long)  # few, because each has many rows
    lengths = [domain.lengths[axis] for axis in tiles.kept]
    if not is_split or not (are_blocks or tiles.in_parts):
        work = tiles.width * domain.size(domain.reduced)
        with builder.parallel((*lengths, tiles.in_row), work) as (*kept, tile):
            tiles.begin_tile(kept, tile)
            tiles.reduce_all(
                lambda column, totals: _store_results(
                    builder, accumulators, totals, tiles.point_of(column)
                )
            )
        return Lowered([builder.finish()])
    parts = tiles.blocks if are_blocks else tiles.parts
    partials = _partials(builder, accumulators, parts, by_part=True)
    work = tiles.width * (domain.size(domain.reduced) // parts)
    with builder.parallel((*lengths, parts, tiles.in_row), work) as (*kept, part, tile):

        def store(column: Affine, totals: list[Value]) -> None:
            point = tiles.point_of(column)
            index = [affine(part), *(point[axis] for axis in domain.kept)]
            for buffer, total in zip(partials, totals, strict=True):
                builder.store(total, buffer, index)

        tiles.begin_tile(kept, tile)
        if are_blocks:
            tiles.reduce_block(affine(part), store)
        else:
            tiles.reduce_part(affine(part), store)
    scratch = PARTIAL_BYTES * domain.size(domain.kept) * parts * len(accumulators)
    finish = _combine_partials(builder.group, strides_of, parts, True, are_blocks)
    return Lowered([builder.finish(), finish], scratch)


class Across:
    """Reductions whose inner axes have long strides, while an outer axis has a small one: blocks of
    many columns along that axis are reduced side by side, and a second kernel combines them in
    order.
    """

    def __init__(self, group: Group, strides_of: Strides) -> None:
        self.group, self.strides_of = group, strides_of
        self.whole = GroupBuilder(group, strides_of)
        reduced = tuple(group.reduced or ())
        inner = inner_axes(group.domain, reduced)
        self.outer = tuple(axis for axis in reduced if axis not in inner)
        domain = self.whole.domain  # its order is that of the second kernel
        self.kept = tuple(axis for kept in domain.kept for axis in domain.axes[kept])
        self.blocks = replace(
            group,
            steps=[*elements_of(self.whole), *self.whole.reductions],
            outputs=outputs_of(self.whole, whole=True),
            reduced=inner,
        )

    def builder(self) -> GroupBuilder | None:
        """The kernel that reduces blocks, unless it too would read with long strides."""
        if not self.outer or self.group.by_rows or not depends_on_order(self.group):
            return None
        if is_symbolic(size_of(self.group.domain)):
            return None
        builder = GroupBuilder(self.blocks, self.strides_of, apart=self.outer)
        domain = builder.domain
        last = len(domain.lengths) - 1
        fits = (
            last in domain.kept
            and not any(crosses(x, axis, last) for x in builder.reads for axis in range(last))
            and all(map(self._is_in_order, domain.axes))
        )
        return builder if fits else None

    def _is_in_order(self, axes: tuple[int, ...]) -> bool:
        """Whether joined axes are also adjacent in scratch memory."""
        for kind in (self.kept, self.outer):
            if axes[0] in kind:
                first = kind.index(axes[0])
                return kind[first : first + len(axes)] == axes
        return True

    def lowered(self, builder: GroupBuilder) -> Lowered:
        """Both kernels."""
        domain, own = builder.domain, self.group.domain
        tiles = Columns(builder, elements_of(builder), self.blocks.outputs)
        lengths = [own[axis] for axis in (*self.kept, *self.outer)] + [tiles.blocks]
        strides = contiguous(lengths, PARTIAL_BYTES)
        stride_of = dict(zip((*self.kept, *self.outer), strides, strict=False))
        partials = _scratch(
            builder,
            tiles.accumulators,
            [*(domain.lengths[axis] for axis in domain.kept), tiles.blocks],
            [*(stride_of[domain.axes[axis][-1]] for axis in domain.kept), PARTIAL_BYTES],
        )
        around = [domain.lengths[axis] for axis in tiles.kept]
        work = tiles.width * (domain.size(domain.reduced) // tiles.blocks)
        shared = (*around, tiles.blocks, tiles.in_row)
        with builder.parallel(shared, work) as (*kept, block, tile):

            def store(column: Affine, totals: list[Value]) -> None:
                point = tiles.point_of(column)
                index = [*(point[axis] for axis in domain.kept), affine(block)]
                for buffer, total in zip(partials, totals, strict=True):
                    builder.store(total, buffer, index)

            tiles.begin_tile(kept, tile)
            tiles.reduce_block(affine(block), store)
        blocks = tiles.blocks * size_of(own[axis] for axis in self.outer)
        scratch = PARTIAL_BYTES * size_of(lengths) * len(tiles.accumulators)
        finish = _combine_partials(self.group, self.strides_of, blocks, False, are_blocks=True)
        return Lowered([builder.finish(), finish], scratch)
