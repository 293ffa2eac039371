"""Kernels: loop nests with their code, and what a program needs to know to run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.compiler.forms.affine import size_of_extent
from ingot.compiler.forms.nest import Nest
from ingot.compiler.forms.nest_symbols import used_symbols
from ingot.compiler.forms.nest_verify import verify
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step
from ingot.compiler.llvm.nests import nest_module
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.verification import is_verifying

__all__ = ["Kernel", "Lowered", "kernel_of"]


@dataclass(frozen=True)
class Kernel:
    """The code of one kernel and the nest that it was made of: `parts` is how many iterations its
    parallel loop has, `grain` how many of them are worth a thread.
    """

    text: str
    parts: Number
    grain: Number
    operands: tuple[Step | None, ...]  # its arguments; None stands for the group's scratch memory
    nest: Nest


@dataclass
class Lowered:
    """A group as kernels to run one after the other, with the scratch memory that they share."""

    kernels: list[Kernel]
    scratch: int = 0

    def reading(self, copies: dict[Step | None, Step]) -> Lowered:
        """The same with copies of some inputs in their stead."""
        if not copies:
            return self
        kernels = [
            replace(each, operands=tuple(copies.get(step, step) for step in each.operands))
            for each in self.kernels
        ]
        return Lowered(kernels, self.scratch)


def kernel_of(nest: Nest, operands: Sequence[Step | None]) -> Kernel:
    """The kernel of a nest. `operands` are its arguments, before the table of its symbols if it has
    some; None stands for scratch memory.
    """
    nest.symbols = used_symbols(nest)
    if is_verifying():
        verify(nest, races=False)
    text = nest_module(nest)
    parts: Number = 0
    for region in nest.parallel:
        iterations: Number = 1
        for length in region.lengths:
            iterations *= size_of_extent(length)
        parts += iterations
    return Kernel(text, parts, nest.parallel[0].grain, tuple(operands), nest)
