"""Lifetimes: which blocks outlive a program, and the last use of the others."""

from __future__ import annotations

from ingot.compiler.forms.nests import Block, Nests

__all__ = ["ends_of", "owned_results"]


def ends_of(nests: Nests) -> dict[int, list[Block]]:
    """For each instruction, by number, the blocks of which it is the last use. What a loop computes
    in its first iteration and reads in all of them has none.
    """
    last: dict[Block, int] = {}
    kept = {block for each in nests.instructions[: nests.invariant] for block in each.writes}
    for number, each in enumerate(nests.instructions):
        for block in (*each.reads, *each.writes):
            if block not in kept:
                last[block] = number
    ends: dict[int, list[Block]] = {}
    for block, number in last.items():
        ends.setdefault(number, []).append(block)
    return ends


def owned_results(nests: Nests) -> list[Block]:
    """The results of kernels and products that outlive the program because they hold an output, in
    the order of the outputs.
    """
    found = dict.fromkeys(location.block for location in nests.outputs)
    return [block for block in found if block.kind == "result"]
