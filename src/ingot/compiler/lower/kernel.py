"""The result of lowering a group: its kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ingot.compiler.forms.nest.data import Nest
from ingot.compiler.forms.nest.symbols import used_symbols
from ingot.compiler.forms.nests import Area, Kernel
from ingot.compiler.forms.tape import Step
from ingot.graph.outputs import Output

__all__ = ["Kernel", "Lowered", "kernel_of", "outputs_of"]


@dataclass
class Lowered:
    """Kernels to run one after the other, with the scratch memory that they share."""

    kernels: list[Kernel]
    scratch: int = 0
    left: int = 0  # bytes of scratch memory for the left operand of a product

    @property
    def areas(self) -> dict[Area | None, int]:
        """The sizes of all scratch memory."""
        return {None: self.scratch, Area.LEFT: self.left}

    def reading(self, copies: Mapping[Step | None, Step]) -> Lowered:
        """The same kernels, reading copies instead of some inputs."""
        if not copies:
            return self
        kernels = [
            replace(
                each,
                operands=tuple(
                    copies.get(x, x) if isinstance(x, Step) else x for x in each.operands
                ),
            )
            for each in self.kernels
        ]
        return replace(self, kernels=kernels)


def kernel_of(
    nest: Nest, operands: Sequence[Step | Area | None], code_key: tuple[Hashable, ...] | None = None
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
