"""Lookups in tables of sixteen float32, lane by lane: one permutation where the processor has it,
else a tree of selects.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from ingot.compiler.llvm.code import Code, Register, lane_count, literal
from ingot.runtime.processor import processor_features

__all__ = ["has_permutations", "lookup", "lookup_in_memory"]

_WIDTH = 16


def lookup(code: Code, index: Register, table: Sequence[float]) -> Register:
    """The table entries selected by the lowest four bits of each index."""
    assert len(table) == _WIDTH
    features = processor_features()
    lanes = lane_count(index.type)
    if lanes == 16 and "avx512f" in features:
        name = "llvm.x86.avx512.permvar.sf.512"
        return code.call("<16 x float>", name, _constants(table), index)
    if lanes == 8 and "avx512vl" in features:
        name, low, high = "llvm.x86.avx512.vpermi2var.ps.256", table[:8], table[8:]
        return code.call("<8 x float>", name, _constants(low), index, _constants(high))
    if lanes == 8 and "avx2" in features:
        halves = [
            code.call("<8 x float>", "llvm.x86.avx2.permps", _constants(half), index)
            for half in (table[:8], table[8:])
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
    values = ", ".join(str(literal("float", value)) for value in table)
    digest = crc32(values.encode())
    name = f"ingot_table_{digest:08x}"
    code.declarations[name] = (
        f"@{name} = private unnamed_addr constant [{_WIDTH} x float] [{values}], align 64"
    )
    low = code.binary("and", index, code.constant(_WIDTH - 1, index))
    at = code.convert("zext", low, "i64")
    return code.load("float", code.element("float", Register(f"@{name}", "ptr"), at))


def _bit(code: Code, index: Register, number: int) -> Register:
    """Whether a bit is set."""
    part = code.binary("and", index, code.constant(1 << number, index))
    return code.compare("icmp ne", part, code.constant(0, index))


def _constants(table: Sequence[float]) -> Register:
    inside = ", ".join(str(literal("float", value)) for value in table)
    return Register(f"<{inside}>", f"<{len(table)} x float>")


def _number(value: float, lanes: int) -> Register:
    return literal("float", value) if lanes == 1 else _constants([value] * lanes)
