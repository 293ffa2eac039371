"""Keys and values in the dtype of sums, row by row."""

from __future__ import annotations

from ingot.compiler.lower.products.attention.operands import (
    Blocks,
    KernelBuilder,
    Memory,
    Scratch,
)

__all__ = ["in_sums_dtype"]


def in_sums_dtype(scratch: Scratch, memory: Memory, blocks: Blocks) -> Memory:
    """An operand (B, heads, rows, features) whose elements are read one by one into all lanes:
    itself, or a copy that a kernel makes before where its elements have another dtype than sums or
    are not adjacent along a row.
    """
    if memory.dtype is blocks.dtype and memory.strides[-1] == memory.dtype.size:
        return memory
    copy = scratch.allocate(memory.name, blocks.dtype, memory.shape)
    builder = KernelBuilder(blocks)
    source, target = builder.view(memory), builder.view(copy)
    *outer, features = memory.shape
    with (
        builder.parallel(outer, features) as place,
        builder.loop(0, features, kind="vector") as feature,
    ):
        element = builder.wide(builder.at(source, *place, feature))
        builder.put(element, target, *place, feature)
    scratch.kernels.append(builder.kernel())
    return copy
