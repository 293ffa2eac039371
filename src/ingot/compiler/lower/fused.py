"""Chooses the loop nest of a fused group.

A map computes each element independently. Scans have nests of their own. Groups with reductions are
processed row by row; what depends on the results of a row takes a second pass over it while it is
still in cache. Few long rows are split into partial reductions that a second kernel combines.
Reductions along other axes than the last, and those that would read memory with a long stride,
process a tile of columns side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import operands_of, reads_rows_again
from ingot.compiler.lower.group import GroupBuilder
from ingot.compiler.lower.kernel import Lowered
from ingot.compiler.lower.maps import lower_map
from ingot.compiler.lower.tiles import crosses
from ingot.compiler.passes.fuse import runs_by_rows
from ingot.graph.deferred import Deferred
from ingot.tuning import L1_BYTES

if TYPE_CHECKING:
    from ingot.compiler.lower.reductions import partial, row_tiles, rows, scans
else:
    partial = Deferred("ingot.compiler.lower.reductions.partial")
    row_tiles = Deferred("ingot.compiler.lower.reductions.row_tiles")
    rows = Deferred("ingot.compiler.lower.reductions.rows")
    scans = Deferred("ingot.compiler.lower.reductions.scans")

__all__ = ["lower_group", "read_across"]


def lower_group(group: Group, strides_of: dict[Step, tuple[int, ...]]) -> Lowered:
    """The kernels of a fused group whose operands have these strides."""
    if group.scanned is not None:
        return scans.lower_scans(group, strides_of)
    if not group.reduced:
        return Lowered([lower_map(group, strides_of)])
    if _operands_across(group, strides_of):
        across = partial.Across(group, strides_of)
        blocks = across.builder()
        if blocks is not None:
            return across.lowered(blocks)
    builder = GroupBuilder(group, strides_of)
    domain = builder.domain
    if _runs_by_rows(builder):
        return Lowered([rows.lower_rows(builder)])
    if domain.kept and domain.kept[-1] == len(domain.lengths) - 1:
        return partial.columns(builder, strides_of)
    return partial.split(builder, strides_of)


def _runs_by_rows(builder: GroupBuilder) -> bool:
    domain = builder.domain
    return reads_rows_again(builder.group) or runs_by_rows(domain.lengths, domain.reduced)


def read_across(group: Group, strides_of: dict[Step, tuple[int, ...]]) -> list[Step]:
    """The inputs that the reductions of a group would read with a long stride, whichever order of
    axes they choose, and that are too large for L1: copying them first is faster.
    """
    if not group.reduced:
        return []
    found = _operands_across(group, strides_of)
    if not found or partial.Across(group, strides_of).builder() is not None:
        return []
    builder = GroupBuilder(group, strides_of)
    if not _runs_by_rows(builder):
        return found
    tiles = row_tiles.row_tiles(builder)
    in_tiles = {operand.step for operand in tiles.operands} if tiles else set()
    return [step for step in found if step not in in_tiles]


def _operands_across(group: Group, strides_of: dict[Step, tuple[int, ...]]) -> list[Step]:
    """The operands that rows or columns read with a long stride, and that do not fit into L1."""
    domain, operands = operands_of(group, strides_of)
    inner = len(domain.lengths) - 1
    return [
        operand.step
        for operand in operands.reads
        if all(operand.strides)
        and any(crosses(operand, axis, inner) for axis in range(inner))
        and operand.step.nbytes > L1_BYTES
        and operand.step not in (gathered.step for gathered in operands.gathers.values())
    ]
