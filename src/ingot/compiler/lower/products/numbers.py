"""Lengths and strides as arguments of kernels.

The code of a product works for all sizes, and compiling it takes LLVM as long as hundreds of small
products. So lengths and strides are symbols of the nest, whose values the program passes in a
table: products that differ in size alone share their code. Only stacks of tiny matrices have code
for their very lengths, most of whose time loops and masks would take.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ingot.compiler.forms.affine import Extent, Symbol, extent
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.graph.shape import size_of
from ingot.tuning_products import MAX_TINY_PRODUCT

__all__ = ["Numbers", "code_key", "numbers_of"]


class Numbers:
    """The symbols of a kernel, by name. With the number of axes of a stack, only its own lengths,
    strides and offset are symbols: the lengths of its matrices are compile-time constants.
    """

    def __init__(self, stack_axes: int | None = None) -> None:
        self._kept: set[str] | None = None
        if stack_axes is not None:
            axes = (f"{letter}{axis}" for letter in "sd" for axis in range(stack_axes))
            self._kept = {*axes, "tasks", "last tasks", "offset"}
        self._symbols: dict[str, Symbol] = {}
        self.are_known = True  # whether no number is symbolic

    def __call__(self, name: str, value: Number) -> Extent:
        """A number that is passed to the kernel; the same symbol for the same name."""
        if is_symbolic(value):
            self.are_known = False
            return extent(value)
        if self._kept is not None and name.split(".")[-1] not in self._kept:
            return value
        found = self._symbols.get(name)
        if found is None:
            found = self._symbols[name] = Symbol(name, value)
        assert found.size == value, f"{name} has two values"
        return found

    def stride(self, name: str, value: Number, unit: int) -> Extent:
        """A stride in bytes. Strides of adjacent elements and of broadcasts are compile-time
        constants.
        """
        return value if value in (0, unit) else self(name, value)


def numbers_of(stack: Sequence[Number], lengths: Sequence[Number]) -> Numbers:
    """The numbers of a kernel for a stack of products with lengths m, n and k."""
    if not stack or any(is_symbolic(length) for length in lengths):
        return Numbers()
    return Numbers(len(stack) if size_of(lengths) <= MAX_TINY_PRODUCT else None)


def code_key(
    builder: NestBuilder, numbers: Numbers, *parts: Hashable
) -> tuple[Hashable, ...] | None:
    """A key of everything that the code of a nest depends on: its buffers, apart from numbers that
    are passed at run time, and the builder's other decisions. None if the code may depend on more.
    """
    if not numbers.are_known:
        return None

    def known(extents: tuple[Extent, ...]) -> tuple[int | None, ...]:
        return tuple(x if isinstance(x, int) else None for x in extents)

    buffers = [
        (x.name, x.dtype.name, x.argument, known(x.shape), known(x.strides), known((x.offset,)))
        for x in builder.nest.buffers
    ]
    return (*parts, *buffers)
