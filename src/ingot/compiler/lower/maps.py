"""Maps: kernels that compute every element of their domain independently."""

from __future__ import annotations

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import Point
from ingot.compiler.lower.kernel import Kernel
from ingot.compiler.lower.map_builder import MapBuilder
from ingot.compiler.lower.reductions.register_rows import MASKED_VECTOR_BYTES
from ingot.compiler.lower.reductions.row_blocks import calls_functions
from ingot.compiler.lower.streams import is_streamed, map_in_streams
from ingot.compiler.lower.tiles import crossing_axis, map_in_tiles
from ingot.graph.dtype import float32
from ingot.runtime.processor import vector_bytes
from ingot.tuning import MAP_TILE
from ingot.tuning_vectors import (
    MAX_ROW_IN_LOOP,
    MAX_ROW_WITH_MASK,
    MAX_SHORT_ROW,
    MAX_SINGLE_ELEMENTS,
    MIN_ROWS_ACROSS,
)

__all__ = ["lower_map"]


def lower_map(group: Group, strides_of: dict[Step, tuple[int, ...]]) -> Kernel:
    """The kernel of a group of maps."""
    builder = MapBuilder(group, strides_of)
    builder.nest.elementwise = True
    lengths = builder.lengths
    if not lengths:
        with builder.parallel(()):
            builder.map_element(())
    elif is_streamed(builder):
        map_in_streams(builder)
    elif len(lengths) == 1:
        builder.line()
    else:
        crossing = crossing_axis(builder)
        if crossing is not None:
            map_in_tiles(builder, crossing)
        elif _is_across(builder):
            _across_rows(builder)
        else:
            _rows(builder)
    return builder.finish()


def _rows(builder: MapBuilder) -> None:
    """Parallel loops over all axes but the last, and over tiles of the last. If that is short, the
    axis before it is a loop in the parallel iterations, too: to divide their number into indices
    takes longer than a row.
    """
    *outer, length = builder.lengths
    if len(outer) > 1 and not is_symbolic(length) and length <= MAX_ROW_IN_LOOP:
        *outer, count = outer
        with (
            builder.parallel(outer, count * length) as indices,
            builder.loop(0, count) as row,
        ):
            _row(builder, tuple(map(affine, (*indices, row))))
        if count * length > MAP_TILE:
            builder.share_loop(MAP_TILE // length)
        return
    with builder.parallel(outer, length) as indices:
        _row(builder, tuple(map(affine, indices)))
    if length > MAP_TILE:
        builder.share_loop(MAP_TILE)


def _row(builder: MapBuilder, row: Point) -> None:
    """A row as vectors. If elements are slow to compute, what remains is a masked vector."""
    length = builder.lengths[-1]
    lanes = builder.lanes(len(row))
    whole = _whole_vectors(builder, length)
    with builder.loop(0, whole, kind="vector", lanes=lanes) as last:
        builder.map_element((*row, affine(last)))
    if whole is not length:
        with builder.loop(whole, length, kind="masked", lanes=lanes) as last:
            builder.map_element((*row, affine(last)))


def _whole_vectors(builder: MapBuilder, length: Number) -> Number:
    """The elements of a row that precede a masked vector; all of them if it has none."""
    if is_symbolic(length) or length > MAX_ROW_WITH_MASK or vector_bytes() < MASKED_VECTOR_BYTES:
        return length
    widest = max(x.dtype.size for x in (*builder.reads, *builder.writes))
    lanes = vector_bytes() // max(widest, float32.size)
    whole, rest = divmod(length, lanes)
    # LLVM computes half a vector as one, and what then remains element by element
    few = rest % (lanes // 2) <= MAX_SINGLE_ELEMENTS
    if not whole or few or not calls_functions(builder):
        return length
    return whole * lanes


def _is_across(builder: MapBuilder) -> bool:
    """Whether rows are so short that vectors had better run across them."""
    *_, count, length = builder.lengths
    if is_symbolic(length) or length > MAX_SHORT_ROW:
        return False
    return bool(count >= MIN_ROWS_ACROSS) and not builder.paired


def _across_rows(builder: MapBuilder) -> None:
    """Vectors along the axis before the last, which is written out."""
    *outer, count, length = builder.lengths
    axis = len(outer)
    lanes = builder.lanes(axis)
    if not outer:
        with builder.parallel((count,), length, kind="vector", lanes=lanes) as (row,):
            builder.map_row((affine(row),), length)
        return
    with (
        builder.parallel(outer, count * length) as indices,
        builder.loop(0, count, kind="vector", lanes=lanes) as row,
    ):
        builder.map_row(tuple(map(affine, (*indices, row))), length)
    if count > MAP_TILE:
        builder.share_loop(MAP_TILE)
