"""Plan: where every block of a program's memory is, and who takes whose; its printer and verifier.

What planning makes, and what machine code is generated from. A program has slots: arrays that it is
given, makes, or gets from the host, and one arena for everything in between.
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
    step_namer,
)
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step, program_lines
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Address", "Plan", "operands_of"]


class Address(NamedTuple):
    """A slot of the program, and an offset in bytes."""

    slot: int
    offset: int


@dataclass
class Plan:
    """Addresses for the blocks of a program. Slots are those of inputs, owned results, constants,
    with symbolic sizes a table of numbers, the arena, and then one for each array that the host
    makes.
    """

    nests: Nests
    addresses: dict[Block, Address]
    owned: list[Block]  # results that outlive the program, because its outputs are in them
    arena_slot: int
    arena: int  # bytes
    slots: int
    # arguments of a kernel that are at the same address, or may be
    shared: dict[RunKernel, frozenset[int]] = field(default_factory=dict)
    donations: dict[Block, Block] = field(default_factory=dict)  # owned result -> input
    # the lengths and strides that kernels are given, and where those of a kernel are
    numbers: list[Number] | None = None
    tables: dict[RunKernel, Address] = field(default_factory=dict)

    @property
    def peak(self) -> int:
        """Bytes of outputs, constants and arena."""
        return self.arena + sum(block.nbytes for block in (*self.owned, *self.nests.constants))

    @property
    def donated_steps(self) -> dict[Step, Step]:
        """Outputs that take the memory of an input if the caller gives it away, and which."""
        found = {}
        for result, given in self.donations.items():
            assert result.step is not None
            assert given.step is not None
            found[result.step] = given.step
        return found

    def address(self, location: Location) -> Address:
        """Where a value begins."""
        slot, offset = self.addresses[location.block]
        return Address(slot, offset + location.offset)

    def text(self) -> str:
        """The slots, and for each instruction what it reads and writes where."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        name = step_namer(self.nests.schedule)

        def at(block: Block) -> str:
            slot, offset = self.addresses[block]
            named = "scratch" if block.step is None else name(block.step)
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
            if isinstance(each, CallHost):
                yield from program_lines(each.steps[0].op, lambda made: made.form("plan").text())
        outputs = [name(step) for step in self.nests.schedule.tape.outputs]
        yield f"return {', '.join(map(str, outputs))}"

    def verify(self) -> None:
        """AssertionError unless every instruction finds in memory what was put there for it, and
        the program may be run again until nothing can fail any more. Memory is followed instruction
        by instruction, without the lifetimes that the plan was made with.
        """
        memory = _Memory(self)
        for block in (*self.nests.inputs, *self.nests.constants):
            memory.write(block)
        for each in self.nests.instructions:
            for block in each.reads:
                if block.kind != "scratch" and block.nbytes:
                    memory.check(block, each)
            self._verify_apart(each)
            for block in each.writes:
                memory.write(block)
        for location in self.nests.outputs:
            if location.block.nbytes:
                memory.check(location.block, None)
                outlives = self.addresses[location.block].slot != self.arena_slot
                assert outlives, "an output is in the arena, which ends with the program"
        self._verify_donations()

    def _verify_apart(self, each: Instruction) -> None:
        """AssertionError if an instruction writes over what it reads without knowing it."""
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
        """AssertionError if an input that is given away is needed after it was written over: by an
        instruction, by an output, or by whoever runs the program again because something failed.
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
    """Which block is where, for the verifier."""

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
    """What a native instruction is given addresses of, in its order."""
    if isinstance(each, RunKernel):
        return each.operands
    if isinstance(each, Multiply):
        left, right = each.sources
        return right, left, each.result
    if isinstance(each, CallHost):
        return tuple([Location(block, 0, ()) for block in each.results])
    return (each.flag,)
