"""Plan: the address of every block of a program's memory; its printer and verifier.

The output of planning, from which machine code is generated. A program has slots: arrays that it
takes, allocates, or gets from the host, and one arena for all other values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import NamedTuple

from ingot.compiler.forms.nests import (
    Block,
    CallHost,
    Instruction,
    Location,
    Multiply,
    Nests,
    RunKernel,
    RunNested,
    RunRoutine,
    step_namer,
)
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step, program_lines
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Address", "Kept", "Plan", "operands_of"]


class Address(NamedTuple):
    """A slot of the program, and an offset in bytes."""

    slot: int
    offset: int


class Kept(NamedTuple):
    """The input or constant that scratch memory is computed from, and by which instructions, by
    number.
    """

    source: Block
    writers: tuple[int, ...]


@dataclass
class Plan:
    """Addresses for the blocks of a program. The slots are, in order: inputs, owned results,
    constants, a table of numbers if sizes are symbolic, the arena, and one for each array from the
    host and each block that is kept for later runs with the same input.
    """

    nests: Nests
    addresses: dict[Block, Address]
    owned: list[Block]  # results that outlive the program, because they hold outputs
    arena_slot: int
    arena: int  # bytes
    slots: int
    # arguments of a kernel that are or may be at the same address
    shared: dict[RunKernel, frozenset[int]] = field(default_factory=dict)
    donations: dict[Block, Block] = field(default_factory=dict)  # owned result -> input
    # the table of lengths and strides that kernels read, and the address of each kernel's part
    numbers: list[Number] | None = None
    tables: dict[RunKernel, Address] = field(default_factory=dict)
    kept: dict[Block, Kept] = field(default_factory=dict)

    @property
    def peak(self) -> int:
        """Bytes of outputs, constants, arena and kept blocks."""
        apart = (*self.owned, *self.nests.constants, *self.kept)
        return self.arena + sum(block.nbytes for block in apart)

    @property
    def donated_steps(self) -> dict[Step, Step]:
        """Outputs that reuse the memory of an input if the caller donates it, and which input."""
        found = {}
        for result, given in self.donations.items():
            assert result.step is not None
            assert given.step is not None
            found[result.step] = given.step
        return found

    def address(self, location: Location) -> Address:
        """The address of a value's first element."""
        slot, offset = self.addresses[location.block]
        return Address(slot, offset + location.offset)

    def text(self) -> str:
        """The slots, and what each instruction reads and writes, and where."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        name = step_namer(self.nests.schedule)

        def at(block: Block) -> str:
            slot, offset = self.addresses[block]
            named = "scratch" if block.step is None else name(block.step)
            if block in self.kept:
                named = f"kept {named}"
            if slot == self.arena_slot:
                return f"{named} at {offset}..{offset + block.nbytes}"
            return f"{named} in slot {slot}"

        kinds = [(self.nests.inputs, "input"), (self.owned, "result")]
        for blocks, kind in (*kinds, (self.nests.constants, "constant")):
            for block in blocks:
                given = self.donations.get(block)
                taken = "" if given is None else f", may take that of {name(given.step)}"
                yield f"slot {self.addresses[block].slot}: {kind} {name(block.step)}{taken}"
        yield f"slot {self.arena_slot}: arena of {self.arena} bytes"
        for number, each in enumerate(self.nests.instructions):
            reads = ", ".join(at(block) for block in dict.fromkeys(each.reads))
            writes = ", ".join(at(block) for block in dict.fromkeys(each.writes))
            arrow = f" -> {writes}" if writes else ""
            yield f"{number}: {each.kind} {reads}{arrow}".replace("  ", " ")
            if isinstance(each, (CallHost, RunNested)):
                yield from program_lines(each.steps[0].op, lambda made: made.form("plan").text())
        outputs = [name(step) for step in self.nests.schedule.tape.outputs]
        yield f"return {', '.join(map(str, outputs))}"

    def verify(self) -> None:
        """AssertionError unless every instruction finds in memory what was stored for it, and the
        program can be rerun until nothing can fail any more. Memory is simulated instruction by
        instruction, independently of the lifetimes that the plan was based on.
        """
        memory = _Memory(self)
        for block in (*self.nests.inputs, *self.nests.constants):
            memory.write(block)
        first = self.nests.invariant
        self._verify_run(self.nests.instructions, memory, set())
        if first:  # the next iteration of a loop
            kept = {block for each in self.nests.instructions[:first] for block in each.writes}
            self._verify_run(self.nests.instructions[first:], memory, kept)
        for location in self.nests.outputs:
            if location.block.nbytes:
                memory.check(location.block, None)
                outlives = self.addresses[location.block].slot != self.arena_slot
                assert outlives, "an output is in the arena, which ends with the program"
        self._verify_donations()

    def _verify_run(
        self, instructions: list[Instruction], memory: _Memory, kept: set[Block]
    ) -> None:
        """AssertionError unless every instruction finds what it reads. What is in scratch memory
        before is known only of blocks that are `kept` from an earlier iteration.
        """
        for each in instructions:
            for block in each.reads:
                if block.nbytes and (block.kind != "scratch" or block in kept):
                    memory.check(block, each)
            self._verify_apart(each)
            for block in each.writes:
                memory.write(block)

    def _verify_apart(self, each: Instruction) -> None:
        """AssertionError if an instruction overwrites what it reads without declaring it."""
        shared = self.shared.get(each, frozenset()) if isinstance(each, RunKernel) else frozenset()
        known = (
            {each.operands[number].block for number in shared}
            if isinstance(each, RunKernel)
            else set()
        )
        for block in each.writes:
            for other in (*each.reads, *each.writes):
                if other is block or (block in known and other in known):
                    continue
                assert not self._overlap(block, other), f"{each.kind} writes over what it reads"

    def _overlap(self, a: Block, b: Block) -> bool:
        (slot, begin), (other_slot, other_begin) = self.addresses[a], self.addresses[b]
        if slot != other_slot:
            return False
        return begin < other_begin + b.nbytes and other_begin < begin + a.nbytes

    def _verify_donations(self) -> None:
        """AssertionError if a donated input is needed after it was overwritten: by an instruction,
        by an output, or by rerunning the program after a failure.
        """
        instructions = self.nests.instructions
        for result, given in self.donations.items():
            first = next(n for n, each in enumerate(instructions) if result in each.writes)
            for number, each in enumerate(instructions):
                if number > first:
                    assert given not in each.reads, "an input is read after it was given away"
                if number >= first:
                    assert not each.can_fail, "an input is given away before something may fail"
            outputs = [location.block for location in self.nests.outputs]
            assert given not in outputs, "an input is given away that is an output, too"


class _Memory:
    """The contents of memory, for the verifier."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.in_arena: list[Block] = []
        self.elsewhere: dict[int, Block] = {}

    def write(self, block: Block) -> None:
        slot, offset = self.plan.addresses[block]
        if slot != self.plan.arena_slot:
            taken = self.elsewhere.setdefault(slot, block)
            assert taken is block, "two blocks have one slot"
            return
        assert offset >= 0
        assert offset + block.nbytes <= self.plan.arena, "a block does not fit into the arena"
        self.in_arena = [
            other
            for other in self.in_arena
            if other is not block and not self.plan._overlap(block, other)
        ]
        self.in_arena.append(block)

    def check(self, block: Block, reader: Instruction | None) -> None:
        slot, _ = self.plan.addresses[block]
        there = self.in_arena if slot == self.plan.arena_slot else [self.elsewhere.get(slot)]
        who = "an output" if reader is None else reader.kind
        assert block in there, f"{who} reads memory that something else was written to"


def operands_of(each: Instruction) -> tuple[Location, ...]:
    """The locations whose addresses a native instruction takes, in order."""
    if isinstance(each, RunKernel):
        return each.operands
    if isinstance(each, Multiply):
        left, right = each.sources
        return right, left, each.result
    if isinstance(each, RunNested):
        return (*each.sources, *each.results, each.scratch)
    if isinstance(each, RunRoutine):
        return (*each.sources, *each.results)
    if isinstance(each, CallHost):
        return tuple([Location(block, 0, ()) for block in each.results])
    return (each.flag,)
