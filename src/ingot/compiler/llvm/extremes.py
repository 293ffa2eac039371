"""The maximum and minimum of two floating-point numbers with -0 < +0.

On AVX-512, LLVM expands its own intrinsic to six instructions. The `range` instruction orders
zeros, but prefers numbers to NaN, which takes two more instructions.
"""

from __future__ import annotations

from ingot.compiler.llvm.code import Code, Register, lane_count, lane_type, literal
from ingot.runtime.processor import processor_features

__all__ = ["extreme"]

_MAXIMUM, _MINIMUM = 5, 4  # with the sign of the chosen operand
_NO_EXCEPTIONS = 4


def extreme(code: Code, is_maximum: bool, a: Register, b: Register) -> Register:
    """The maximum or minimum of two numbers, or lane by lane of two vectors: -0 is less than +0,
    and NaN propagates.
    """
    lanes, type = lane_count(a.type), lane_type(a.type)
    whole = {"float": 16, "double": 8}[type]
    if lanes % whole or "avx512dq" not in processor_features():
        return code.intrinsic("maximum" if is_maximum else "minimum", a, b)
    found = [
        _vector(code, is_maximum, *(_lanes_from(code, x, first, whole) for x in (a, b)))
        for first in range(0, lanes, whole)
    ]
    while len(found) > 1:
        found = [_joined(code, *found[at : at + 2]) for at in range(0, len(found), 2)]
    return found[0]


def _vector(code: Code, is_maximum: bool, a: Register, b: Register) -> Register:
    """The result for vectors of 512 bits."""
    suffix, mask = ("ps", "i16") if "float" in a.type else ("pd", "i8")
    name = f"llvm.x86.avx512.mask.range.{suffix}.512"
    which = literal("i32", _MAXIMUM if is_maximum else _MINIMUM)
    found = code.call(
        a.type, name, a, b, which, a, literal(mask, -1), literal("i32", _NO_EXCEPTIONS)
    )
    is_nan = code.compare("fcmp uno", a, b)
    return code.select(is_nan, code.binary("fadd", a, b), found)


def _lanes_from(code: Code, x: Register, first: int, count: int) -> Register:
    if lane_count(x.type) == count:
        return x
    numbers = ", ".join(f"i32 {lane}" for lane in range(first, first + count))
    return code.assign(
        f"<{count} x {lane_type(x.type)}>",
        f"shufflevector {x}, {x.type} poison, <{count} x i32> <{numbers}>",
    )


def _joined(code: Code, a: Register, b: Register) -> Register:
    count = 2 * lane_count(a.type)
    numbers = ", ".join(f"i32 {lane}" for lane in range(count))
    return code.assign(
        f"<{count} x {lane_type(a.type)}>", f"shufflevector {a}, {b}, <{count} x i32> <{numbers}>"
    )
