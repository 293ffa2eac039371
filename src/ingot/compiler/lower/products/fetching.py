"""Prefetching the memory that a tile of results is stored to, and that its epilogue reads, while
the sums of the tile are computed.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.size import Number
from ingot.compiler.lower.products.register_tile import TileShape
from ingot.tuning_products import ITERATIONS_PER_LINE

__all__ = ["fetch_lines"]


def fetch_lines(
    builder: NestBuilder, tile: TileShape, length: Number, fetch: Callable[[Affine, Affine], None]
) -> Callable[[Index], None] | None:
    """Prefetches all lines of a tile at once if its sums are short. Otherwise, returns a function
    that prefetches one of them, to be called every ITERATIONS_PER_LINE iterations of the loop over
    k with its index (`accumulate`). `fetch` prefetches the line at a row and column of the tile.
    """
    rows, vectors, lanes = tile
    lines = rows * vectors
    if length < ITERATIONS_PER_LINE * lines or lanes % ITERATIONS_PER_LINE:
        for line in range(lines):
            row, vector = divmod(line, vectors)
            fetch(affine(row), affine(vector * lanes))
        return None

    def ahead(k: Index) -> None:
        # the last line again once all are fetched
        last = (lines - 1) * ITERATIONS_PER_LINE
        number = builder.multiple(0, affine(k), last, by=1)
        row, column = builder.split(number, (rows, vectors * ITERATIONS_PER_LINE))
        fetch(affine(row), affine(column) * (lanes // ITERATIONS_PER_LINE))

    return ahead
