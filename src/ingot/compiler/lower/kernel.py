"""Kernels of groups: what lowering a group gives."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from ingot.compiler.forms.nest.data import Nest
from ingot.compiler.forms.nest.symbols import used_symbols
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.tape import Step

__all__ = ["Kernel", "Lowered", "kernel_of"]


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


def kernel_of(
    nest: Nest, operands: Sequence[Step | None], code_key: tuple[Hashable, ...] | None = None
) -> Kernel:
    """The kernel of a nest. `operands` are its arguments, before the table of its symbols if it has
    some; None stands for scratch memory.
    """
    nest.symbols = used_symbols(nest)
    return Kernel(nest, tuple(operands), code_key)
