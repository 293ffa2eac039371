"""Tiles of columns: whole vectors, wide enough for prefetching, enough of them for threads."""

from __future__ import annotations

import pytest

from ingot.compiler.lower.reductions.tile_width import VECTOR, tile_width
from ingot.tuning import MAX_TILE_COLUMNS, MIN_COLUMN_TILES, MIN_TILE_COLUMNS


@pytest.mark.parametrize("columns", [1, 15, 100, 513, 777, 4096, 4097, 50001])
@pytest.mark.parametrize("others", [1, 2, 8, 1000])
def test_tiles_cover_the_columns(columns: int, others: int) -> None:
    width = tile_width(columns, others)
    assert 1 <= width <= min(columns, MAX_TILE_COLUMNS)
    assert width == columns or width % VECTOR == 0
    tiles = -(-columns // width)
    if tiles > -(-columns // MAX_TILE_COLUMNS):  # more than needed, so that threads share them
        assert others < MIN_COLUMN_TILES
        assert columns // tiles >= MIN_TILE_COLUMNS


def test_tiles_are_wide_enough_and_many_enough() -> None:
    assert tile_width(3, 1) == 3
    assert tile_width(MIN_TILE_COLUMNS * MIN_COLUMN_TILES, 1) == MIN_TILE_COLUMNS
    assert tile_width(10 * MAX_TILE_COLUMNS * MIN_COLUMN_TILES, 1) == MAX_TILE_COLUMNS
    for columns in (17, 1000, 4096, 100_000):
        assert min(columns, MIN_TILE_COLUMNS) <= tile_width(columns, 1) <= MAX_TILE_COLUMNS
    # blocks of rows are for threads to share too
    assert tile_width(MAX_TILE_COLUMNS, MIN_COLUMN_TILES) == MAX_TILE_COLUMNS
