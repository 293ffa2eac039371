"""Maps: kernels that compute every element of their domain independently."""

from __future__ import annotations

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.data import Loop
from ingot.compiler.forms.nest.rewrites import distribute
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel
from ingot.compiler.lower.map_builder import MapBuilder
from ingot.compiler.lower.tiles import crossing_axis, map_in_tiles
from ingot.tuning import MAP_TILE

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
        (region,) = builder.nest.parallel
        (loop,) = region.body
        assert isinstance(loop, Loop)
        builder.nest = distribute(builder.nest, loop, MAP_TILE)
