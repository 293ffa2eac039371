"""How parameters are cut into shards, one for each process of a group.

If the length of an axis is not a multiple of the number of processes, the first ones get an extra
row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ingot.core as mx
from ingot.utils import tree_map_with_path

__all__ = ["Sharding", "bounds_of", "shard_length", "sharded"]

Group = mx.distributed.Group
Sharding = Callable[[str, mx.array], Any]


def bounds_of(length: int, count: int) -> list[int]:
    """Where the shards of an axis begin, and its end."""
    short, longer = divmod(length, count)
    return [number * short + min(number, longer) for number in range(count + 1)]


def shard_length(length: int, group: Group) -> int:
    begin, end = bounds_of(length, group.size())[group.rank() :][:2]
    return end - begin


def _segments(weight: mx.array, segments: int | Sequence[Any], axis: int) -> list[mx.array]:
    """The stacked matrices of a weight: a number of equal ones, or where they are cut, in rows or
    in fractions of the length.
    """
    if isinstance(segments, int):
        return mx.split(weight, segments, axis=axis)
    length = weight.shape[axis]
    cuts = [cut if isinstance(cut, int) else int(cut * length) for cut in segments]
    return mx.split(weight, cuts, axis=axis)


def _shard(weight: mx.array, axis: int, segments: Any, units: int | None, group: Group) -> mx.array:
    """This process's shard of a weight. Cuts are between `units` of equal length, rows by
    default.
    """

    def cut(part: mx.array) -> mx.array:
        length = part.shape[axis]
        count = length if units is None else units * length // weight.shape[axis]
        begin, end = bounds_of(count, group.size())[group.rank() :][:2]
        unit = length // max(count, 1)
        return mx.split(part, [begin * unit, end * unit], axis=axis)[1]

    parts = [cut(part) for part in _segments(weight, segments, axis)]
    return mx.contiguous(parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=axis))


def sharded(parameters: Any, sharding: Sharding, group: Group, units: int | None = None) -> Any:
    """A tree of parameters with a shard of each that the function gives an axis for."""

    def shard(path: str, weight: Any) -> Any:
        if not isinstance(weight, mx.array):
            return weight
        chosen = sharding(path, weight)
        if chosen is None:
            return weight
        if isinstance(chosen, int):
            chosen = (chosen, 1)
        if not isinstance(chosen, tuple):
            raise ValueError(
                "[shard_inplace] the function returns an axis, an axis and segments, or None, got "
                f"{chosen!r} for {path}."
            )
        axis, segments = chosen
        return _shard(weight, axis, segments, units, group)

    return tree_map_with_path(shard, parameters)
