"""Rows: kernels that process one row at a time, with a second pass over the row for whatever
depends on its reductions, while it is still in L1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Apply, Constant, Loop, Value
from ingot.compiler.forms.nest.rewrites import distribute
from ingot.compiler.forms.nest.words import instructions
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import GroupBuilder, Known, Memory, Point
from ingot.compiler.lower.kernel import Kernel
from ingot.compiler.lower.reductions.accumulator import Accumulator
from ingot.compiler.lower.reductions.packing import has_gaps, is_stepped, packed
from ingot.compiler.lower.reductions.register_rows import (
    MASKED_VECTOR_BYTES,
    RegisterRows,
    fits_registers,
    rows_together,
)
from ingot.compiler.lower.reductions.row_blocks import (
    HALF_VECTOR,
    Rows,
    is_written_out,
    lane_count,
)
from ingot.compiler.lower.reductions.row_tiles import row_tiles
from ingot.graph.dtype import bfloat16, float16, float32
from ingot.graph.numerics.reduction_order import LANES
from ingot.graph.roles import Gather, Reduce, View
from ingot.graph.shape import size_of
from ingot.runtime.processor import vector_bytes
from ingot.tuning import (
    MAP_TILE,
    MAX_KEPT_ROW_BYTES,
    MAX_RECOMPUTED_INSTRUCTIONS,
    MIN_KEPT_ROW_CAPACITY,
)
from ingot.tuning_vectors import (
    MIN_ROWS_ACROSS,
    MIN_ROWS_ACROSS_TWICE,
    MIN_WIDE_ROW,
)

__all__ = ["lower_rows"]


def lower_rows(builder: GroupBuilder) -> Kernel:
    """The kernel of a group that is processed by rows."""
    domain = builder.domain
    passes = _Passes(builder)
    tiles = row_tiles(builder)
    across = "" if tiles else _kind_across(builder, passes)
    if not across and not tiles and fits_registers(builder, passes):
        return _in_registers(builder, passes)
    kept = _memory_for_kept(builder, passes)
    with tiles.every_row(builder) if tiles else _every_row(builder, across) as point:
        row_values = _elements_of_rows(builder, point)
        _pack_rows(builder, point, is_read_once=len(passes.targets) == 1)
        for number in range(len(passes.targets)):
            builder.compute(passes.rows_known_before(number), row_values, point)
            _pass(builder, passes, number, point, row_values, kept)
        builder.compute(passes.rows_known_before(len(passes.targets)), row_values, point)
        row_outputs = [step for step in builder.group.outputs if passes.is_row[step]]
        builder.store_outputs(row_outputs, row_values, point)
    if across and domain.lengths[domain.kept[-1]] > MAP_TILE:
        (region,) = builder.nest.parallel
        (loop,) = region.body
        assert isinstance(loop, Loop)
        builder.nest = distribute(builder.nest, loop, MAP_TILE)
    return builder.finish()


def _kind_across(builder: GroupBuilder, passes: _Passes) -> str:
    """The kind of the loop over the last kept axis, if vectors run across the rows along it: a
    single loop over several axes divides its index, which LLVM does not vectorise. It does unroll a
    second pass over each row, and then vectorise the loop around it. "" if there is no such loop.
    """
    domain = builder.domain
    if len(domain.kept) < 2 or not is_written_out(builder, domain.size(domain.reduced)):
        return ""
    length = domain.lengths[domain.kept[-1]]
    if all(passes.reduces(number) for number in range(len(passes.targets))):
        return "vector" if length >= MIN_ROWS_ACROSS else ""
    return "for" if length >= MIN_ROWS_ACROSS_TWICE else ""


@contextmanager
def _every_row(builder: GroupBuilder, kind: str) -> Iterator[Point]:
    """The loops over the rows: a parallel one, and inside it one of that kind, unless it is ""."""
    domain = builder.domain
    elements = domain.size(domain.reduced)
    if not kind:
        with builder.rows(elements) as point:
            yield point
        return
    *outer, last = domain.kept
    length = domain.lengths[last]
    with (
        builder.parallel([domain.lengths[axis] for axis in outer], elements * length) as indices,
        builder.loop(0, length, kind=kind, lanes=builder.lanes(last)) as index,
    ):
        at = dict(zip(domain.kept, (*indices, index), strict=True))
        yield tuple(affine(at.get(axis, 0)) for axis in range(len(domain.lengths)))


def _in_registers(builder: GroupBuilder, passes: _Passes) -> Kernel:
    """The kernel of a group whose rows are short. Rows that several at a time leave over have a
    parallel loop of their own.
    """
    domain = builder.domain
    work, together = domain.size(domain.reduced), rows_together(builder, passes)
    if together == 1:
        with builder.rows(work) as point:
            RegisterRows(builder, passes, 1).compute([point])
        return builder.finish()
    (axis,) = domain.kept
    rows = domain.lengths[axis]
    for first, count in ((0, together), (rows - rows % together, 1)):
        if first == rows:
            break
        with builder.parallel([(rows - first) // count], count * work) as (block,):
            origin: Point = (affine(0),) * len(domain.lengths)
            at = affine(block) * count + first
            points = [(*origin[:axis], at + row, *origin[axis + 1 :]) for row in range(count)]
            RegisterRows(builder, passes, count).compute(points)
    return builder.finish()


def _elements_of_rows(builder: GroupBuilder, point: Point) -> Known:
    """The operands with one element per row, such as the index of a gathered row. LLVM does not
    move their loads out of masked lanes, and gathers element by element at indices loaded there.
    """
    found: Known = {}
    for operand in builder.reads:
        if not set(builder.read_of[operand.step].axes).intersection(builder.domain.reduced):
            builder.value(operand.step, found, point)
    return found


class _Passes:
    """Assigns the steps of a group to passes over the row."""

    def __init__(self, builder: GroupBuilder) -> None:
        self.builder = builder
        self.is_row: dict[Step, bool] = {}  # one element per row, or one per element
        # the pass that can compute it; for steps with one element per row, the pass before which it
        # is known
        self.stage: dict[Step, int] = {}
        group = builder.group
        for step in group.steps:
            if isinstance(step.op, Reduce):
                self.is_row[step] = True
                self.stage[step] = self.stage.get(step.inputs[0], 0) + 1
                continue
            members = [source for source in step.inputs if source in builder.members]
            spreads = (
                isinstance(step.op, View)
                and step.op.broadcasts
                and size_of(step.shape) != size_of(step.inputs[0].shape)
            )
            self.is_row[step] = not spreads and size_of(step.shape) != size_of(group.domain)
            self.stage[step] = max((self.stage[source] for source in members), default=0)
        outputs = [step for step in group.outputs if not self.is_row[step]]
        last = max(
            [self.stage[step] - 1 for step in builder.reductions]
            + [self.stage[step] for step in outputs]
        )
        self.targets: list[list[Step]] = [[] for _ in range(last + 1)]
        for step in outputs:
            self.targets[self.stage[step]].append(step)
        for step in builder.reductions:
            source = step.inputs[0]
            if source in builder.members:
                self.targets[self.stage[step] - 1].append(source)
        self.kept: dict[Step, None] = {}
        for number in range(last, -1, -1):
            self._keep_for(number)
        if _is_wide(builder):
            self._keep_operands()

    def _keep_for(self, number: int) -> None:
        """Finds which values of earlier passes pass `number` should load rather than recompute."""
        needed = set(self.targets[number])
        for step in reversed(self.steps(number)):
            if step not in needed:  # what needs it is kept
                continue
            for source in step.inputs:
                if source not in self.builder.members or self.is_row[source]:
                    continue
                if self.stage[source] == number or not self._is_costly(source):
                    needed.add(source)
                elif source not in self.kept:
                    self.kept[source] = None
                    self.targets[self.stage[source]].append(source)

    def _keep_operands(self) -> None:
        """Finds the operands of half types that passes should keep as float32 because later ones
        read them too.
        """
        axis = self.builder.domain.reduced[-1]
        for operand in self.builder.reads:
            step = operand.step
            if not _is_half(step.dtype) or operand.strides[axis] != step.dtype.size:
                continue
            numbers = range(len(self.targets))
            reading = [number for number in numbers if self._converts(number, step)]
            if len(reading) > 1:
                self.kept[step] = None
                self.stage[step] = reading[0]

    def _converts(self, number: int, operand: Step) -> bool:
        """Whether pass `number` reads an operand as numbers rather than by their ranks."""
        if any(operand in step.inputs for step in self.steps(number)):
            return True
        return any(
            operand is step.inputs[0] and not Accumulator(step).ranks
            for step in self.builder.reductions
            if self.stage[step] == number + 1
        )

    def last_reading(self, kept: Step) -> int:
        """The last pass that reads a kept value."""
        numbers = range(len(self.targets))
        return max(number for number in numbers if self._converts(number, kept))

    def _is_costly(self, step: Step) -> bool:
        """Whether recomputing a step from memory takes many instructions."""
        scratch = NestBuilder()
        known: dict[Step, Value] = {}
        for needed in self.builder.closure([step], lambda s: self.is_row.get(s, False)):
            assert needed.op is not None
            if isinstance(needed.op, Gather):
                return True
            inputs = [known.get(s) or Constant(s.dtype, 0) for s in needed.inputs]
            if isinstance(needed.op, View):
                known[needed] = inputs[0]
            else:
                found = needed.op.emit(scratch.words, *inputs)
                known[needed] = scratch.words.rounded(found)
        words = [each for each in scratch.body if isinstance(each, Apply)]
        return sum(map(instructions, words)) > MAX_RECOMPUTED_INSTRUCTIONS

    def forget(self, step: Step) -> None:
        """Has passes compute or read a value again instead of keeping it."""
        del self.kept[step]
        if step in self.builder.members:
            self.targets[self.stage[step]].remove(step)

    def steps(self, number: int) -> list[Step]:
        """The elementwise steps that pass `number` computes, in order, without those kept from
        earlier passes.
        """
        return self.builder.closure(
            self.targets[number],
            lambda step: self.is_row[step] or (step in self.kept and self.stage[step] < number),
        )

    def reduces(self, number: int) -> list[Step]:
        """The reductions that pass `number` computes."""
        return [step for step in self.builder.reductions if self.stage[step] == number + 1]

    def rows_known_before(self, number: int) -> list[Step]:
        """The steps with one element per row, except reductions, that can be computed before pass
        `number`.
        """
        return [
            step
            for step in self.builder.group.steps
            if self.is_row[step] and not isinstance(step.op, Reduce) and self.stage[step] <= number
        ]


def _pack_rows(builder: GroupBuilder, point: Point, is_read_once: bool) -> None:
    """Copies rows whose elements are not adjacent to the stack, if they fit into L1, unless they
    are read once and picked from vectors then.
    """
    domain = builder.domain
    if len(domain.reduced) > 1 or is_written_out(builder, domain.size(domain.reduced)):
        return
    (axis,) = domain.reduced
    length = domain.lengths[axis]
    for operand in builder.reads:
        if is_read_once and is_stepped(builder, operand, domain.reduced, LANES):
            continue
        if has_gaps(builder, operand, axis, length):
            row = packed(builder, operand, axis, length, point, affine(0), affine(length))
            builder.read_of[operand.step] = row


def _memory_for_kept(builder: GroupBuilder, passes: _Passes) -> dict[Step, Memory]:
    """Where values are kept for later passes: in the row of an output that is written later, or on
    the stack. Half types are kept on the stack if they fit, as the float32 they are in registers.
    """
    found: dict[Step, Memory] = {}
    last = len(passes.targets) - 1
    free = [step for step in builder.group.outputs if not passes.is_row[step]]
    rows = _RowBuffers(builder)
    for step in sorted(passes.kept, key=passes.stage.__getitem__):
        if step in builder.write_of:
            found[step] = builder.write_of[step]
            continue
        fitting = [x for x in free if x.dtype is step.dtype and passes.stage[x] == last]
        is_wide = _is_half(step.dtype) and _is_wide(builder)
        row = None
        if not fitting or is_wide:
            dtype = float32 if is_wide else step.dtype
            row = rows.take(dtype, passes.stage[step], passes.last_reading(step))
        if row is not None:
            found[step] = row
        elif fitting and step in builder.members:
            found[step] = builder.write_of[fitting[0]]
            free.remove(fitting[0])
        else:
            passes.forget(step)
    return found


class _RowBuffers:
    """Rows of values on the stack. A pass may overwrite those that it reads for the last time."""

    def __init__(self, builder: GroupBuilder) -> None:
        self.builder = builder
        self.length = builder.domain.size(builder.domain.reduced)
        self._until: dict[Memory, int] = {}  # the last pass that reads what is there
        self._bytes = 0

    def take(self, dtype: Dtype, first: int, last: int) -> Memory | None:
        """A row that is written by pass `first` and read up to pass `last`, if there is room."""
        for memory, until in self._until.items():
            if memory.buffer.dtype is dtype and until <= first:
                self._until[memory] = last
                return memory
        axes = self.builder.domain.reduced
        if len(axes) > 1 or self._bytes + self.length * dtype.size > MAX_KEPT_ROW_BYTES:
            return None
        capacity = _capacity(self.length)
        self._bytes += capacity * dtype.size
        row = self.builder.stack(f"row{len(self._until)}", dtype, (capacity,))
        memory = Memory(row, axes)
        self._until[memory] = last
        return memory


def _capacity(length: Number) -> int:
    """The capacity of a row buffer. For a symbolic length, the next power of two; longer rows need
    another program.
    """
    if not is_symbolic(length):
        return int(length)
    capacity = MIN_KEPT_ROW_CAPACITY
    while capacity < length:
        capacity *= 2
    return capacity


def _pass(
    builder: GroupBuilder,
    passes: _Passes,
    number: int,
    point: Point,
    row_values: Known,
    kept: dict[Step, Memory],
) -> None:
    """One loop over a row: reductions whose inputs are known, outputs, and values kept for
    later.
    """
    reductions = passes.reduces(number)
    steps = passes.steps(number)
    writes = [
        step
        for step in dict.fromkeys(passes.targets[number])
        if step in builder.write_of and step not in passes.kept
    ]
    keeps = [step for step in passes.kept if passes.stage[step] == number]
    earlier = {step for step in passes.kept if passes.stage[step] < number}

    def elements(here: Point, at: Affine) -> list[Value]:
        def load(step: Step) -> Value:
            memory = kept[step]
            found = builder.load(memory.buffer, memory.index(here))
            return builder.words.represented(found, step.dtype)

        known = _Known(row_values, earlier, load)
        builder.compute(steps, known, here)
        reduced = [builder.reduced_input(step, known, here) for step in reductions]
        for step in keeps:  # after all loads: a row may be kept where another was
            memory = kept[step]
            value = builder.words.cast(builder.value(step, known, here), memory.buffer.dtype)
            builder.store(value, memory.buffer, memory.index(here))
        builder.store_outputs(writes, known, here)
        return reduced

    if not reductions:
        _every(builder, builder.domain.reduced, point, lambda here: elements(here, affine(0)))
        return
    accumulators = [Accumulator(step) for step in reductions]
    rows = Rows(builder, accumulators, elements, is_only_pass=not kept)
    for accumulator, total in zip(rows.accumulators, rows.row(point), strict=True):
        row_values[accumulator.step] = accumulator.result(builder, total)


def _every(
    builder: GroupBuilder, axes: tuple[int, ...], point: Point, body: Callable[[Point], object]
) -> None:
    """Nested loops over axes. What remains of a row after whole vectors is a masked one, which
    takes less time than the narrower vectors and single elements that LLVM would make of it.
    """
    axis, rest = axes[0], axes[1:]
    length = builder.domain.lengths[axis]
    is_short = is_written_out(builder, builder.domain.size(builder.domain.reduced))
    kind = "unroll" if is_short else "for" if rest else "vector"
    lanes = 0 if rest or is_short else builder.lanes(axis)
    left = 0 if lanes or kind != "vector" else _masked(builder, length)
    with builder.loop(0, length - left, kind=kind, lanes=lanes) as index:
        here = (*point[:axis], affine(index), *point[axis + 1 :])
        if rest:
            _every(builder, rest, here, body)
        else:
            body(here)
    if left:
        with (
            builder.loop(0, max(HALF_VECTOR, lane_count(left)), kind="lanes") as lane,
            builder.mask(lane, left),
        ):
            body((*point[:axis], affine(lane) + (length - left), *point[axis + 1 :]))


def _masked(builder: GroupBuilder, length: Number) -> int:
    """How many elements of a row are left after whole vectors, if vectors can be masked."""
    if is_symbolic(length) or vector_bytes() < MASKED_VECTOR_BYTES:
        return 0
    return length % (vector_bytes() // _widest(builder))


def _is_wide(builder: GroupBuilder) -> bool:
    """Whether rows of half types are long enough to be kept as float32."""
    return builder.domain.size(builder.domain.reduced) > MIN_WIDE_ROW


def _is_half(dtype: Dtype) -> bool:
    return dtype is float16 or dtype is bfloat16


def _widest(builder: GroupBuilder) -> int:
    """The bytes of the widest element; half types are computed in float32."""
    return max(float32.size, *(x.dtype.size for x in (*builder.reads, *builder.writes)))


class _Known(dict[Step, Value]):
    """The values known at one point of a row.

    These are the values of the row, and those kept by earlier passes, which are loaded on demand.
    """

    def __init__(self, row_values: Known, kept: set[Step], load: Callable[[Step], Value]) -> None:
        super().__init__(row_values)
        self._kept = kept
        self._load = load

    def get(self, step: Step, default: Value | None = None) -> Value | None:  # type: ignore[override]
        if step not in self and step in self._kept:
            self[step] = self._load(step)
        return super().get(step, default)
