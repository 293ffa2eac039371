"""Loop metadata and loop-carried values of nests."""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.nest.data import Apart, Body, CopyBlock, Loop, Mask, Store, When
from ingot.compiler.llvm.code import MASKED, NO_UNROLLING, WRITTEN_OUT, Register
from ingot.compiler.llvm.conversions import Element

__all__ = ["flat", "loop_hints", "unflat", "writes_stack"]


def writes_stack(body: Body) -> bool:
    for statement in body:
        if isinstance(statement, Store) and statement.buffer.argument is None:
            return True
        if isinstance(statement, CopyBlock):
            return True
        if isinstance(statement, (Loop, When, Mask, Apart)) and writes_stack(statement.body):
            return True
    return False


def flat(elements: Sequence[Element]) -> list[Register]:
    """All registers of some elements, as loop-carried values."""
    registers = []
    for element in elements:
        registers.append(element.register)
        if element.imaginary is not None:
            registers.append(element.imaginary)
    return registers


def unflat(registers: Sequence[Register], like: Sequence[Element]) -> list[Element]:
    """The inverse of `flat`."""
    remaining = iter(registers)
    return [
        Element(next(remaining), x.dtype, None if x.imaginary is None else next(remaining))
        for x in like
    ]


def loop_hints(loop: Loop) -> Sequence[str]:
    """The metadata of a loop."""
    if loop.kind == "lanes":
        return WRITTEN_OUT
    if loop.kind == "masked":
        return (MASKED,)
    if loop.copies == 1:
        return (NO_UNROLLING,)
    return (f'!"llvm.loop.unroll.count", i32 {loop.copies}',) if loop.copies else ()
