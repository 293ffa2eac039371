"""Lengths and strides as arguments of kernels.

The machine code of a product is good for all sizes, and takes LLVM as long as hundreds of small
products. So its lengths and strides are symbols of the nest, whose numbers are in a table that the
program gives to the kernel: products that differ in sizes alone share their code.
"""

from __future__ import annotations

from collections.abc import Hashable

from ingot.compiler.forms.affine import Extent, Symbol, extent
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.size import Number, is_symbolic

__all__ = ["Numbers", "code_key"]


class Numbers:
    """The symbols of one kernel, by their names."""

    def __init__(self) -> None:
        self._symbols: dict[str, Symbol] = {}
        self.are_known = True  # none of them depends on shapes

    def __call__(self, name: str, value: Number) -> Extent:
        """A number that the kernel is given; the same one for the same name."""
        if is_symbolic(value):
            self.are_known = False
            return extent(value)
        found = self._symbols.get(name)
        if found is None:
            found = self._symbols[name] = Symbol(name, value)
        assert found.size == value, f"{name} has two values"
        return found

    def stride(self, name: str, value: Number, unit: int) -> Extent:
        """A stride in bytes. Whether elements are adjacent, or all the same one, is known when the
        code is made.
        """
        return value if value in (0, unit) else self(name, value)


def code_key(
    builder: NestBuilder, numbers: Numbers, *parts: Hashable
) -> tuple[Hashable, ...] | None:
    """What the code of a nest depends on: its buffers but for numbers that the kernel is given, and
    whatever else its builder decided by. None if it may depend on more.
    """
    if not numbers.are_known:
        return None

    def known(extents: tuple[Extent, ...]) -> tuple[int | None, ...]:
        return tuple(x if isinstance(x, int) else None for x in extents)

    buffers = [
        (x.dtype.name, x.argument, known(x.shape), known(x.strides), known((x.offset,)))
        for x in builder.nest.buffers
    ]
    return (*parts, *buffers)
