"""Loop metadata and loop-carried values of nests."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.compiler.forms.nest.data import (
    Apart,
    Body,
    CopyBlock,
    Loop,
    Mask,
    Parallel,
    Store,
    When,
)
from ingot.compiler.forms.nest.traversal import statements
from ingot.compiler.llvm.code import (
    ALONE,
    MASKED,
    NO_UNROLLING,
    WRITTEN_OUT,
    Code,
    Register,
    literal,
)
from ingot.compiler.llvm.conversions import Element
from ingot.tuning_vectors import MIN_INTERLEAVED_LENGTH, MIN_VECTORISED_LENGTH

__all__ = [
    "few_iterations",
    "flat",
    "interleaved",
    "loop_hints",
    "runs_once",
    "unflat",
    "unknown",
    "writes_stack",
]

WIDEST_TILE = 64  # columns of a product's tile that are four vectors of float32
EVEN_VECTORS = 32  # lanes that are an even number of vectors of float32 and wider types
MOST_VECTORS = 8


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


def interleaved(loop: Loop | Parallel) -> range:
    """How many vectors of a loop that LLVM vectorises may be computed at a time, because it is
    known to fill many, so that iterations that are left over matter little, or exactly some.
    """
    many = range(1, MOST_VECTORS + 1)
    if isinstance(loop, Parallel):
        size = math.prod(x for x in loop.lengths if isinstance(x, int))
        return many if size >= MIN_INTERLEAVED_LENGTH else ALONE
    begin, end = loop.begin, loop.ends[0]
    if begin.terms or end.terms:
        return ALONE
    length = end.constant - begin.constant
    if len(loop.ends) > 1:  # it ends earlier in the last tile only
        return range(4, 5) if loop.kind == "vector" and length == WIDEST_TILE else ALONE
    if loop.kind == "lanes":
        return range(1, 3) if length % EVEN_VECTORS == 0 else ALONE
    return many if length >= MIN_INTERLEAVED_LENGTH else ALONE


def runs_once(loop: Loop) -> bool:
    """Whether a loop that LLVM does not vectorise is known to have at most one iteration."""
    if loop.kind != "for" or loop.begin.terms or any(end.terms for end in loop.ends):
        return False
    return min(end.constant for end in loop.ends) <= loop.begin.constant + loop.step


def few_iterations(loop: Parallel) -> int:
    """The number of iterations of a parallel loop, if it is known to be small; 0 otherwise, and if
    it copies blocks, which LLVM cannot do in vectors across iterations.
    """
    if not all(isinstance(x, int) for x in loop.lengths):
        return 0
    if any(isinstance(each, CopyBlock) for each in statements(loop.body)):
        return 0
    size = math.prod(x for x in loop.lengths if isinstance(x, int))
    return size if size < MIN_VECTORISED_LENGTH else 0


def unknown(code: Code, end: Register) -> Register:
    """The end of a mask, whose value LLVM does not know.

    Of the conditions `lane < 1` and `lane < 31` of 32 lanes, it concludes which lane differs from
    the others and takes that one out of the loop, whose rest it no longer vectorises. No range of
    iterations begins at 2 ** 62 or above, so what is added is 0.
    """
    if not end.name.isdigit():
        return end
    zero = code.binary("lshr", Register("%begin", "i64"), literal("i64", 62))
    return code.binary("add", end, zero)
