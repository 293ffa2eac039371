"""Planning: assigns memory to every value of a program.

Input: loop nests over blocks of memory. Output: a `Plan` with an address for each block. Inputs,
outputs, constants and the results of host steps have memory of their own. All other values live in
one arena, in which blocks with disjoint lifetimes share memory, and outputs of kernels may reuse
the memory of operands that die there.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import Symbol, size_of_extent
from ingot.compiler.forms.nests import Block, Instruction, Nests, RunKernel
from ingot.compiler.forms.plan import Address, Kept, Plan
from ingot.compiler.forms.size import Number, provably_equal
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Step
from ingot.compiler.options import Options
from ingot.compiler.plan.arena import Arena
from ingot.compiler.plan.kept import kept_blocks
from ingot.compiler.plan.lifetimes import ends_of, owned_results
from ingot.compiler.plan.symbolic_arena import SymbolicArena

__all__ = ["plan"]

NUMBER_BYTES = 8  # of an entry in the table of lengths and strides


def plan(nests: Nests, options: Options) -> Plan:
    """Addresses for the memory of all instructions."""
    keeps = options.iteration is None and options.sizes is None
    return _Planner(nests, options.sizes, kept_blocks(nests) if keeps else {}).run()


class _Planner:
    def __init__(self, nests: Nests, sizes: Sizes | None, kept: dict[Block, Kept]) -> None:
        self.nests = nests
        self.kept = kept
        self.arena: Arena | SymbolicArena = Arena() if sizes is None else SymbolicArena(sizes)
        self.ends = ends_of(nests)
        self.live_out = {location.block for location in nests.outputs}
        self.owned = owned_results(nests)
        self.addresses: dict[Block, Address] = {}
        for block in (*nests.inputs, *self.owned, *nests.constants):
            self.addresses[block] = Address(len(self.addresses), 0)
        # the table of lengths and strides that kernels read, after the other constants
        has_numbers = sizes is not None or any(kernel.nest.symbols for kernel in nests.kernels)
        self.numbers: list[Number] | None = [] if has_numbers else None
        self.number_slot = len(self.addresses)
        self.arena_slot = len(self.addresses) + has_numbers
        self.slots = self.arena_slot + 1
        self.taken_over: set[Block] = set()  # blocks whose arena memory has been reused
        self.shared: dict[RunKernel, frozenset[int]] = {}
        # an owned result -> the input whose memory it may reuse, and the instruction that writes it
        self.donors: dict[Block, tuple[Block, int]] = {}

    def run(self) -> Plan:
        for number, each in enumerate(self.nests.instructions):
            if isinstance(each, RunKernel) and each.replaceable:
                self._share(each, number)
            for block in (*each.writes, *each.reads):
                if block not in self.addresses:
                    self._give_address(block)
            for block in self.ends.get(number, ()):
                if block not in self.taken_over and self.addresses[block].slot == self.arena_slot:
                    self.arena.give_back(self.addresses[block].offset, block.nbytes)
        for block in self.live_out:
            if block not in self.addresses:  # an empty output, which nothing writes
                self._give_address(block)
        return Plan(
            self.nests,
            self.addresses,
            self.owned,
            self.arena_slot,
            self.arena.size,
            self.slots,
            self.shared,
            self._donations(),
            self.numbers,
            self._tables(),
            self.kept,
        )

    def _tables(self) -> dict[RunKernel, Address]:
        """The address of each kernel's table of symbols, if it has symbols."""
        known: dict[tuple[Symbol, ...], Address] = {}
        found: dict[RunKernel, Address] = {}
        for each in self.nests.instructions:
            if not isinstance(each, RunKernel) or not each.kernel.nest.symbols:
                continue
            assert self.numbers is not None
            symbols = tuple(each.kernel.nest.symbols)
            if symbols not in known:
                known[symbols] = Address(self.number_slot, len(self.numbers) * NUMBER_BYTES)
                self.numbers += map(size_of_extent, symbols)
            found[each] = known[symbols]
        return found

    def _give_address(self, block: Block) -> None:
        if block.kind == "host" or block in self.kept:
            self.addresses[block] = Address(self.slots, 0)
            self.slots += 1
        else:
            self.addresses[block] = Address(self.arena_slot, self.arena.take(block.nbytes))

    def _share(self, each: RunKernel, number: int) -> None:
        """Lets outputs of a kernel reuse the memory of operands that die there: always in the
        arena; inputs of the program if the caller donates them.
        """
        ending = [
            position
            for position in each.replaceable
            if each.operands[position].block in self.ends.get(number, ())
            and each.operands[position].block not in self.live_out
        ]
        shared: set[int] = set()
        for output, location in enumerate(each.operands):
            result = location.block
            if not ending or result not in each.written:
                continue
            donor = next((n for n in ending if self._fits(each, n, output)), None)
            if donor is None:
                continue
            ending.remove(donor)
            shared.update((output, donor))
            given = each.operands[donor].block
            if result in self.addresses:
                self.donors[result] = (given, number)
            else:
                self.addresses[result] = self.addresses[given]
                self.taken_over.add(given)
        if shared:
            self.shared[each] = frozenset(shared)

    def _fits(self, each: RunKernel, donor: int, output: int) -> bool:
        """Whether an output has the layout of an operand, and the same kind of memory."""
        given, result = each.operands[donor].block, each.operands[output].block
        old, new = each.kernel.operands[donor], each.kernel.operands[output]
        assert isinstance(old, Step)
        assert isinstance(new, Step)
        if old.dtype is not new.dtype or len(old.shape) != len(new.shape):
            return False
        if not all(map(provably_equal, old.shape, new.shape)):
            return False
        if result not in self.addresses:
            return self.addresses[given].slot == self.arena_slot
        # the array itself becomes the output, so it must not be a view
        return given.kind == "input" and given.step is old

    def _donations(self) -> dict[Block, Block]:
        """Results and the inputs whose memory they may reuse. Host steps and checks may fail, and
        must then find the inputs unchanged: no instruction before them may overwrite one.
        """
        instructions: list[Instruction] = self.nests.instructions
        failing = [number for number, each in enumerate(instructions) if each.can_fail]
        last_failing = max(failing, default=-1)
        return {
            block: self.donors[block][0]
            for block in self.owned
            if block in self.donors and self.donors[block][1] > last_failing
        }
