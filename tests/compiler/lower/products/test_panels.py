"""Panels: some columns of a matrix side by side, in the order in which a product reads them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import Memory, run_nest

from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.size import hint_of
from ingot.compiler.lower.products.operands import Matrices
from ingot.compiler.lower.products.panels import Panels, convert, pack_panels, pad
from ingot.compiler.lower.products.register_tile import TileShape
from ingot.graph.dtype import float32, float64
from ingot.tuning import CACHE_LINE

# of right operands, and, with one vector, of left ones: as many lanes as a tile has rows
TILES = [TileShape(4, 2, 8), TileShape(1, 1, 6), TileShape(1, 1, 7), TileShape(1, 1, 12)]


def filled(kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    """Source and target after running a kernel between two buffers of scratch memory."""
    nest = kernel.nest
    symbols = {symbol: hint_of(symbol.size) for symbol in nest.symbols}
    memory = Memory(nest, 0, 0, symbols)
    run_nest(nest, memory.arrays, symbols)
    source, target = memory.arrays
    return source, target


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(5, 16), (37, 33), (2, 9, 40), (24, 3), (19, 1100)])
def test_panels_hold_the_columns(shape: tuple[int, ...], transposed: bool, tile: TileShape) -> None:
    x = np.zeros(shape, np.float32)
    *stack, rows, columns = shape
    source = Matrices(None, float32, tuple(stack), rows, columns, x.strides)
    if transposed:
        source = source.transposed()
    panels = Panels(source, tile, x.nbytes)
    given, found = filled(pack_panels(panels))
    assert found.shape == (*stack, panels.count, source.rows, tile.columns)
    wide = np.zeros((*stack, source.rows, panels.count * tile.columns), np.float32)
    wide[..., : source.columns] = given
    expected = np.moveaxis(wide.reshape(*stack, source.rows, panels.count, tile.columns), -2, -3)
    last = source.columns - (panels.count - 1) * tile.columns  # what follows is never read
    np.testing.assert_array_equal(found[..., :-1, :, :], expected[..., :-1, :, :])
    np.testing.assert_array_equal(found[..., -1, :, :last], expected[..., -1, :, :last])


@pytest.mark.parametrize("rows", [1, 24, 1000, 1024, 4096])
@pytest.mark.parametrize("tile", [TileShape(1, 1, 6), TileShape(1, 1, 12), TileShape(4, 4, 16)])
def test_a_row_of_many_panels_is_in_many_sets_of_l1(tile: TileShape, rows: int) -> None:
    source = Matrices(None, float32, (), rows, 16 * tile.columns, (64 * tile.columns, 4))
    distance = int(Panels(source, tile, 0).rows) * tile.columns * 4
    assert distance >= rows * tile.columns * 4
    begins = {panel * distance for panel in range(16)}
    assert all(each % CACHE_LINE == 0 for each in begins)
    assert len({each // CACHE_LINE % 64 for each in begins}) == 16


def test_copies_are_padded_and_converted() -> None:
    x = np.zeros((3, 5), np.float32)
    source = Matrices(None, float32, (), 3, 5, x.strides)
    given, found = filled(pad(source, source.padded(x.nbytes)))
    np.testing.assert_array_equal(found[:, :5], given)
    np.testing.assert_array_equal(found[:, 5], 0)
    given, found = filled(convert(source, source.converted(float64, x.nbytes)))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, given)
