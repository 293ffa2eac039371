"""Bodies of loops: their loop-invariant instructions, and the loops and branches inside them.

Weights that a recurrent layer multiplies by are packed into panels, converted or copied in each
iteration, always with the same result. Such instructions are moved to the front, where the loop
runs them in its first iteration only; planning keeps what they write for the others.

Loops and branches in a body are instructions of its program if what they run is native too. It is
compiled here, so that lowering knows whether anything is left to the host: native code repeats a
body without host steps.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

from ingot.compiler.forms.nest.data import Buffer
from ingot.compiler.forms.nest.traversal import touched
from ingot.compiler.forms.nests import (
    Block,
    Instruction,
    Nested,
    Nests,
    RunKernel,
    reach_of,
)
from ingot.compiler.forms.tape import Step
from ingot.compiler.options import Options
from ingot.graph.numerics.routines import Routine, routine_of
from ingot.graph.op import overrides
from ingot.graph.outputs import Output
from ingot.graph.roles import Control, Host, Tiled

__all__ = ["has_host", "invariants_first", "nested_programs", "routines_of"]

Range = tuple[Block, int, int]  # bytes of scratch memory


def invariants_first(nests: Nests, varying: int) -> Nests:
    """The instructions of a loop body of which the first `varying` inputs change from iteration to
    iteration, invariant ones first.
    """
    found = _Invariants(nests, varying).found
    once = [each for each in nests.instructions if each in found]
    others = [each for each in nests.instructions if each not in found]
    return replace(nests, instructions=[*once, *others], invariant=len(once))


class _Invariants:
    """The largest set of kernels that depend only on fixed inputs and on each other, and whose
    results no other kernel overwrites.
    """

    def __init__(self, nests: Nests, varying: int) -> None:
        self.fixed = {*nests.inputs[varying:], *nests.constants}
        self.outputs = {location.block for location in nests.outputs}
        self.writers: dict[Block, list[Instruction]] = {}
        for each in nests.instructions:
            for block in each.writes:
                self.writers.setdefault(block, []).append(each)
        self.scratch = {
            each: _scratch_ranges(each)
            for each in nests.instructions
            if isinstance(each, RunKernel)
        }
        self.found = set(self.scratch)
        while failing := {each for each in self.found if not self._is_invariant(each)}:
            self.found -= failing

    def _is_invariant(self, each: RunKernel) -> bool:
        blocks = {block for block in (*each.reads, *each.writes) if block.kind != "scratch"}
        if not all(block in self.fixed or self._is_kept(block) for block in blocks):
            return False
        reads, writes = self.scratch[each]
        return not any(
            _overlap(range_, other)
            for range_ in (*reads, *writes)
            for writer in self.writers.get(range_[0], ())
            if writer not in self.found and isinstance(writer, RunKernel)
            for other in self.scratch[writer][1]
        )

    def _is_kept(self, block: Block) -> bool:
        """Whether only invariant kernels write a block, and no output is in it."""
        writers = self.writers.get(block, ())
        return (
            block not in self.outputs
            and all(each in self.found for each in writers)
            and bool(writers)
        )


def _scratch_ranges(each: RunKernel) -> tuple[list[Range], list[Range]]:
    """The ranges of scratch memory that a kernel reads and writes."""

    def ranges(buffers: list[Buffer]) -> list[Range]:
        found = []
        for buffer in buffers:
            if buffer.argument is None or isinstance(each.kernel.operands[buffer.argument], Step):
                continue
            found.append((each.operands[buffer.argument].block, *reach_of(buffer)))
        return found

    reads, writes = touched(each.kernel.nest)
    return ranges(reads), ranges(writes)


def _overlap(one: Range, other: Range) -> bool:
    (block, begin, end), (other_block, other_begin, other_end) = one, other
    return block is other_block and begin < other_end and other_begin < end


def nested_programs(steps: Iterable[Step], options: Options) -> dict[Step, Nested]:
    """The native programs of loops and branches. With symbolic sizes they stay on the host, where
    each shape has its own program.
    """
    if options.iteration is None or options.sizes is not None:
        return {}
    found = {step: step.op.nested() for step in steps if isinstance(step.op, Control)}
    return {step: program for step, program in found.items() if program is not None}


def routines_of(steps: Iterable[Step], options: Options) -> dict[Step, Routine]:
    """The native routines of ops without kernels; none with symbolic sizes."""
    if options.sizes is not None:
        return {}
    found = {}
    for step in steps:
        kind: Any = type(step.op)
        if isinstance(step.op, Host) and overrides(kind, "routine"):
            specs = [(source.shape, source.dtype.numpy) for source in step.inputs]
            routine = routine_of(step.op, *specs)
            if routine is not None:
                found[step] = routine
    return found


def has_host(steps: Iterable[Step], native: Container[Step]) -> bool:
    """Whether a step runs on the host, being none of the `native` ones: loops around it are not
    native.
    """
    return any(
        isinstance(step.op, Host)
        and not isinstance(step.op, (Tiled, Output))
        and step not in native
        for step in steps
    )
