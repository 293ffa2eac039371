"""Descriptions of the instructions of a native program, for `explain` and profiles.

Everything is computed on demand, so that generating a program takes no longer.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ingot.compiler.forms.nest.traversal import touched
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.size import smallest
from ingot.compiler.forms.tape import Step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.reporting.source import Source
from ingot.graph.roles import Gather, Product, View
from ingot.graph.shape import size_of

__all__ = ["KernelCode", "Work", "bytes_in_memory", "group_name"]

MAX_NAMES = 4  # ops that the name of a kernel lists


@dataclass(frozen=True)
class KernelCode:
    """The LLVM text of a kernel: `parts` is the trip count of its parallel loop, `grain` how many
    iterations are worth a thread.
    """

    text: str
    parts: int
    grain: int


@dataclass(eq=False)
class Work:
    """One instruction of a program: a "kernel", a "BLAS" call, a "nested" loop or branch, a
    "routine", a "host" step, or a "check".
    """

    kind: str
    steps: list[Step]
    kernel: Kernel | None = None
    code: KernelCode | None = None
    scratch: int = 0  # bytes that the kernels of the group share
    packs: bool = False  # whether it writes scratch memory only
    is_invariant: bool = False  # whether a loop runs it in its first iteration only
    is_kept: bool = False  # whether later calls with the same array skip it

    @cached_property
    def flops(self) -> int:
        """The floating-point operations of matrix products, attributed to the kernel that writes
        their results.
        """
        if self.packs:
            return 0
        products = [step for step in self.steps if isinstance(step.op, Product)]
        return sum(2 * size_of(step.shape) * step.inputs[0].shape[-1] for step in products)

    @cached_property
    def name(self) -> str:
        """The ops, in a few words."""
        return group_name(self.steps)

    @cached_property
    def reads(self) -> list[Step]:
        """The values in memory that are read."""
        if self.kernel is not None:
            return touched_steps(self.kernel)[0]
        return list(dict.fromkeys(self.steps[0].inputs))

    @cached_property
    def writes(self) -> list[Step]:
        """The values that are written."""
        return self.steps if self.kernel is None else touched_steps(self.kernel)[1]

    @cached_property
    def nbytes(self) -> int:
        """The bytes read and written."""
        total = sum(map(self._read_bytes, self.reads)) + sum(step.nbytes for step in self.writes)
        return total + (self.scratch if self.uses_scratch else 0)

    def _read_bytes(self, step: Step) -> int:
        """The bytes read of a value; of one that is only gathered from, no more than is taken."""
        readers: list[Any] = [each for each in self.steps if step in each.inputs]
        if readers and all(_takes_by_index(each, step) for each in readers):
            return smallest((bytes_in_memory(step), sum(each.nbytes for each in readers)))
        return bytes_in_memory(step)

    @cached_property
    def uses_scratch(self) -> bool:
        """Whether partial results are written or read."""
        return self.kernel is not None and touched_steps(self.kernel)[2]

    @cached_property
    def origins(self) -> tuple[Source | int, ...]:
        """The user's lines, or the positions of nodes in an untraced graph."""
        found = dict.fromkeys(step.source for step in self.steps if step.source is not None)
        return tuple(found)


def touched_steps(kernel: Kernel) -> tuple[list[Step], list[Step], bool]:
    """The values that a kernel reads and that it writes, and whether it uses scratch memory."""
    found: list[dict[Step, None]] = []
    scratch = False
    for buffers in touched(kernel.nest):
        steps: dict[Step, None] = {}
        for buffer in buffers:
            if buffer.argument is not None:
                step = kernel.operands[buffer.argument]
                if isinstance(step, Step):
                    steps[step] = None
                else:
                    scratch = True
        found.append(steps)
    reads, writes = found
    # an output's row may hold values between passes: those are read while they are in cache
    return [step for step in reads if step not in writes], list(writes), scratch


def group_name(steps: list[Step]) -> str:
    """A short name for a group: "Max Subtract Exp Sum +1"."""
    ops = [step.op for step in steps if step.op is not None]
    names = [type(op).__name__ for op in ops if not isinstance(op, View)]
    names = list(dict.fromkeys(names or [type(op).__name__ for op in ops]))
    more = len(names) - MAX_NAMES
    return " ".join(names[:MAX_NAMES]) + (f" +{more}" if more > 0 else "")


def _takes_by_index(step: Step, source: Step) -> bool:
    return isinstance(step.op, Gather) and source not in step.inputs[1:]


def bytes_in_memory(step: Step) -> int:
    """The bytes that reading all of a step touches: a view may repeat or skip elements."""
    nbytes = step.nbytes
    while isinstance(step.op, View):
        step = step.inputs[0]
        nbytes = smallest((nbytes, step.nbytes))
    return nbytes
