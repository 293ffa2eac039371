"""Columns apart: reductions along columns of what a group writes become groups of their own.

To keep the order of summation, a reduction along columns combines rows that are 32 apart. A group
that also writes a value for each element would therefore write many rows at a time, whose addresses
often differ by multiples of a page, and so compete for the same sets of L1. Reading the value once
more is faster: the gradient of a bias is a sum of a value that a product needs as well. What is
left of the group, which are maps, may become the epilogue of a product.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.graph.roles import Map, Reduce
from ingot.tuning import MIN_APART_BYTES

__all__ = ["columns_apart"]


def columns_apart(groups: list[Group]) -> list[Group]:
    """The groups, each that writes what it reduces along columns as two."""
    found: list[Group] = []
    for group in groups:
        found += _apart(group)
    return found


def _apart(group: Group) -> list[Group]:
    """The maps of a group, and its reductions; just the group unless its reductions run along
    columns and read only values that it writes.
    """
    if group.kind != "fused" or not group.reduced or len(group.domain) - 1 in group.reduced:
        return [group]
    reducing = _reducing(group)
    reads = dict.fromkeys(x for step in reducing for x in step.inputs if x not in reducing)
    if not reads.keys() <= set(group.outputs):
        return [group]
    if any(source.nbytes < MIN_APART_BYTES for source in reads):
        return [group]
    maps = [step for step in group.steps if step not in reducing]
    inside = set(maps)
    inputs = dict.fromkeys(x for step in maps for x in step.inputs if x not in inside)
    written = [[x for x in group.outputs if (x in inside) is is_map] for is_map in (True, False)]
    rest = [step for step in group.steps if step in reducing]
    return [
        replace(group, steps=maps, inputs=list(inputs), outputs=written[0], reduced=None),
        replace(group, steps=rest, inputs=list(reads), outputs=written[1]),
    ]


def _reducing(group: Group) -> set[Step]:
    """The reductions of a group, what depends on them, and upcasts that only they read."""
    found: set[Step] = set()
    for step in group.steps:
        if isinstance(step.op, Reduce) or not found.isdisjoint(step.inputs):
            found.add(step)
    elsewhere = {x for step in group.steps if step not in found for x in step.inputs}
    kept = {*elsewhere, *group.outputs}
    for step in group.steps:
        is_upcast = isinstance(step.op, Map) and step.op.upcasts(*step.inputs)
        if is_upcast and step not in kept:
            found.add(step)
    return found
