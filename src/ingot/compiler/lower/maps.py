"""Maps: kernels that compute every element of their domain independently."""

from __future__ import annotations

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.data import Loop
from ingot.compiler.forms.nest.rewrites import distribute
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel
from ingot.compiler.lower.map_builder import MapBuilder
from ingot.compiler.lower.tiles import crossing_axis, map_in_tiles
from ingot.tuning import MAP_TILE
from ingot.tuning_vectors import MAX_SHORT_ROW, MIN_ROWS_ACROSS

__all__ = ["lower_map"]


def lower_map(group: Group, strides_of: dict[Step, tuple[int, ...]]) -> Kernel:
    """The kernel of a group of maps."""
    builder = MapBuilder(group, strides_of)
    builder.nest.elementwise = True
    lengths = builder.lengths
    if not lengths:
        with builder.parallel(()):
            builder.map_element(())
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
    """Parallel loops over all axes but the last, and over tiles of the last."""
    *outer, length = builder.lengths
    inner = len(outer)
    lanes = builder.lanes(inner)
    with (
        builder.parallel(outer, length) as indices,
        builder.loop(0, length, kind="vector", lanes=lanes) as last,
    ):
        builder.map_element(tuple(map(affine, (*indices, last))))
    if length > MAP_TILE:
        _distribute(builder)


def _distribute(builder: MapBuilder) -> None:
    """Lets threads share the rows."""
    (region,) = builder.nest.parallel
    (loop,) = region.body
    assert isinstance(loop, Loop)
    builder.nest = distribute(builder.nest, loop, MAP_TILE)


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
        _distribute(builder)
