"""Kept blocks: scratch memory that holds the same in all runs of a program with the same array.

Operands of products are packed, converted or padded in scratch memory. Where all of a block is
computed from one input or constant, a later run with the same array needs to compute nothing: such
blocks get slots of their own, which the native program keeps together with what it knows of the
array (`_native/programs/kept_panels.c`).
"""

from __future__ import annotations

from ingot.compiler.forms.nest.data import Nest
from ingot.compiler.forms.nest.traversal import touched
from ingot.compiler.forms.nests import Block, Nests, RunKernel
from ingot.compiler.forms.plan import Kept
from ingot.tuning_products import MAX_KEPT_PANEL_BYTES, MIN_KEPT_PANEL_BYTES

__all__ = ["kept_blocks"]


def kept_blocks(nests: Nests) -> dict[Block, Kept]:
    """The blocks of scratch memory that are computed from one input or constant each."""
    given = {*nests.inputs, *nests.constants}
    sources: dict[Block, set[Block]] = {}  # what a block of scratch memory is computed from
    writers: dict[Block, list[int]] = {}
    written: dict[Nest, list[int]] = {}  # layers that are alike share their nests
    for number, each in enumerate(nests.instructions):
        if not isinstance(each, RunKernel):
            continue
        for block in _scratch_written(each, written):
            others = {other.block for other in each.operands} - {block}
            sources.setdefault(block, set()).update(others)
            writers.setdefault(block, []).append(number)
    return {
        block: Kept(source, tuple(writers[block]))
        for block, found in sources.items()
        if len(found) == 1
        and (source := next(iter(found))) in given
        and MIN_KEPT_PANEL_BYTES <= block.nbytes <= MAX_KEPT_PANEL_BYTES
    }


def _scratch_written(each: RunKernel, known: dict[Nest, list[int]]) -> set[Block]:
    """The blocks of scratch memory that a kernel writes. Arguments that nests write are kept in
    `known`.
    """
    if not any(location.block.kind == "scratch" for location in each.operands):
        return set()
    nest = each.kernel.nest
    if nest not in known:
        known[nest] = [x.argument for x in touched(nest)[1] if x.argument is not None]
    blocks = {each.operands[argument].block for argument in known[nest]}
    return {block for block in blocks if block.kind == "scratch"}
