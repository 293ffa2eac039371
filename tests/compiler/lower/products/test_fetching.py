"""Prefetching the lines of a tile, at once or in the loop over k."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import Memory, run_nest

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Constant
from ingot.compiler.lower.products.fetching import fetch_lines
from ingot.compiler.lower.products.register_tile import TileShape, accumulate
from ingot.graph.dtype import float32


@pytest.mark.parametrize("length", [1, 191, 192, 193, 300, 600])
@pytest.mark.parametrize("tile", [TileShape(6, 4, 16), TileShape(8, 3, 8), TileShape(1, 1, 16)])
def test_all_lines_are_fetched_and_sums_are_whole(tile: TileShape, length: int) -> None:
    builder = NestBuilder()
    marks = builder.row_major("marks", float32, (tile.rows, tile.columns), 0, 0)
    sums = builder.row_major("sums", float32, (tile.rows, tile.columns), 1, 0)
    one = Constant(float32, 1)

    def mark(row: Affine, column: Affine) -> None:
        builder.store(one, marks, (row, column))

    with builder.parallel((1,), 1):
        ahead = fetch_lines(builder, tile, length, mark)
        found = accumulate(
            builder,
            float32,
            tile,
            [(0, length)],
            lambda _row, _at: builder.splat(one, tile.lanes),
            lambda _vector, _at: builder.splat(one, tile.lanes),
            ahead=ahead,
        )
        for row, totals in enumerate(found.sums):
            for vector, total in enumerate(totals):
                builder.store(total, sums, (affine(row), affine(vector * tile.lanes)))
    memory = Memory(builder.nest, 0, 0, {})
    before = memory.arrays[0].copy()
    run_nest(builder.nest, memory.arrays, {})
    touched, totals = memory.arrays
    np.testing.assert_array_equal(totals, length)
    starts = np.zeros(touched.shape, bool)
    starts[:, :: tile.lanes] = True
    np.testing.assert_array_equal(touched[starts], 1)
    np.testing.assert_array_equal(touched[~starts], before[~starts])
