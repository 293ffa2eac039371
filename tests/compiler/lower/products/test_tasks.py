"""How the tiles of products are divided among threads."""

from __future__ import annotations

import pytest

from ingot.compiler.lower.products.operands import Matrices, Product
from ingot.compiler.lower.products.register_tile import TileShape, tile_shape
from ingot.compiler.lower.products.tasks import (
    grain_of,
    is_by_blocks,
    is_by_columns,
    tiles_per_block,
    tiles_per_task,
)
from ingot.graph.dtype import float32
from ingot.graph.shape import contiguous


def product(m: int, k: int, n: int, *stack: int) -> Product:
    def matrices(rows: int, columns: int) -> Matrices:
        strides = contiguous((*stack, rows, columns), 4)
        return Matrices(None, float32, stack, rows, columns, strides)

    return Product(matrices(m, k), matrices(k, n), matrices(m, n), float32)


def shape_of(m: int, n: int) -> tuple[TileShape, int, int]:
    """The tile, and how many of them are below and beside each other."""
    tile = tile_shape(float32, n, m)
    return tile, -(-m // tile.rows), -(-n // tile.columns)


def test_few_rows_are_shared_by_columns() -> None:
    assert is_by_columns(product(1024, 64, 64))
    assert not is_by_columns(product(1025, 64, 64))


@pytest.mark.parametrize(("m", "k", "n"), [(300, 777, 500), (777, 777, 777), (1021, 509, 257)])
def test_threads_end_at_about_the_same_time(m: int, k: int, n: int) -> None:
    given = product(m, k, n)
    _, down, across = shape_of(m, n)
    each = tiles_per_task(given, down * across)
    tasks = -(-down // each) * across
    # two threads take four chunks each; the larger chunks have one task more than the others
    assert each * (tasks % 8 > 0) <= 0.05 * down * across / 2
    assert tasks >= 64


def test_large_matrices_are_read_by_large_tasks() -> None:
    assert tiles_per_task(product(2048, 2048, 4800), 342 * 75) == 16
    assert tiles_per_task(product(1000, 2048, 4800), 167 * 75) == 4  # which share columns
    assert tiles_per_task(product(2048, 512, 512), 342 * 8) == 4
    assert tiles_per_task(product(100, 100, 100), 34) == 1
    assert tiles_per_task(product(100, 100, 100, 20), 34) == 4


def test_tasks_of_stacks_have_all_columns() -> None:
    given = product(198, 256, 81, 64)
    tile, down, _ = shape_of(198, 81)
    assert is_by_blocks(given, down)
    assert 1 <= tiles_per_block(given, tile) * tile.rows * 81 * 4 <= 1 << 15
    assert not is_by_blocks(product(198, 256, 81), down)
    assert not is_by_blocks(product(198, 512, 512, 64), down)


def test_a_thread_multiplies_or_reads_enough() -> None:
    # one row reads 128 KiB of the right operand, many multiply 2 ** 18 times
    assert grain_of(product(1, 576, 1536), 1, 8) == (128 << 10) // (576 * 8 * 4)
    assert grain_of(product(1024, 64, 64), 48, 16) == (1 << 18) // (48 * 16 * 64)
    assert grain_of(product(1, 4096, 4096), 1, 8) == 1
