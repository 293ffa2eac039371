"""Lookups in tables of sixteen float32, lane by lane: one permutation where the processor has it,
else a tree of selects.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from ingot.compiler.llvm.code import Code, Register, lane_count, lane_type, literal
from ingot.runtime.processor import processor_features

__all__ = ["has_permutations", "lookup", "lookup_in_memory"]

_WIDTH = 16


def lookup(code: Code, index: Register, table: Sequence[float]) -> Register:
    """The table entries selected by the lowest four bits of each index."""
    assert len(table) == _WIDTH
    features = processor_features()
    lanes = lane_count(index.type)
    if lanes > _WIDTH and "avx512f" in features:
        low, high = (lookup(code, each, table) for each in _halves(code, index))
        return _joined(code, low, high)
    if lanes == 16 and "avx512f" in features:
        name = "llvm.x86.avx512.permvar.sf.512"
        return code.call("<16 x float>", name, _constants(_texts(tuple(table))), index)
    if lanes == 8 and "avx512vl" in features:
        name, texts = "llvm.x86.avx512.vpermi2var.ps.256", _texts(tuple(table))
        low, high = _constants(texts[:8]), _constants(texts[8:])
        return code.call("<8 x float>", name, low, index, high)
    if lanes == 8 and "avx2" in features:
        texts = _texts(tuple(table))
        halves = [
            code.call("<8 x float>", "llvm.x86.avx2.permps", _constants(half), index)
            for half in (texts[:8], texts[8:])
        ]
        return code.select(_bit(code, index, 3), halves[1], halves[0])
    found = [_number(value, lanes) for value in table]
    for bit in range(4):
        is_set = _bit(code, index, bit)
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [code.select(is_set, odd, even) for even, odd in pairs]
    return found[0]


def has_permutations() -> bool:
    """Whether lookups in vectors of 8 and 16 lanes are single instructions."""
    return {"avx512f", "avx512vl"} <= processor_features()


def lookup_in_memory(code: Code, index: Register, table: Sequence[float]) -> Register:
    """The same for a single index, from a table in memory."""
    values = ", ".join(_texts(tuple(table)))
    digest = crc32(values.encode())
    name = f"ingot_table_{digest:08x}"
    code.declarations[name] = (
        f"@{name} = private unnamed_addr constant [{_WIDTH} x float] [{values}], align 64"
    )
    low = code.binary("and", index, code.constant(_WIDTH - 1, index))
    at = code.convert("zext", low, "i64")
    return code.load("float", code.element("float", Register(f"@{name}", "ptr"), at))


def _halves(code: Code, x: Register) -> list[Register]:
    """The lower and the upper lanes of a vector."""
    lanes = lane_count(x.type) // 2
    return [_shuffled(code, x, x, range(first, first + lanes)) for first in (0, lanes)]


def _joined(code: Code, low: Register, high: Register) -> Register:
    """The lanes of two vectors in one."""
    return _shuffled(code, low, high, range(2 * lane_count(low.type)))


def _shuffled(code: Code, a: Register, b: Register, lanes: range) -> Register:
    picks = ", ".join(f"i32 {lane}" for lane in lanes)
    type = f"<{len(lanes)} x {lane_type(a.type)}>"
    return code.assign(type, f"shufflevector {a}, {b}, <{len(lanes)} x i32> <{picks}>")


def _bit(code: Code, index: Register, number: int) -> Register:
    """Whether a bit is set."""
    part = code.binary("and", index, code.constant(1 << number, index))
    return code.compare("icmp ne", part, code.constant(0, index))


@lru_cache(maxsize=256)
def _texts(table: tuple[float, ...]) -> tuple[str, ...]:
    """The numbers of a table in LLVM's notation, rounded to float32: all at once, because the
    tables of a function are most of its text, and each is in several variants of it.
    """
    bits = np.array(table, np.float32).astype(np.float64).view(np.uint64)
    return tuple([f"float 0x{each:016X}" for each in bits.tolist()])


def _constants(texts: Sequence[str]) -> Register:
    return Register(f"<{', '.join(texts)}>", f"<{len(texts)} x float>")


def _number(value: float, lanes: int) -> Register:
    return literal("float", value) if lanes == 1 else _constants(_texts((value,)) * lanes)
