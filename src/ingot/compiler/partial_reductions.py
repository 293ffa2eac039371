"""Reductions in parts: of few long rows, and along other axes than the last.

Parts of the first reduced axis are reduced by themselves, which spreads over threads; their results
go to scratch memory, and a second kernel combines them. The parts do not depend on the number of
threads, so neither do the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot._native import Dtype
from ingot.compiler.code import Register
from ingot.compiler.emit import Element
from ingot.compiler.loops import Accumulator, Kernel, Lowered, Pointers, Writer, flat, unflat
from ingot.compiler.schedule import Group
from ingot.compiler.tape import Step
from ingot.graph.shape import size_of

__all__ = ["columns", "split"]

SPLIT = 1 << 15  # elements of a long row that one part reduces
COLUMNS = 1024  # elements side by side in a reduction along other axes
# how many of these are summed in their own precision before they join a wider total
COLUMN_ROWS = 128
# rows that a reduction along columns adds at once, divided by the steps it computes
ROWS_TOGETHER = 8
MANY_TILES = 64  # tiles of columns that keep all threads busy, each being reduced by one of them


def split(writer: Writer, strides_of: dict[Step, tuple[int, ...]]) -> Lowered:
    """Reductions of few long rows, or of axes in any order: parts of the first reduced axis, then
    their results.
    """
    domain, code = writer.domain, writer.code
    first = domain.reduced[0]
    rest = domain.size(domain.reduced) // domain.lengths[first]
    step = max(1, SPLIT // rest)
    parts = -(-domain.lengths[first] // step)
    pointers, begin, end = writer.begin()
    maps = _elements(writer)

    def body(spot: Pointers, index: Register | None) -> list[Element]:
        known: dict[Step, Element] = {}
        writer.compute(maps, known, spot)
        writer.store_outputs(_outputs(writer, whole=True), known, spot)
        return [writer.reduced_input(x, known, spot) for x in writer.accumulators]

    rows = domain.size(domain.kept)
    scratch = writer.scratch
    with code.loop(begin, end) as loop:
        row = code.binary("udiv", loop.index, writer.i64(parts))
        part = code.binary("urem", loop.index, writer.i64(parts))
        here = writer.placed(pointers, row, domain.kept)
        low = code.binary("mul nsw", part, writer.i64(step))
        high = code.intrinsic(
            "smin", code.binary("add nsw", low, writer.i64(step)), writer.i64(domain.lengths[first])
        )
        totals = [x.start(writer.k, x.total) for x in writer.accumulators]
        totals = writer.reduce_over(
            domain.reduced, here, writer.accumulators, totals, body, (low, high)
        )
        _store_partials(writer, writer.accumulators, totals, scratch, loop.index, rows * parts)
    elements = domain.size(domain.reduced) // parts
    kernel = writer.finish(rows * parts, writer.grain(elements), scratch=True)
    finish = _combine_partials(writer.group, strides_of, parts, rows, by_part=False)
    return Lowered([kernel, finish], rows * parts * _partial_bytes(writer.accumulators))


def _outputs(writer: Writer, whole: bool) -> list[Step]:
    """The outputs with an element at each place of the domain, or those with one a row."""
    size = size_of(writer.group.domain)
    return [step for step in writer.group.outputs if (size_of(step.shape) == size) is whole]


def _is_reduction(step: Step) -> bool:
    return step.op is not None and step.op.role == "reduce"


def _elements(writer: Writer) -> list[Step]:
    """What is computed at each place of the domain."""
    reduced = [x.step.inputs[0] for x in writer.accumulators]
    return writer.closure([*reduced, *_outputs(writer, whole=True)], lambda step: False)


def _store_results(writer: Writer, totals: Sequence[Element], here: Pointers) -> None:
    """Writes what a row was reduced to, and what follows from that."""
    known = {
        x.step: x.narrowed(writer.k, total)
        for x, total in zip(writer.accumulators, totals, strict=True)
    }
    outputs = _outputs(writer, whole=False)
    writer.compute(writer.closure(outputs, _is_reduction), known, here)
    writer.store_outputs(outputs, known, here)


def _partial_bytes(accumulators: Sequence[Accumulator]) -> int:
    return sum(8 for _ in accumulators)


def _partial_address(
    writer: Writer, number: int, scratch: Register, index: Register, count: int
) -> Register:
    """Where a partial result is kept: 8 bytes each, all of one reduction together."""
    base = writer.code.offset(scratch, writer.i64(8 * number * count))
    return writer.code.element("i64", base, index)


def _store_partials(
    writer: Writer,
    accumulators: Sequence[Accumulator],
    totals: Sequence[Element],
    scratch: Register,
    index: Register,
    count: int,
) -> None:
    for number, total in enumerate(totals):
        writer.k.store(total, _partial_address(writer, number, scratch, index, count))
    assert len(totals) == len(accumulators)


def _combine_partials(
    group: Group, strides_of: dict[Step, tuple[int, ...]], parts: int, rows: int, by_part: bool
) -> Kernel:
    """The second kernel of a split reduction. Partial results lie row by row, or (`by_part`) part
    by part.
    """
    writer = Writer(group, strides_of)
    code = writer.code
    pointers, begin, end = writer.begin()
    scratch = writer.scratch
    with code.loop(begin, end) as loop:
        totals = [x.start(writer.k, x.total) for x in writer.accumulators]
        with code.loop(writer.i64(0), writer.i64(parts), flat(totals)) as inner:
            running = unflat(inner.carried, totals)
            if by_part:
                index = code.binary(
                    "add nsw", code.binary("mul nsw", inner.index, writer.i64(rows)), loop.index
                )
            else:
                index = code.binary(
                    "add nsw", code.binary("mul nsw", loop.index, writer.i64(parts)), inner.index
                )
            updated = []
            for number, (x, total) in enumerate(zip(writer.accumulators, running, strict=True)):
                address = _partial_address(writer, number, scratch, index, rows * parts)
                updated.append(x.combine(writer.k, total, writer.k.load(x.total, address)))
            inner.updated = flat(updated)
        here = writer.placed(pointers, loop.index, writer.domain.kept)
        _store_results(writer, unflat(inner.carried, totals), here)
    return writer.finish(rows, writer.grain(parts), scratch=True)


def columns(writer: Writer, strides_of: dict[Step, tuple[int, ...]]) -> Lowered:
    """Reductions along other axes than the last: a tile of the last axis is summed side by side.
    What one thread does at once anyway, or is enough tiles for many threads, needs no parts.
    """
    domain = writer.domain
    inner, first = len(domain.lengths) - 1, domain.reduced[0]
    outer = [axis for axis in domain.kept if axis != inner]
    width = min(domain.lengths[inner], COLUMNS)
    tiles = -(-domain.lengths[inner] // width)
    rest = domain.size(domain.reduced) // domain.lengths[first]
    step = max(1, min(COLUMN_ROWS, SPLIT * 4 // (rest * width)))
    is_small = size_of(domain.lengths) <= SPLIT * 2
    if is_small or domain.lengths[first] <= step or domain.size(outer) * tiles >= MANY_TILES:
        return Lowered([_whole_columns(writer, outer, width, step)])
    return _columns_in_parts(writer, strides_of, outer, width, step)


def _whole_columns(writer: Writer, outer: list[int], width: int, step: int) -> Kernel:
    """Tiles of columns, each reduced from its first row to its last."""
    domain, code = writer.domain, writer.code
    inner, length = len(domain.lengths) - 1, domain.lengths[domain.reduced[0]]
    tiles = -(-domain.lengths[inner] // width)
    pointers, begin, end = writer.begin()
    accumulators = writer.accumulators
    running = [_tile_memory(writer, f"%run{n}", width) for n, _ in enumerate(accumulators)]
    in_blocks = length > step
    totals = (
        [_tile_memory(writer, f"%total{n}", width) for n, _ in enumerate(accumulators)]
        if in_blocks
        else []
    )
    with code.loop(begin, end) as loop:
        _, _, count, here = _column_tile(writer, pointers, loop.index, outer, width)
        if in_blocks:
            with code.loop(writer.i64(0), count) as start:
                for x, memory in zip(accumulators, totals, strict=True):
                    address = _tile_address(writer, memory, x.total, start.index)
                    writer.k.store(x.start(writer.k, x.total), address)
            with code.loop(writer.i64(0), writer.i64(length), step=step) as block:
                past = code.binary("add nsw", block.index, writer.i64(step))
                high = code.intrinsic("smin", past, writer.i64(length))
                _start_columns(writer, running, count)
                _columns_walk(writer, domain.reduced, here, running, count, (block.index, high))
                with code.loop(writer.i64(0), count) as joined:
                    for x, memory, total in zip(accumulators, running, totals, strict=True):
                        part = _tile_address(writer, memory, x.dtype, joined.index)
                        address = _tile_address(writer, total, x.total, joined.index)
                        found = x.combine(
                            writer.k,
                            writer.k.load(x.total, address),
                            x.widened(writer.k, writer.k.load(x.dtype, part)),
                        )
                        writer.k.store(found, address)
        else:
            _start_columns(writer, running, count)
            _columns_walk(writer, domain.reduced, here, running, count, None)
        with code.loop(writer.i64(0), count) as final:
            results = []
            for number, x in enumerate(accumulators):
                memory, dtype = (
                    (totals[number], x.total) if in_blocks else (running[number], x.dtype)
                )
                address = _tile_address(writer, memory, dtype, final.index)
                found = writer.k.load(dtype, address)
                results.append(found if in_blocks else x.widened(writer.k, found))
            _store_results(writer, results, writer.moved(here, final.index, inner))
    work = width * domain.size(domain.reduced)
    return writer.finish(domain.size(outer) * tiles, writer.grain(work))


def _column_tile(
    writer: Writer, pointers: Pointers, index: Register, outer: list[int], width: int
) -> tuple[Register, Register, Register, Pointers]:
    """The row of the outer axes and the first column of a tile, the number of its columns, and its
    place.
    """
    domain, code = writer.domain, writer.code
    inner = len(domain.lengths) - 1
    tiles = -(-domain.lengths[inner] // width)
    tile = code.binary("urem", index, writer.i64(tiles))
    row = code.binary("udiv", index, writer.i64(tiles))
    left = code.binary("mul nsw", tile, writer.i64(width))
    here = writer.moved(writer.placed(pointers, row, outer), left, inner)
    if tiles == 1:
        return row, left, writer.i64(width), here
    remaining = code.binary("sub nsw", writer.i64(domain.lengths[inner]), left)
    return row, left, code.intrinsic("smin", writer.i64(width), remaining), here


def _start_columns(writer: Writer, running: list[Register], count: Register) -> None:
    """Sets the running results of a tile to what reductions begin with."""
    with writer.code.loop(writer.i64(0), count) as start:
        for x, memory in zip(writer.accumulators, running, strict=True):
            address = _tile_address(writer, memory, x.dtype, start.index)
            writer.k.store(x.start(writer.k, x.dtype), address)


def _columns_in_parts(
    writer: Writer,
    strides_of: dict[Step, tuple[int, ...]],
    outer: list[int],
    width: int,
    step: int,
) -> Lowered:
    """Tiles of columns, each reduced in parts that a second kernel combines."""
    domain, code = writer.domain, writer.code
    inner, first = len(domain.lengths) - 1, domain.reduced[0]
    parts = -(-domain.lengths[first] // step)
    pointers, begin, end = writer.begin()
    scratch = writer.scratch
    rows = domain.size(domain.kept)
    accumulators = writer.accumulators
    running = [_tile_memory(writer, f"%run{n}", width) for n, _ in enumerate(accumulators)]
    tiles = -(-domain.lengths[inner] // width)
    with code.loop(begin, end) as loop:
        tile = code.binary("urem", loop.index, writer.i64(tiles))
        above = code.binary("udiv", loop.index, writer.i64(tiles))
        part = code.binary("urem", above, writer.i64(parts))
        higher = code.binary("udiv", above, writer.i64(parts))
        place = code.binary("add nsw", code.binary("mul nsw", higher, writer.i64(tiles)), tile)
        row, left, count, here = _column_tile(writer, pointers, place, outer, width)
        _start_columns(writer, running, count)
        low = code.binary("mul nsw", part, writer.i64(step))
        high = code.intrinsic(
            "smin", code.binary("add nsw", low, writer.i64(step)), writer.i64(domain.lengths[first])
        )
        _columns_walk(writer, domain.reduced, here, running, count, (low, high))
        with code.loop(writer.i64(0), count) as final:
            column = code.binary("add nsw", left, final.index)
            position = code.binary(
                "add nsw", code.binary("mul nsw", row, writer.i64(domain.lengths[inner])), column
            )
            index = code.binary("add nsw", code.binary("mul nsw", part, writer.i64(rows)), position)
            for number, (x, memory) in enumerate(zip(accumulators, running, strict=True)):
                partial = writer.k.load(
                    x.dtype, _tile_address(writer, memory, x.dtype, final.index)
                )
                address = _partial_address(writer, number, scratch, index, rows * parts)
                writer.k.store(x.widened(writer.k, partial), address)
    work = width * step * (domain.size(domain.reduced) // domain.lengths[first])
    kernel = writer.finish(domain.size(outer) * parts * tiles, writer.grain(work), scratch=True)
    finish = _combine_partials(writer.group, strides_of, parts, rows, by_part=True)
    return Lowered([kernel, finish], rows * parts * _partial_bytes(accumulators))


def _tile_memory(writer: Writer, name: str, width: int) -> Register:
    writer.code.do(f"{name} = alloca [{8 * width} x i8], align 64")
    return Register(name, "ptr")


def _tile_address(writer: Writer, memory: Register, dtype: Dtype, index: Register) -> Register:
    return writer.code.offset(memory, writer.code.binary("mul nsw", index, writer.i64(dtype.size)))


def _columns_walk(
    writer: Writer,
    axes: Sequence[int],
    here: Pointers,
    running: list[Register],
    count: Register,
    bounds: tuple[Register, Register] | None,
) -> None:
    """Adds every row of a tile to the running results: several rows at a time, so that these are
    read and written less.
    """
    code = writer.code
    begin, end = bounds or (writer.i64(0), writer.i64(writer.domain.lengths[axes[0]]))
    if len(axes) > 1:
        with code.loop(begin, end) as loop:
            at_row = writer.moved(here, loop.index, axes[0])
            _columns_walk(writer, axes[1:], at_row, running, count, None)
        return
    together = max(1, ROWS_TOGETHER // max(1, len(_elements(writer))))
    if together > 1:
        whole = code.binary(
            "sub nsw",
            end,
            code.binary("srem", code.binary("sub nsw", end, begin), writer.i64(together)),
        )
        with code.loop(begin, whole, step=together) as loop:
            _add_rows(writer, axes[0], here, running, count, loop.index, together)
        begin = whole
    with code.loop(begin, end) as loop:
        _add_rows(writer, axes[0], here, running, count, loop.index, 1)


def _add_rows(
    writer: Writer,
    axis: int,
    here: Pointers,
    running: list[Register],
    count: Register,
    first: Register,
    together: int,
) -> None:
    """Adds `together` rows, from `first` on, to the running results."""
    code, inner = writer.code, len(writer.domain.lengths) - 1
    maps, outputs = _elements(writer), _outputs(writer, whole=True)
    rows = [
        writer.moved(here, code.binary("add nsw", first, writer.i64(number)), axis)
        for number in range(together)
    ]
    with code.loop(writer.i64(0), count) as columns:
        added: list[Element] | None = None
        for at_row in rows:
            spot = writer.moved(at_row, columns.index, inner)
            known: dict[Step, Element] = {}
            writer.compute(maps, known, spot)
            writer.store_outputs(outputs, known, spot)
            values = [writer.reduced_input(x, known, spot) for x in writer.accumulators]
            if added is None:
                added = values
            else:
                added = [
                    x.combine(writer.combining, a, b)
                    for x, a, b in zip(writer.accumulators, added, values, strict=True)
                ]
        assert added is not None
        for x, memory, value in zip(writer.accumulators, running, added, strict=True):
            address = _tile_address(writer, memory, x.dtype, columns.index)
            writer.k.store(
                x.combine(writer.combining, writer.k.load(x.dtype, address), value), address
            )
