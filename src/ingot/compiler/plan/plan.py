"""Plan: a schedule as a native program: where every value lives, and the instructions in order.

Inputs, outputs and constants have memory of their own. What lies between lives in one arena, in
which values whose lifetimes do not meet share places. Views are addresses into the memory of what
they are views of. Ops that have neither kernel nor BLAS call run on the host, between native
instructions.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from ingot._native import NativeProgram
from ingot.compiler.forms.affine import Symbol, size_of_extent
from ingot.compiler.forms.schedule import Group, Schedule
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.size_code import Given, Made, depends_on_shapes, made
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import LengthStep, Step, parameters
from ingot.compiler.lower.fused import lower, read_across
from ingot.compiler.lower.kernel import Kernel, Lowered
from ingot.compiler.lower.layout import contiguous, layout_of_view
from ingot.compiler.lower.materialise import copy_of
from ingot.compiler.lower.scatter import lower_scatter
from ingot.compiler.machine.kernels import LoadedKernels, load_kernels
from ingot.compiler.plan.arena import Arena
from ingot.compiler.plan.callbacks import (
    checking,
    finishing,
    host,
    length_value,
    number_table,
    viewer,
)
from ingot.compiler.plan.symbolic_arena import SymbolicArena
from ingot.compiler.plan.work import Work
from ingot.graph.blas import has_gemm, product_of
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import Output
from ingot.graph.roles import Assemble, Map, Product, Scatter
from ingot.graph.shape import size_of
from ingot.runtime.progress import working

__all__ = ["Plan", "build_plan"]

NUMBER_BYTES = 8  # of a length that kernels are given
WORTH_RELEASING = 1 << 14  # bytes that a program touches before other threads should run meanwhile


@dataclass(frozen=True)
class Place:
    """Where a value is: a slot of the program, an offset in it, and strides, both in bytes."""

    slot: int
    offset: int
    strides: tuple[int, ...]


@dataclass
class Plan:
    """A native program with what `explain` tells about it. `parts` are what the program is made of,
    of which some may depend on shapes.
    """

    parts: tuple[Any, ...]
    kernels: list[tuple[Group, Kernel]] = field(default_factory=list)
    host_steps: list[Step] = field(default_factory=list)
    blas_calls: list[Step] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)  # what each instruction is
    arena: int = 0
    peak: int = 0  # bytes of outputs, constants and arena
    donations: dict[Step, Step] = field(default_factory=dict)  # output -> input
    loaded: LoadedKernels = field(default_factory=LoadedKernels)

    @cached_property
    def program(self) -> NativeProgram:
        """The program, if its parts depend on no shapes."""
        return NativeProgram(*made(self.parts))


class _Planner:
    def __init__(
        self,
        schedule: Schedule,
        input_strides: tuple[tuple[int, ...], ...] | None,
        sizes: Sizes | None = None,
    ) -> None:
        self.schedule = schedule
        self.input_strides = input_strides
        tape = schedule.tape
        self.place: dict[Step, Place] = {}
        self.instructions: list[tuple[Any, ...]] = []
        self.arena: Arena | SymbolicArena = Arena() if sizes is None else SymbolicArena(sizes)
        self.plan_kernels: list[tuple[Group, Kernel]] = []
        self.host_steps: list[Step] = []
        self.blas_calls: list[Step] = []
        self.work: list[Work] = []  # one for each instruction
        self.base: dict[Step, Step] = {}  # a view -> the value whose memory it shows
        # an output -> the input whose memory it may take, and the instruction that does
        self.donors: dict[Step, tuple[Step, int]] = {}
        self.taken_over: set[Step] = set()  # values whose places in the arena others have now
        self.copies: dict[Step, Step] = {}  # a view that cannot be an address -> the copy it is of
        self.lengths_of_life = self._lives()
        owned = self._owned()
        self.input_count = len(tape.inputs)
        self.constants = [
            step for step in tape.steps if step.is_constant or isinstance(step, LengthStep)
        ]
        self.owned = owned
        self.slot_of: dict[Step, int] = {}
        for step in (*tape.inputs, *owned, *self.constants):
            self.slot_of[step] = len(self.slot_of)
            self.place[step] = Place(self.slot_of[step], 0, contiguous(step.shape, step.dtype.size))
        for step, strides in zip(tape.inputs, input_strides or (), strict=False):
            self.place[step] = Place(self.slot_of[step], 0, strides)
        # the lengths and strides that kernels are given, behind the other constants
        self.tables: dict[tuple[Symbol, ...], int] = {}
        self.numbers: list[Number] = []
        self.table_slot = len(self.slot_of)
        self.arena_slot = len(self.slot_of) + (sizes is not None)
        self.slot_count = self.arena_slot + 1
        self.host_slots: dict[tuple[Step, int], int] = {}

    # What lives where and how long

    def _lives(self) -> dict[int, list[Step]]:
        """For each group, by number, the values in the arena that nobody needs after it."""
        base = self.base
        groups = self.schedule.groups
        for group in groups:
            step = group.steps[0]
            passes = group.kind in ("view", "check")
            shown = step.inputs[0] if passes else _passed_input(step)
            if shown is not None:
                base[step] = base.get(shown, shown)
        last: dict[Step, int] = {}
        for number, group in enumerate(groups):
            for source in group.inputs:
                last[base.get(source, source)] = number
        ends: dict[int, list[Step]] = {}
        for step, number in last.items():
            ends.setdefault(number, []).append(step)
        return ends

    def _owned(self) -> list[Step]:
        """The values of kernels and BLAS calls that outlive the program, because an output shows
        them.
        """
        made = {
            step
            for group in self.schedule.groups
            if group.kind in ("fused", "scatter", "assemble")
            or (group.kind == "single" and self._is_gemm(group.steps[0]))
            for step in group.outputs
        }
        return [step for step in self._shown() if step in made]

    def _shown(self) -> dict[Step, None]:
        """The values that outputs are, or are views of."""
        return {self.base.get(step, step): None for step in self.schedule.tape.outputs}

    def _is_gemm(self, step: Step) -> bool:
        return isinstance(step.op, Product) and has_gemm(step.dtype)

    # Instructions

    def run(self) -> Plan:
        groups = self.schedule.groups
        for number, group in enumerate(groups):
            working("loops written", number, len(groups))
            step = group.steps[0]
            if group.kind == "view":
                self._view(step)
            elif group.kind == "fused":
                self._fused(group, self._shared(group, number))
            elif group.kind == "iota":
                pass  # kernels know positions
            elif group.kind == "check":
                self._check(step)
            elif group.kind == "assemble":
                self._assemble(step)
            elif group.kind == "scatter":
                self._scatter(group, self._shared(group, number))
            elif type(step.op) is Output:
                self._output(step)
            elif _passes_inputs(step):
                pass  # its outputs are where its inputs are
            elif not self._gemm(step):
                self._host(step)
            for gone in self.lengths_of_life.get(number, ()):
                if gone not in self.taken_over:
                    self._release(gone)
        return self._finished()

    def _output(self, step: Step) -> None:
        """Finds one of several outputs: where the host put it, or where the input is that it is."""
        passed = _passed_input(step)
        if passed is not None:
            self.place[step] = self.place[passed]
            return
        assert isinstance(step.op, Output)
        slot = self.host_slots[step.inputs[0], step.op.index]
        self.place[step] = Place(slot, 0, contiguous(step.shape, step.dtype.size))

    def _give_place(self, step: Step) -> None:
        """Memory for a new value: its own slot, or a place in the arena."""
        if step not in self.place:
            offset = self.arena.take(step.nbytes)
            self.place[step] = Place(
                self.arena_slot, offset, contiguous(step.shape, step.dtype.size)
            )

    def _release(self, step: Step) -> None:
        place = self.place.get(step)
        if place is not None and place.slot == self.arena_slot:
            self.arena.give_back(place.offset, step.nbytes)

    def _view(self, step: Step) -> None:
        source = step.inputs[0]
        place = self.place[source]
        found = layout_of_view(step, place.strides)
        if found is None:
            copy = self._materialised(source)
            place = self.place[copy]
            found = layout_of_view(step, place.strides)
        assert found is not None
        offset, strides = found
        self.place[step] = Place(place.slot, place.offset + offset, strides)

    def _materialised(self, source: Step) -> Step:
        """A contiguous copy of a value; it stays until the program ends."""
        if source not in self.copies:
            copy = copy_of(source)
            self.copies[source] = copy
            if self.base.get(source, source) in self._shown():
                slot = self._new_slot()
                self.place[copy] = Place(slot, 0, contiguous(copy.shape, copy.dtype.size))
                self._host_instruction(copy, [slot])
            else:
                self._give_place(copy)
                self._copy(copy)
        return self.copies[source]

    def _copy(self, copy: Step) -> None:
        """A kernel that fills the place of a copy."""
        domain = tuple(length for length in copy.shape if length != 1)
        self._fused(Group("fused", [copy], list(copy.inputs), [copy], domain))

    def _assemble(self, step: Step) -> None:
        """Copies the pieces of a result to their places in it, one after the other."""
        self._give_place(step)
        whole = self.place[step]
        assert isinstance(step.op, Assemble)
        for number, part in step.op.slices(*step.inputs):
            source = step.inputs[number]
            if size_of(source.shape) == 0:
                continue
            found = part.layout(step.shape, whole.strides)
            assert found is not None
            offset, strides = found
            copy = copy_of(source, step)
            self.place[copy] = Place(whole.slot, whole.offset + offset, strides)
            self._copy(copy)

    def _new_slot(self) -> int:
        self.slot_count += 1
        return self.slot_count - 1

    def _shared(self, group: Group, number: int) -> dict[Step, Step]:
        """Which outputs of a group of maps, or of a scatter, take the memory of inputs, because
        nobody needs those afterwards: in the arena always, inputs of the program if the caller
        gives them away.
        """
        if group.reduced:
            return {}
        bases = [self.base.get(source, source) for source in group.inputs]
        shown = self._shown()
        ending = [
            step
            for step in self.lengths_of_life.get(number, ())
            if step in group.inputs
            and bases.count(step) == 1
            and step not in shown
            and all(_takes_in_place(user, step) for user in group.steps if step in user.inputs)
        ]
        found: dict[Step, Step] = {}
        for output in group.outputs:
            donor = next((step for step in ending if self._fits(step, output)), None)
            if donor is None:
                continue
            ending.remove(donor)
            found[output] = donor
            if output in self.place:
                self.donors[output] = (donor, len(self.instructions))
            else:
                self.place[output] = self.place[donor]
                self.taken_over.add(donor)
        return found

    def _fits(self, donor: Step, output: Step) -> bool:
        """Whether an output has the layout of a value, and memory of the same kind."""
        place = self.place.get(donor)
        if place is None:
            return False
        if output in self.place:
            same_kind = place.slot < self.input_count
        else:
            same_kind = place.slot == self.arena_slot
        return (
            same_kind
            and donor.shape == output.shape
            and donor.dtype is output.dtype
            and place.strides == contiguous(output.shape, output.dtype.size)
        )

    def _fused(self, group: Group, shared: dict[Step, Step] | None = None) -> None:
        shared = shared or {}
        for step in group.outputs:
            self._give_place(step)
        steps = (*group.inputs, *group.outputs)
        strides = {step: self.place[step].strides for step in steps if step in self.place}
        copies: dict[Step | None, Step] = {}
        for source in read_across(group, strides):
            copy = copies[source] = copy_of(source)
            self._give_place(copy)
            self._copy(copy)
            strides[source] = self.place[copy].strides
        lowered = lower(group, strides, {*shared, *shared.values()})
        self._add_kernels(group, lowered.reading(copies))
        for copy in copies.values():
            self._release(copy)

    def _scatter(self, group: Group, shared: dict[Step, Step]) -> None:
        step = group.steps[0]
        self._give_place(step)
        strides = {s: self.place[s].strides for s in (*step.inputs, step)}
        self._add_kernels(group, Lowered([lower_scatter(step, strides, bool(shared))]))

    def _add_kernels(self, group: Group, lowered: Lowered) -> None:
        scratch = self.arena.take(lowered.scratch) if lowered.scratch else 0
        for kernel in lowered.kernels:
            arguments = [
                (self.arena_slot, scratch)
                if step is None
                else (self.place[step].slot, self.place[step].offset)
                for step in kernel.operands
            ]
            if kernel.nest.symbols:
                arguments.append((self.table_slot, self._table(kernel)))
            self.instructions.append(("kernel", kernel, kernel.parts, kernel.grain, arguments))
            self.work.append(Work("kernel", group.steps, kernel, lowered.scratch))
            self.plan_kernels.append((group, kernel))
        if lowered.scratch:
            self.arena.give_back(scratch, lowered.scratch)

    def _table(self, kernel: Kernel) -> int:
        """Where the numbers of a kernel are in the table."""
        symbols = tuple(kernel.nest.symbols)
        if symbols not in self.tables:
            self.tables[symbols] = len(self.numbers) * NUMBER_BYTES
            self.numbers += map(size_of_extent, symbols)
        return self.tables[symbols]

    def _constant_values(self) -> tuple[Any, ...]:
        found = [
            Made(length_value, (Given(step.number), step.dtype.numpy))
            if isinstance(step, LengthStep)
            else np.ascontiguousarray(step.value)
            for step in self.constants
        ]
        if self.arena_slot > self.table_slot:
            found.append(Made(number_table, tuple(self.numbers)))
        return tuple(found)

    def _gemm(self, step: Step) -> bool:
        if not self._is_gemm(step):
            return False
        self._give_place(step)
        sources = list(step.inputs)
        product = self._product(step, sources)
        if product is None:
            sources = [self._materialised(source) for source in sources]
            product = self._product(step, sources)
        assert product is not None
        left, right = sources
        places = [self.place[s] for s in (right, left, step)]
        arguments = [(place.slot, place.offset) for place in places]
        self.instructions.append(("gemm", product, arguments))
        multiplications = size_of(step.shape) * step.inputs[0].shape[-1]
        self.work.append(Work("BLAS", [step], flops=2 * multiplications))
        self.blas_calls.append(step)
        return True

    def _product(self, step: Step, sources: list[Step]) -> Any:
        left, right = ((source.shape, self.place[source].strides) for source in sources)
        return product_of(step.dtype.numpy, left, right)

    def _check(self, step: Step) -> None:
        """Passes the first input on, unless the flag that is the second says that an error is due,
        which the op raises.
        """
        value, flag = step.inputs
        self.place[step] = self.place[value]
        views = [self._viewer(value), self._viewer(flag)]
        call = Made(checking, (_remade(step.op), views))
        place = self.place[flag]
        self.instructions.append(("check", call, [(place.slot, place.offset)]))
        self.work.append(Work("check", [step]))

    def _host(self, step: Step) -> None:
        count = len(step.dtype) if isinstance(step.dtype, tuple) else 1
        slots = [self._new_slot() for _ in range(count)]
        self.host_slots.update(((step, index), slot) for index, slot in enumerate(slots))
        if count == 1 and not isinstance(step.dtype, tuple):
            self.place[step] = Place(slots[0], 0, contiguous(step.shape, step.dtype.size))
        self._host_instruction(step, slots)
        self.host_steps.append(step)

    def _host_instruction(self, step: Step, slots: list[int]) -> None:
        views = [self._viewer(source) for source in step.inputs]
        call = Made(host, (_remade(step.op), views, isinstance(step.dtype, tuple)))
        self.instructions.append(("host", call, [(slot, 0) for slot in slots]))
        self.work.append(Work("host", [step]))

    def _viewer(self, step: Step) -> Made:
        """What finds a value among the slots of a running program."""
        place = self.place[step]
        return Made(viewer, (place.slot, place.offset, step.shape, step.dtype.numpy, place.strides))

    def _donations(self) -> dict[Step, Step]:
        """Outputs and the inputs whose memory they may take. Host steps and checks may fail, and
        the inputs must be as they were then: what happens before that changes none.
        """
        may_fail = [made[0] in ("host", "check") for made in self.instructions]
        last_failing = max((number for number, may in enumerate(may_fail) if may), default=-1)
        return {
            step: self.donors[step][0]
            for step in self.owned
            if step in self.donors and self.donors[step][1] > last_failing
        }

    def _with_code(self) -> list[tuple[Any, ...]]:
        """The instructions with machine code in place of the kernels."""
        codes = iter(self.loaded.codes)
        return [
            ("kernel", next(codes), *made[2:]) if made[0] == "kernel" else made
            for made in self.instructions
        ]

    def _finished(self) -> Plan:
        self.loaded = load_kernels([kernel.text for _, kernel in self.plan_kernels])
        tape = self.schedule.tape
        plain = [self.slot_of.get(step) for step in tape.outputs]
        first = self.input_count
        owned_slots = list(range(first, first + len(self.owned)))
        finish = None
        if plain != owned_slots:
            finish = Made(finishing, ([self._viewer(step) for step in tape.outputs],))
        arena = self.arena.size
        touched = sum(group.nbytes for group in self.schedule.groups)
        donations = self._donations()
        parts = (
            self.input_count,
            tuple(step.shape for step in self.owned),
            tuple(step.dtype.numpy for step in self.owned),
            tuple(
                self.slot_of[donations[step]] if step in donations else -1 for step in self.owned
            ),
            self._constant_values(),
            self.slot_count,
            self.arena_slot,
            arena,
            self._with_code(),
            finish,
            np.empty,
            touched // WORTH_RELEASING,
            self.input_strides is not None,
        )
        peak = arena + sum(step.nbytes for step in (*self.owned, *self.constants))
        return Plan(
            parts,
            self.plan_kernels,
            self.host_steps,
            self.blas_calls,
            self.work,
            arena,
            peak,
            donations,
            self.loaded,
        )


def _takes_in_place(step: Step, source: Step) -> bool:
    """Whether a step takes of a value only what its own result replaces."""
    if isinstance(step.op, Scatter):
        return step.inputs.index(source) == 0 and step.inputs.count(source) == 1
    return isinstance(step.op, Map)


def _passes_inputs(step: Step) -> bool:
    """Whether all outputs of a step with several are inputs of it."""
    op = step.op
    return op is not None and op.several_outputs and op.passed_input(0) is not None


def _passed_input(step: Step) -> Step | None:
    """The input that one of several outputs is, if it is one."""
    if not isinstance(step.op, Output) or not _passes_inputs(step.inputs[0]):
        return None
    whole = step.inputs[0]
    assert whole.op is not None
    number = whole.op.passed_input(step.op.index)
    return None if number is None else whole.inputs[number]


def _remade(op: Any) -> Any:
    """An op as it is made for each shape, if its fields depend on that."""
    values = tuple(parameters(op).values())
    return Made(type(op), values) if any(map(depends_on_shapes, values)) else op


def build_plan(
    schedule: Schedule,
    input_strides: tuple[tuple[int, ...], ...] | None = None,
    sizes: Sizes | None = None,
) -> Plan:
    """The native program of a schedule, for contiguous inputs or for inputs of the given strides in
    bytes; with `sizes`, for all shapes that meet their conditions.
    """
    return _Planner(schedule, input_strides, sizes).run()
