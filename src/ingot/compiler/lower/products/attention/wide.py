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
    """An operand (B, heads, rows, features) whose elements are broadcast one by one: itself, or a
    copy made by an earlier kernel if its dtype is not that of sums or its rows are not contiguous.
    """
    if memory.dtype is blocks.dtype and memory.strides[-1] == memory.dtype.size:
        return memory
    copy = scratch.allocate(memory.name, blocks.dtype, memory.shape)
    builder = KernelBuilder(blocks)
    source, target = builder.view(memory), builder.view(copy)
    *outer, features = memory.shape
    with (
        builder.parallel(outer, features) as outer_index,
        builder.loop(0, features, kind="vector") as feature,
    ):
        element = builder.wide(builder.at(source, *outer_index, feature))
        builder.put(element, target, *outer_index, feature)
    scratch.kernels.append(builder.kernel())
    return copy
