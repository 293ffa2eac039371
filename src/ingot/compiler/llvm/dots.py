"""Dot products of packed numbers, accumulated lane by lane: one instruction where the processor has
it, else an equivalent sequence.
"""

from __future__ import annotations

from ingot.compiler.llvm.code import Code, Register, lane_count, like_lanes
from ingot.runtime.processor import processor_features

__all__ = ["add_pairs", "bfloat16", "bytes", "pairs"]

_BITS = {16: 512, 8: 256, 4: 128}  # vector bits by number of words
# Sums of products of two bytes, and of two halves, by number of words: instructions of SSSE3 and
# AVX2.
_PAIRS = {8: "llvm.x86.avx2.pmadd.ub.sw", 4: "llvm.x86.ssse3.pmadd.ub.sw.128"}
_HALVES = {8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}


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
        total = code.binary("add", total, _product(code, a, b, position))
    return total


def _product(code: Code, a: Register, b: Register, position: int) -> Register:
    """The product of one byte of each word."""
    up, down = code.constant(8 * (3 - position), a), code.constant(24, a)
    left = code.binary("lshr", code.binary("shl", a, up), down)
    return code.binary("mul", left, code.binary("ashr", code.binary("shl", b, up), down))


def _bytes_of_halves(code: Code, total: Register, a: Register, b: Register) -> Register:
    """The same by 16-bit products, of even and of odd bytes."""
    for left, right in zip(_even_odd(code, a, "lshr"), _even_odd(code, b, "ashr"), strict=True):
        found = code.call(total.type, _HALVES[8], left, right)
        total = code.binary("add", total, found)
    return total


def _even_odd(code: Code, x: Register, shift: str) -> tuple[Register, Register]:
    """The even and the odd bytes of words as 16-bit halves: with the shift `lshr` of unsigned
    bytes, with `ashr` of signed ones.
    """
    halves = code.convert("bitcast", x, f"<{2 * lane_count(x.type)} x i16>")
    eight = code.constant(8, halves)
    return code.binary(shift, code.binary("shl", halves, eight), eight), code.binary(
        shift, halves, eight
    )


def _has_pairs(lanes: int) -> bool:
    """Whether there are instructions for pairs of so many words."""
    return lanes in _PAIRS and ("avx2" if lanes == 8 else "ssse3") in processor_features()


def pairs(code: Code, total: Register, a: Register, b: Register) -> Register:
    """total + the products of the two bytes in each half of a word, unsigned in a and signed in b,
    half by half: no sum may exceed 16 bits.
    """
    lanes = lane_count(a.type)
    if _has_pairs(lanes):
        halves, bytes_type = f"<{2 * lanes} x i16>", f"<{4 * lanes} x i8>"
        before = code.convert("bitcast", total, halves)
        left, right = (code.convert("bitcast", x, bytes_type) for x in (a, b))
        found = code.binary("add", before, code.call(halves, _PAIRS[lanes], left, right))
        return code.convert("bitcast", found, total.type)
    half = code.constant(16, total)
    low, high = total, code.binary("lshr", total, half)
    for position in range(2):
        low = code.binary("add", low, _product(code, a, b, position))
        high = code.binary("add", high, _product(code, a, b, 2 + position))
    low = code.binary("and", low, code.constant(0xFFFF, low))
    return code.binary("or", low, code.binary("shl", high, half))


def add_pairs(code: Code, total: Register, pairs: Register) -> Register:
    """total + both halves of each word, which are signed."""
    lanes = lane_count(pairs.type)
    if _has_pairs(lanes):
        halves = code.convert("bitcast", pairs, f"<{2 * lanes} x i16>")
        found = code.call(total.type, _HALVES[lanes], halves, code.constant(1, halves))
        return code.binary("add", total, found)
    half = code.constant(16, pairs)
    low = code.binary("ashr", code.binary("shl", pairs, half), half)
    return code.binary("add", total, code.binary("add", low, code.binary("ashr", pairs, half)))
