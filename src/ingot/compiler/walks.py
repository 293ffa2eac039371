"""Walks: the ways in which a kernel goes through the elements of its group.

A map computes every element by itself. Rows are gone through one by one; where a row holds
reductions it is walked again for what needs their results, while it is still in the cache. Few long
rows are reduced in parts that a second kernel combines. Reductions along other axes than the last
keep a tile of the last axis side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ingot.compiler.code import Register, literal
from ingot.compiler.emit import Element, LLVMKernel, register_type
from ingot.compiler.fuse import runs_by_rows
from ingot.compiler.loops import Kernel, Lowered, Pointers, Writer
from ingot.compiler.lower import Operand, operands_of, reads_rows_again
from ingot.compiler.pairs import writer_of
from ingot.compiler.partial_reductions import columns, split
from ingot.compiler.reductions import Accumulator, Rows
from ingot.compiler.schedule import Group
from ingot.compiler.tape import Step
from ingot.compiler.tiled_maps import crosses, crossing_axis, divided, map_in_tiles, tile_bounds
from ingot.graph.shape import size_of

__all__ = ["lower", "read_across"]

TILE = 8192  # elements of a long innermost axis that one part of a map takes
NEAR_BYTES = 1 << 15  # of the nearest cache
# instructions; a value that takes more is kept for later passes over a row, not computed again
COSTLY = 12
ROW_MEMORY = 1 << 15  # bytes of a row that may be kept on the stack for later passes


def lower(
    group: Group, strides_of: dict[Step, tuple[int, ...]], shared: Collection[Step] = ()
) -> Lowered:
    """The kernels of a fused group whose operands have these strides. In a group of maps, inputs
    and outputs that are `shared` may be at the same place.
    """
    writer = writer_of(group, strides_of, shared)
    if not writer.domain.reduced:
        return Lowered([_map(writer)])
    if reads_rows_again(group) or runs_by_rows(writer.domain.lengths, writer.domain.reduced):
        return Lowered([_rows(writer)])
    if writer.domain.kept and writer.domain.kept[-1] == len(writer.domain.lengths) - 1:
        return columns(writer, strides_of)
    return split(writer, strides_of)


def read_across(group: Group, strides_of: dict[Step, tuple[int, ...]]) -> list[Step]:
    """The inputs that the reductions of a group would read across the grain, whichever order of
    axes they choose, and that are too large for the nearest cache: they are better copied first.
    """
    if not group.reduced:
        return []
    domain, operands = operands_of(group, strides_of)
    inner = len(domain.lengths) - 1
    return [
        operand.step
        for operand in operands.reads
        if all(operand.strides)
        and operand.step.nbytes > NEAR_BYTES
        and any(crosses(operand, axis, inner) for axis in range(inner))
        and operand.step not in (gathered.step for gathered in operands.gathers.values())
    ]


def _map(writer: Writer) -> Kernel:
    domain, code = writer.domain, writer.code
    pointers, begin, end = writer.begin()
    axes = list(range(len(domain.lengths)))
    if not axes:
        writer.map_element(pointers)
        return writer.finish(1, 1)
    inner = axes[-1]
    crossing = crossing_axis(writer)
    if len(axes) == 1:
        writer.map_line(pointers, begin, end)
        return writer.finish(domain.lengths[inner], writer.grain(1))
    if crossing is not None:
        return map_in_tiles(writer, crossing)
    length = domain.lengths[inner]
    tiles = -(-length // TILE)
    with code.loop(begin, end) as parts:
        row, tile = divided(writer, parts.index, tiles)
        first, last = tile_bounds(writer, tile, TILE, length)
        here = writer.placed(pointers, row, axes[:-1])
        with code.loop(first, last) as loop:
            writer.map_element(writer.moved(here, loop.index, inner))
    return writer.finish(domain.size(axes[:-1]) * tiles, writer.grain(min(length, TILE)))


class _RowPasses:
    """Which steps of a group by rows are computed in which pass over the row."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.is_row: dict[Step, bool] = {}  # one element a row, or one for each element
        # the pass that can compute it; for rows, the pass before which it is known
        self.stage: dict[Step, int] = {}
        for step in writer.group.steps:
            assert step.op is not None
            if step.op.role == "reduce":
                self.is_row[step] = True
                self.stage[step] = self.stage.get(step.inputs[0], 0) + 1
                continue
            members = [source for source in step.inputs if source in writer.members]
            spreads = (
                step.op.role == "view"
                and step.op.broadcasts
                and size_of(step.shape) != size_of(step.inputs[0].shape)
            )
            self.is_row[step] = not spreads and _is_row_shape(step, writer)
            self.stage[step] = max((self.stage[source] for source in members), default=0)
        outputs = [step for step in writer.group.outputs if not self.is_row[step]]
        last = max(
            [self.stage[step] - 1 for step in writer.reductions]
            + [self.stage[step] for step in outputs]
        )
        self.targets: list[list[Step]] = [[] for _ in range(last + 1)]
        for step in outputs:
            self.targets[self.stage[step]].append(step)
        for step in writer.reductions:
            source = step.inputs[0]
            if source in writer.members:
                self.targets[self.stage[step] - 1].append(source)
        self.kept: dict[Step, None] = {}
        for number in range(last, -1, -1):
            self._keep_for(number)

    def _keep_for(self, number: int) -> None:
        """Finds what pass `number` needs of earlier ones that is better kept than made again."""
        for step in self.steps(number):
            for source in step.inputs:
                if (
                    source in self.writer.members
                    and not self.is_row[source]
                    and self.stage[source] < number
                    and source not in self.kept
                    and self._is_costly(source)
                ):
                    self.kept[source] = None
                    self.targets[self.stage[source]].append(source)

    def _is_costly(self, step: Step) -> bool:
        """Whether computing a step from what is in memory takes many instructions."""
        scratch = LLVMKernel(type(self.writer.code)())
        known: dict[Step, Element] = {}
        for needed in self.writer.closure([step], lambda s: self.is_row.get(s, False)):
            assert needed.op is not None
            if needed.op.role == "gather":
                return True
            inputs = [known.get(s) or _dummy(s) for s in needed.inputs]
            known[needed] = (
                inputs[0] if needed.op.role == "view" else needed.op.emit(scratch, *inputs)
            )
            if len(scratch.code.lines) > COSTLY:
                return True
        return False

    def steps(self, number: int) -> list[Step]:
        """What pass `number` computes, in order: not what is kept from earlier passes, and nothing
        of rows.
        """
        return self.writer.closure(
            self.targets[number],
            lambda step: self.is_row[step] or (step in self.kept and self.stage[step] < number),
        )

    def rows_known_before(self, number: int) -> list[Step]:
        """The steps of one element a row, reductions excluded, that can be computed before pass
        `number`.
        """
        return [
            step
            for step in self.writer.group.steps
            if self.is_row[step]
            and step.op is not None
            and step.op.role != "reduce"
            and self.stage[step] <= number
        ]


def _is_row_shape(step: Step, writer: Writer) -> bool:
    group = writer.group
    return size_of(step.shape) != size_of(group.domain)


def _dummy(step: Step) -> Element:
    type = register_type(step.dtype)
    zero = Register("false", "i1") if type == "i1" else literal(type, 0)
    return Element(zero, step.dtype, zero if step.dtype.name == "complex64" else None)


def _rows(writer: Writer) -> Kernel:
    domain, code = writer.domain, writer.code
    passes = _RowPasses(writer)
    pointers, begin, end = writer.begin()
    places = _places_for_kept(writer, passes)
    length = domain.size(domain.reduced)
    with code.loop(begin, end) as rows:
        here = writer.placed(pointers, rows.index, domain.kept)
        row_values: dict[Step, Element] = {}
        for number in range(len(passes.targets)):
            writer.compute(passes.rows_known_before(number), row_values, here)
            _row_pass(writer, passes, number, here, row_values, places)
        writer.compute(passes.rows_known_before(len(passes.targets)), row_values, here)
        row_outputs = [step for step in writer.group.outputs if passes.is_row[step]]
        writer.store_outputs(row_outputs, row_values, here)
    return writer.finish(domain.size(domain.kept), writer.grain(length))


Place = Operand | Register  # the row of an output, or memory on the stack


def _places_for_kept(writer: Writer, passes: _RowPasses) -> dict[Step, Place]:
    """Where values that later passes need are kept: in the row of an output that is written later,
    or on the stack.
    """
    places: dict[Step, Place] = {}
    free = [step for step in writer.group.outputs if not passes.is_row[step]]
    memory = 0
    single = len(writer.domain.reduced) == 1
    length = writer.domain.size(writer.domain.reduced)
    for step in list(passes.kept):
        if step in writer.write_of:
            places[step] = writer.write_of[step]
            continue
        fitting = [
            output
            for output in free
            if output.dtype is step.dtype and passes.stage[output] == len(passes.targets) - 1
        ]
        nbytes = length * step.dtype.size
        if fitting:
            places[step] = writer.write_of[fitting[0]]
            free.remove(fitting[0])
        elif single and memory + nbytes <= ROW_MEMORY:
            memory += nbytes
            writer.code.do(f"%kept{len(places)} = alloca [{nbytes} x i8], align 64")
            places[step] = Register(f"%kept{len(places)}", "ptr")
        else:
            del passes.kept[step]
            passes.targets[passes.stage[step]].remove(step)
    return places


def _row_pass(
    writer: Writer,
    passes: _RowPasses,
    number: int,
    here: Pointers,
    row_values: dict[Step, Element],
    places: dict[Step, Place],
) -> None:
    """One walk along a row: reductions whose inputs are known now, outputs, and what is kept for
    later.
    """
    reductions = [step for step in writer.reductions if passes.stage[step] == number + 1]
    steps = passes.steps(number)
    writes = [
        step
        for step in passes.targets[number]
        if step in writer.write_of and step not in passes.kept
    ]
    keeps = [step for step in passes.kept if passes.stage[step] == number]

    def place(step: Step, spot: Pointers, index: Register | None) -> Register:
        where = places[step]
        if isinstance(where, Operand):
            return spot[where]
        assert index is not None
        distance = writer.code.binary("mul nsw", index, writer.i64(step.dtype.size))
        return writer.code.offset(where, distance)

    def body(spot: Pointers, index: Register | None) -> list[Element]:
        kept = {step for step in passes.kept if passes.stage[step] < number}
        known = _Known(
            row_values, kept, lambda step: writer.k.load(step.dtype, place(step, spot, index))
        )
        writer.compute(steps, known, spot)
        for step in keeps:
            writer.k.store(known[step], place(step, spot, index))
        writer.store_outputs(list(dict.fromkeys(writes)), known, spot)
        return [writer.reduced_input(step, known, spot) for step in reductions]

    if not reductions:
        writer.walk(writer.domain.reduced, here, body)
        return
    rows = Rows(writer, [Accumulator(step) for step in reductions], body)
    for accumulator, total in zip(rows.accumulators, rows.row(here), strict=True):
        row_values[accumulator.step] = accumulator.result(writer, total)


class _Known(dict[Step, Element]):
    """The values known at one place of a row.

    Those of the row, and those that earlier passes kept, which are loaded when asked for.
    """

    def __init__(
        self,
        row_values: dict[Step, Element],
        kept: set[Step],
        load: Callable[[Step], Element],
    ) -> None:
        super().__init__(row_values)
        self._kept = kept
        self._load = load

    def get(self, step: Step, default: Element | None = None) -> Element | None:  # type: ignore[override]
        if step not in self and step in self._kept:
            self[step] = self._load(step)
        return super().get(step, default)
