"""The result of lowering a group: its kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from ingot.compiler.forms.nest.data import Nest
from ingot.compiler.forms.nest.symbols import used_symbols
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.tape import Step
from ingot.graph.outputs import Output

__all__ = ["Kernel", "Lowered", "kernel_of", "outputs_of"]


@dataclass
class Lowered:
    """Kernels to run one after the other, with the scratch memory that they share."""

    kernels: list[Kernel]
    scratch: int = 0

    def reading(self, copies: dict[Step | None, Step]) -> Lowered:
        """The same kernels, reading copies instead of some inputs."""
        if not copies:
            return self
        kernels = [
            replace(each, operands=tuple(copies.get(step, step) for step in each.operands))
            for each in self.kernels
        ]
        return Lowered(kernels, self.scratch)


def kernel_of(
    nest: Nest, operands: Sequence[Step | None], code_key: tuple[Hashable, ...] | None = None
) -> Kernel:
    """The kernel of a nest. `operands` are its arguments, followed by the table of its symbols if
    it has any; None stands for scratch memory.
    """
    nest.symbols = used_symbols(nest)
    return Kernel(nest, tuple(operands), code_key)


def outputs_of(step: Step, known: Iterable[Step]) -> list[Step]:
    """The values that a step computes, in order: the step itself, or the steps that select one of
    its several outputs.
    """
    if not isinstance(step.dtype, tuple):
        return [step]
    found: dict[int, Step] = {}
    for each in known:
        if isinstance(each.op, Output) and each.inputs[0] is step:
            found.setdefault(each.op.index, each)
    return [found[index] for index in range(len(step.dtype))]
