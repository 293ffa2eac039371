"""How wide the tiles of a reduction along columns are, and whether their last columns, which fill
no vector, have a loop of their own.
"""

from __future__ import annotations

from ingot.compiler.forms.size import Number, hint_of, is_symbolic
from ingot.runtime.processor import stores_masked_slowly
from ingot.tuning import (
    MAX_TILE_COLUMNS,
    MIN_COLUMN_TILES,
    MIN_SPLIT_COLUMN_ELEMENTS,
    MIN_SPLIT_PLAIN_ELEMENTS,
    MIN_SPLIT_SLOW_STORES,
    MIN_TILE_COLUMNS,
)

__all__ = ["VECTOR", "min_split_elements", "tile_width"]

VECTOR = 16  # elements


def tile_width(columns: Number, others: Number) -> int:
    """The width of a tile, given how many independent units (`others`) threads can share besides
    tiles. If a number is symbolic, its size class decides.
    """
    if is_symbolic(columns):
        return (
            MIN_TILE_COLUMNS if columns <= MIN_COLUMN_TILES * MIN_TILE_COLUMNS else MAX_TILE_COLUMNS
        )
    wanted = 1 if others >= MIN_COLUMN_TILES else -(-MIN_COLUMN_TILES // hint_of(others))
    tiles = max(1, min(wanted, columns // MIN_TILE_COLUMNS), -(-columns // MAX_TILE_COLUMNS))
    shared = -(-columns // tiles)
    return min(columns, -(-shared // VECTOR) * VECTOR)


def min_split_elements(is_slow: bool) -> int:
    """The number of elements from which on the last columns have a loop of their own, given whether
    masks take long with what is computed. The processor's stores may be slow under any.
    """
    if stores_masked_slowly():
        return MIN_SPLIT_SLOW_STORES
    return MIN_SPLIT_COLUMN_ELEMENTS if is_slow else MIN_SPLIT_PLAIN_ELEMENTS
