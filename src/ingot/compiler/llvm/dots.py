"""Dot products of packed numbers, accumulated lane by lane: one instruction where the processor has
it, else an equivalent sequence.
"""

from __future__ import annotations

from ingot.compiler.llvm.code import Code, Register, lane_count, like_lanes
from ingot.runtime.processor import processor_features

__all__ = ["bfloat16", "bytes"]

_BITS = {16: 512, 8: 256, 4: 128}  # vector bits by number of words


def bfloat16(code: Code, total: Register, a: Register, b: Register) -> Register:
    """total + a[0] * b[0] + a[1] * b[1] of the two bfloat16 in each word."""
    lanes = lane_count(a.type)
    if lanes in _BITS and "avx512_bf16" in processor_features():
        halves = f"<{2 * lanes} x bfloat>"
        left, right = (code.convert("bitcast", x, halves) for x in (a, b))
        name = f"llvm.x86.avx512bf16.dpbf16ps.{_BITS[lanes]}"
        return code.call(total.type, name, total, left, right)
    shift, upper = code.constant(16, a), code.constant(-0x10000, a)
    type = like_lanes("float", a.type)
    low = [code.convert("bitcast", code.binary("shl", x, shift), type) for x in (a, b)]
    high = [code.convert("bitcast", code.binary("and", x, upper), type) for x in (a, b)]
    return code.intrinsic("fma", *low, code.intrinsic("fma", *high, total))


def bytes(code: Code, total: Register, a: Register, b: Register) -> Register:
    """total + the products of the four bytes in each word, unsigned in a and signed in b."""
    lanes = lane_count(a.type)
    if lanes in _BITS and "avx512_vnni" in processor_features():
        name = f"llvm.x86.avx512.vpdpbusd.{_BITS[lanes]}"
        return code.call(total.type, name, total, a, b)
    if lanes == 8 and "avx2" in processor_features():
        return _bytes_of_halves(code, total, a, b)
    for position in range(4):
        up = code.constant(8 * (3 - position), a)
        down = code.constant(24, a)
        left = code.binary("lshr", code.binary("shl", a, up), down)
        right = code.binary("ashr", code.binary("shl", b, up), down)
        total = code.binary("add", total, code.binary("mul", left, right))
    return total


def _bytes_of_halves(code: Code, total: Register, a: Register, b: Register) -> Register:
    """The same by 16-bit products, of even and of odd bytes."""
    halves = "<16 x i16>"
    unsigned, signed = (code.convert("bitcast", x, halves) for x in (a, b))
    eight = code.constant(8, unsigned)
    even = code.binary("and", unsigned, code.constant(255, unsigned))
    pairs = (
        (even, code.binary("ashr", code.binary("shl", signed, eight), eight)),
        (code.binary("lshr", unsigned, eight), code.binary("ashr", signed, eight)),
    )
    for left, right in pairs:
        found = code.call(total.type, "llvm.x86.avx2.pmadd.wd", left, right)
        total = code.binary("add", total, found)
    return total
