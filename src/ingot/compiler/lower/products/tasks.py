"""How the tiles of a product are divided into the iterations of its parallel loop.

Threads take chunks of consecutive iterations, so the order of these decides which operands stay in
a core's cache, and their size how long one thread waits for another in the end.
"""

from __future__ import annotations

from ingot.compiler.forms.size import Number, is_symbolic, largest, smallest
from ingot.compiler.lower.products.operands import Product
from ingot.compiler.lower.products.register_tile import TileShape
from ingot.graph.shape import size_of
from ingot.tuning import MAX_ROWS_BY_COLUMNS, MIN_PRODUCT_TASKS, MIN_PRODUCT_THREAD_WORK
from ingot.tuning_products import (
    MAX_BLOCK_RESULT_BYTES,
    MAX_BLOCK_RIGHT_BYTES,
    MAX_L3_RIGHT_BYTES,
    MAX_TILES_PER_TASK,
    MIN_PRODUCT_THREAD_BYTES,
    MIN_TASK_TILES,
    TILES_PER_TASK,
)

__all__ = ["grain_of", "is_by_blocks", "is_by_columns", "tiles_per_block", "tiles_per_task"]


def is_by_columns(product: Product) -> bool:
    """Whether the parallel loop computes one column of tiles after the other: their panels are then
    divided among threads, each of which has its own in L2, and reads all rows of the left operand.
    """
    rows = product.left.rows
    return bool(not is_symbolic(rows) and rows <= MAX_ROWS_BY_COLUMNS)


def is_by_blocks(product: Product, down: Number) -> bool:
    """Whether a task computes all columns of some rows, so that these are read from memory once:
    those of a stack, whose matrices on the right stay in L2 in the meantime, if there are enough
    for all threads.
    """
    right = product.right
    if not product.stack or any(map(is_symbolic, (down, product.n, product.k, *product.stack))):
        return False
    return bool(
        right.rows * right.columns * right.dtype.size <= MAX_BLOCK_RIGHT_BYTES
        and size_of(product.stack) * down >= MIN_PRODUCT_TASKS
    )


def tiles_per_task(product: Product, tiles: Number) -> int:
    """Tiles below each other per iteration, if each matrix of the result has this many tiles. A
    symbolic number of tiles adds no condition, since new lengths would then be compiled anew.
    """
    total = size_of(product.stack) * tiles
    if not is_symbolic(total) and total < MIN_TASK_TILES:
        return 1
    is_read_often = not is_by_columns(product) and product.right.nbytes > MAX_L3_RIGHT_BYTES
    return MAX_TILES_PER_TASK if is_read_often else TILES_PER_TASK


def tiles_per_block(product: Product, tile: TileShape) -> int:
    """Tiles below each other in a block of rows, whose results stay in L1."""
    nbytes = tile.rows * product.n * product.dtype.size
    return int(max(1, min(MAX_TILES_PER_TASK, MAX_BLOCK_RESULT_BYTES // nbytes)))


def grain_of(product: Product, rows: Number, columns: Number) -> Number:
    """How many iterations of a parallel loop justify a thread, each of which computes this many
    rows and columns of the result: enough to multiply, or enough to read of the right operand.
    """
    along_k = columns * product.k
    by_work = MIN_PRODUCT_THREAD_WORK // (rows * along_k)
    by_bytes = MIN_PRODUCT_THREAD_BYTES // (along_k * product.right.dtype.size)
    grain: Number = largest((1, smallest((by_work, by_bytes))))
    return grain
