"""Maps of arrays that exceed the caches, in vectors that are stored past them.

An ordinary store reads the cache line that it is about to overwrite, a third of what a large map
moves between memory and processor. LLVM makes no vectors of loops with non-temporal stores, so
these nests are written in vectors, several at a time.
"""

from __future__ import annotations

import math

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.lower.domain import Operand, is_immediate
from ingot.compiler.lower.group import Known, Point
from ingot.compiler.lower.map_builder import MapBuilder
from ingot.compiler.lower.reductions.row_blocks import calls_functions
from ingot.graph.dtype import bfloat16, bool_, float16, float32, float64, int32, uint32
from ingot.runtime.processor import cache_sizes, machine, vector_bytes, vector_registers
from ingot.tuning import MAP_TILE
from ingot.tuning_vectors import STREAMED_VECTORS

__all__ = ["is_streamed", "map_in_streams"]

LINE = 64  # bytes of the cache
MIN_CACHE_BYTES = 1 << 20  # of the last cache of any processor: spares asking for it
MIN_VECTOR_BYTES = 32
FEW_REGISTERS = 16
HALVES = {float16, bfloat16}
NUMBERS = {float32, int32, uint32, float64}


def is_streamed(builder: MapBuilder) -> bool:
    """Whether results exceed the caches, and consist of whole cache lines of adjacent numbers."""
    lengths = builder.lengths
    if any(map(is_symbolic, lengths)):
        return False
    written = sum(x.dtype.size for x in builder.writes) * math.prod(lengths)
    if written < MIN_CACHE_BYTES:
        return False
    if machine() != "x86_64" or vector_bytes() < MIN_VECTOR_BYTES or written <= cache_sizes()[1]:
        return False
    block = _block_length(builder)
    if lengths[-1] < block or (len(lengths) > 1 and lengths[-1] % block):
        return False
    in_rows = all(x.strides[-1] in (0, x.dtype.size) for x in builder.reads)
    return in_rows and all(map(_is_in_lines, builder.writes)) and _is_in_lanes(builder)


def _block_length(builder: MapBuilder) -> int:
    """The elements that are computed together."""
    widest = max(x.dtype.size for x in (*builder.reads, *builder.writes))
    return STREAMED_VECTORS * vector_bytes() // max(widest, float32.size)


def _is_in_lines(operand: Operand) -> bool:
    """Whether all rows of a result begin at a multiple of a line from the first element."""
    *outer, last = operand.strides
    return last == operand.dtype.size and not any(x % LINE for x in (*outer, operand.offset))


def _is_in_lanes(builder: MapBuilder) -> bool:
    """Whether all words apply to vectors: bools in memory and constants differ from those in
    registers, a float64 is rounded to half types element by element, and functions of float64 read
    tables so. Functions of half types, which wait for roundings, and those in few registers leave
    time for memory, but need the order of instructions that LLVM finds.
    """
    if builder.paired or builder.iotas or builder.gathers:
        return False
    group = builder.group
    in_memory = {x.dtype for x in (*builder.reads, *builder.writes)}
    constants = {step.dtype for step in group.inputs if is_immediate(step)}
    kinds = {step.dtype for step in (*group.steps, *group.inputs)}
    if bool_ in in_memory | constants or not kinds <= {*NUMBERS, *HALVES, bool_}:
        return False
    if kinds & HALVES and float64 in kinds:
        return False
    is_waiting = bool(kinds & HALVES) or vector_registers() <= FEW_REGISTERS
    return not ((is_waiting or float64 in kinds) and calls_functions(builder))


def map_in_streams(builder: MapBuilder) -> None:
    """Builds a map in blocks, of which the last of a single row may have lanes without elements."""
    *outer, length = builder.lengths
    block = _block_length(builder)
    if outer:
        with (
            builder.parallel(outer, length) as indices,
            builder.loop(0, length // block) as number,
        ):
            _map_block(builder, (*map(affine, indices), affine(number) * block), block)
        if length > MAP_TILE:
            builder.share_loop(MAP_TILE // block)
        return
    count, rest = divmod(length, block)
    with builder.parallel((count,), block) as (number,):
        _map_block(builder, (affine(number) * block,), block)
    if rest:
        with builder.parallel((1,), rest) as (number,):
            _map_block(builder, (affine(number) + count * block,), block, length)


def _map_block(builder: MapBuilder, point: Point, lanes: int, end: int | None = None) -> None:
    """The elements of a block, up to an end."""
    known: Known = {}
    for operand in builder.reads:
        if operand.strides[-1]:
            memory = builder.read_of[operand.step]
            index = memory.index(point)
            known[operand.step] = builder.load_lanes(memory.buffer, index, lanes, end)
    builder.compute(builder.group.steps, known, point)
    for step, memory in builder.write_of.items():
        value = builder.in_lanes(known[step], lanes)
        builder.store(value, memory.buffer, memory.index(point), end, nontemporal=end is None)
