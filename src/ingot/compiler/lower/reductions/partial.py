"""Reductions in parts: of few long rows, and along other axes than the last.

Groups of blocks (`graph/numerics/reduction_order.py`) are reduced by themselves, which spreads over
threads; their results go to scratch memory, and a second kernel combines them. The groups do not
depend on the number of threads, so neither do the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import Buffer, Carried, Value
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import GroupBuilder, Known, Spot
from ingot.compiler.lower.kernel import Kernel, Lowered
from ingot.compiler.lower.reductions.accumulators import Accumulator, Rows
from ingot.compiler.lower.reductions.columns import Columns
from ingot.graph.shape import size_of
from ingot.tuning import MAX_UNSPLIT_ELEMENTS, MIN_UNSPLIT_TILES

__all__ = ["columns", "split"]

PARTIAL_BYTES = 8  # of a partial result

Strides = dict[Step, tuple[int, ...]]


def split(builder: GroupBuilder, strides_of: Strides) -> Lowered:
    """Reductions of few long rows, or of axes in any order: groups of blocks, then their
    results.
    """
    domain = builder.domain
    maps, outputs = elements_of(builder), outputs_of(builder, whole=True)

    def elements(spot: Spot, at: Affine) -> list[Value]:
        known: Known = {}
        builder.compute(maps, known, spot)
        builder.store_outputs(outputs, known, spot)
        return [builder.reduced_input(step, known, spot) for step in builder.reductions]

    accumulators = [Accumulator(step) for step in builder.reductions]
    reduced = Rows(builder, accumulators, elements)
    parts = reduced.parts
    if reduced.blocks <= reduced.in_part:
        with builder.rows(domain.size(domain.reduced)) as spot:
            _store_results(builder, accumulators, reduced.row(spot), spot)
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
    """The outputs with an element at each spot of the domain, or those with one a row."""
    size = size_of(builder.group.domain)
    return [step for step in builder.group.outputs if (size_of(step.shape) == size) is whole]


def elements_of(builder: GroupBuilder) -> list[Step]:
    """What is computed at each spot of the domain."""
    reduced = [step.inputs[0] for step in builder.reductions]
    return builder.closure([*reduced, *outputs_of(builder, whole=True)], lambda step: False)


def _store_results(
    builder: GroupBuilder, accumulators: Sequence[Accumulator], totals: Sequence[Value], spot: Spot
) -> None:
    """Writes what a row was reduced to, and what follows from that."""
    known = {
        x.step: x.result(builder, total) for x, total in zip(accumulators, totals, strict=True)
    }
    outputs = outputs_of(builder, whole=False)
    builder.compute(builder.closure(outputs, lambda step: step in known), known, spot)
    builder.store_outputs(outputs, known, spot)


def _partials(
    builder: GroupBuilder, accumulators: Sequence[Accumulator], parts: int, by_part: bool
) -> list[Buffer]:
    """Scratch memory for partial results: row by row, or (`by_part`) part by part; all of one
    reduction together.
    """
    kept = [builder.domain.lengths[axis] for axis in builder.domain.kept]
    lengths = [parts, *kept] if by_part else [*kept, parts]
    strides: list[int] = []
    distance = PARTIAL_BYTES
    for length in reversed(lengths):
        strides.insert(0, distance)
        distance *= length
    argument = len(builder.operands)
    builder.operands.append(None)
    return [
        builder.buffer(f"partial{number}", x.total, lengths, strides, argument, number * distance)
        for number, x in enumerate(accumulators)
    ]


def _combine_partials(group: Group, strides_of: Strides, parts: int, by_part: bool) -> Kernel:
    """The second kernel of a split reduction."""
    builder = GroupBuilder(group, strides_of)
    accumulators = [Accumulator(step) for step in builder.reductions]
    partials = _partials(builder, accumulators, parts, by_part)
    with builder.rows(parts) as spot:
        kept = [spot[axis] for axis in builder.domain.kept]
        totals = [Carried(x.total, x.start(x.total)) for x in accumulators]
        with builder.loop(0, parts, carried=totals) as part:
            index = [affine(part), *kept] if by_part else [*kept, affine(part)]
            for x, total, buffer in zip(accumulators, totals, partials, strict=True):
                total.update = x.combine(builder, total, builder.load(buffer, index))
        _store_results(builder, accumulators, totals, spot)
    return builder.finish()


def columns(builder: GroupBuilder, strides_of: Strides) -> Lowered:
    """Reductions along other axes than the last: tiles of the last axis, side by side. What one
    thread does at once anyway, or is enough tiles for many threads, needs no parts.
    """
    domain = builder.domain
    tiles = Columns(builder, elements_of(builder), outputs_of(builder, whole=True))
    is_small = size_of(domain.lengths) <= MAX_UNSPLIT_ELEMENTS
    in_parts = not is_small and tiles.in_parts and tiles.count < MIN_UNSPLIT_TILES
    lengths = [domain.lengths[axis] for axis in tiles.kept]
    if not in_parts:
        work = tiles.width * domain.size(domain.reduced)
        with builder.parallel((*lengths, tiles.in_row), work) as (*kept, tile):
            tiles.begin_tile(kept, tile)
            tiles.reduce_all()
            for spot, totals in tiles.columns():
                _store_results(builder, tiles.accumulators, totals, spot)
        return Lowered([builder.finish()])
    parts = tiles.parts
    partials = _partials(builder, tiles.accumulators, parts, by_part=True)
    work = tiles.width * (domain.size(domain.reduced) // parts)
    with builder.parallel((*lengths, parts, tiles.in_row), work) as (*kept, part, tile):
        tiles.begin_tile(kept, tile)
        tiles.reduce_part(affine(part))
        for spot, totals in tiles.columns():
            index = [affine(part), *(spot[axis] for axis in domain.kept)]
            for buffer, total in zip(partials, totals, strict=True):
                builder.store(total, buffer, index)
    scratch = PARTIAL_BYTES * domain.size(domain.kept) * parts * len(tiles.accumulators)
    finish = _combine_partials(builder.group, strides_of, parts, by_part=True)
    return Lowered([builder.finish(), finish], scratch)
