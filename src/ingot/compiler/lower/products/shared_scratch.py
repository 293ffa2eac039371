"""Shared scratch memory: what several products prepare alike is prepared once.

Input: the instructions of a program. Output: the same without kernels that would fill scratch
memory as earlier ones did, such as those that pack the left operand of two products for each of
them; what followed these reads the memory of the first product instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from ingot.compiler.forms.nest.data import Nest
from ingot.compiler.forms.nest.traversal import touched
from ingot.compiler.forms.nests import Block, Instruction, RunKernel
from ingot.tuning_products import MAX_SHARED_DISTANCE

__all__ = ["with_shared_scratch"]


@dataclass
class _Contents:
    """How a block of scratch memory is filled: a key for each kernel that does, in order; None if
    one of them writes anything else as well, or runs after the block was read.
    """

    keys: list[Hashable] | None = field(default_factory=list)
    writers: list[int] = field(default_factory=list)
    is_read: bool = False
    last_use: int = 0


def with_shared_scratch(instructions: Sequence[Instruction]) -> list[Instruction]:
    """The instructions without those that fill scratch memory like earlier ones, as long as it was
    used at most MAX_SHARED_DISTANCE instructions before: it is not available in between.
    """
    contents = _scratch_contents(instructions)
    if len(contents) < 2:
        return list(instructions)
    first: dict[Hashable, Block] = {}
    instead: dict[Block, Block] = {}
    unneeded: set[int] = set()
    for block, found in contents.items():
        if not found.keys:
            continue
        key = (block.nbytes, *found.keys)
        earlier = first.setdefault(key, block)
        if earlier is block:
            continue
        if found.writers[0] - contents[earlier].last_use > MAX_SHARED_DISTANCE:
            first[key] = block
            continue
        instead[block] = earlier
        unneeded.update(found.writers)
        contents[earlier].last_use = max(contents[earlier].last_use, found.last_use)
    return [
        _reading(each, instead)
        for number, each in enumerate(instructions)
        if number not in unneeded
    ]


def _scratch_contents(instructions: Sequence[Instruction]) -> dict[Block, _Contents]:
    """How each block of scratch memory is filled, in the order of first use."""
    found: dict[Block, _Contents] = {}
    written: dict[Nest, list[int]] = {}
    for number, each in enumerate(instructions):
        if not isinstance(each, RunKernel):
            continue
        scratch = {x.block for x in each.operands if x.block.kind == "scratch"}
        if not scratch:
            continue
        targets = _blocks_written(each, written)
        for block in scratch:
            contents = found.setdefault(block, _Contents())
            contents.last_use = number
            if block not in targets:
                contents.is_read = True
                continue
            contents.writers.append(number)
            if targets != {block} or contents.is_read:
                contents.keys = None
            elif contents.keys is not None:
                contents.keys.append(_key(each, block))
    return found


def _blocks_written(each: RunKernel, known: dict[Nest, list[int]]) -> set[Block]:
    """The blocks that a kernel writes. The arguments that nests write are kept in `known`."""
    nest = each.kernel.nest
    if nest not in known:
        known[nest] = [x.argument for x in touched(nest)[1] if x.argument is not None]
    return {each.operands[argument].block for argument in known[nest]}


def _key(each: RunKernel, target: Block) -> Hashable:
    """Equal for kernels that write the same to their scratch memory `target`."""
    kernel = each.kernel
    code: Hashable = kernel.nest
    if kernel.code_key is not None:
        code = (kernel.code_key, *((x.name, x.size) for x in kernel.nest.symbols))
    operands = [x._replace(block=None) if x.block is target else x for x in each.operands]  # type: ignore[arg-type]
    return (code, *operands)


def _reading(each: Instruction, instead: dict[Block, Block]) -> Instruction:
    """An instruction that reads other scratch memory."""
    if not isinstance(each, RunKernel) or not any(x.block in instead for x in each.operands):
        return each
    operands = [x._replace(block=instead.get(x.block, x.block)) for x in each.operands]
    return RunKernel(each.kernel, each.steps, tuple(operands), each.written, each.replaceable)
