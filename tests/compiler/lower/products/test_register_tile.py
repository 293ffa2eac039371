"""Register tiles: shapes that registers hold, and sums of products."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import run_nest

from ingot._native import Dtype
from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Loop, Store
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.verify import verify
from ingot.compiler.lower.products import register_tile
from ingot.compiler.lower.products.register_tile import (
    TileShape,
    accumulate,
    lanes_for,
    lanes_of,
    last_shape,
    tile_shape,
)
from ingot.graph.dtype import float32, float64
from ingot.runtime.processor import vector_registers
from ingot.tuning_products import PRODUCT_UNROLLING


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("columns", [1, 7, 16, 33, 64, 1000])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_tiles_fit_into_registers(dtype: object, columns: int, rows: int) -> None:
    shape = tile_shape(dtype, columns, rows)
    assert shape.lanes in (lanes_of(dtype), lanes_of(dtype) // 2)
    assert 1 <= shape.rows <= rows
    assert shape.rows * shape.vectors + shape.vectors + 1 <= vector_registers()
    assert shape.columns < columns + 4 * shape.lanes


@pytest.mark.parametrize("rows", [16, 32, 50, 64, 100, 128])
@pytest.mark.parametrize("columns", [16, 32, 64, 200])
def test_few_rows_of_tiles_are_not_there(rows: int, columns: int) -> None:
    shape = tile_shape(float32, columns, rows)
    assert -(-rows // shape.rows) * shape.rows <= 1.09 * rows


@pytest.mark.parametrize("columns", [17, 33, 50, 77, 120, 777, 1111])
def test_the_last_columns_have_a_tile_that_is_as_narrow_as_they_are(columns: int) -> None:
    shape = tile_shape(float32, columns, 500)
    whole, rest = divmod(columns, shape.columns)
    last = last_shape(shape, columns, 16)
    if last is None:
        assert rest == 0 or shape.columns - rest < shape.lanes
        return
    assert whole > 0
    assert rest <= last.columns < rest + last.lanes
    assert 16 * shape.rows % last.rows == 0
    assert last.rows * last.vectors + last.vectors + 1 <= vector_registers()


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("datapath", [32, 64])
def test_vectors_are_shorter_only_where_that_is_faster(
    dtype: Dtype, datapath: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results of up to a tile's columns, on processors with vectors of 512 bits."""
    monkeypatch.setattr(register_tile, "vector_bytes", lambda: 64)
    monkeypatch.setattr(register_tile, "datapath_bytes", lambda: datapath)
    lanes = lanes_of(dtype)
    half = lanes // 2
    for columns in range(1, 2 * lanes + 1):
        shape = tile_shape(dtype, columns, 100)
        is_odd = -(-columns // half) % 2 == 1
        assert (shape.lanes == half) is (is_odd and (datapath == 32 or columns <= half))
        assert columns <= shape.columns < columns + shape.lanes
        assert last_shape(shape, columns, 16) is None


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("datapath", [32, 64])
def test_equal_tiles_have_shorter_vectors_only_where_these_leave_fewer_columns_unused(
    dtype: Dtype, datapath: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register_tile, "vector_bytes", lambda: 64)
    monkeypatch.setattr(register_tile, "datapath_bytes", lambda: datapath)
    half = lanes_of(dtype) // 2

    def unused(columns: int, lanes: int, vectors: range) -> int:
        return min(-columns % (lanes * each) for each in vectors)

    for columns in range(1, 40 * half + 1):
        is_shorter = lanes_for(dtype, columns) == half
        if columns <= half:
            assert is_shorter
        elif datapath == 64:
            assert not is_shorter
        else:
            # tiles of one or two of them are bound by loads
            found = unused(columns, half, range(3, 6))
            assert is_shorter is (found < unused(columns, 2 * half, range(1, 6)))


def test_vectors_of_equal_tiles_have_two_lanes_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_tile, "vector_bytes", lambda: 16)
    assert [lanes_for(float64, columns) for columns in (1, 2, 3)] == [2, 2, 2]
    assert [lanes_for(float32, columns) for columns in (1, 2, 3)] == [2, 2, 4]


def test_no_tile_is_narrower_where_lengths_are_not_known_or_columns_fit() -> None:
    lanes = lanes_of(float32)
    shape = tile_shape(float32, 2 * lanes, 100)
    assert last_shape(shape, shape.columns, 16) is None
    assert last_shape(shape, 5 * shape.columns, 16) is None
    assert last_shape(shape, 1, 16) is None


@pytest.mark.parametrize("inner", [1, 5])
def test_sums_of_products(inner: int) -> None:
    """One tile of a @ b, with the columns of b in bundles."""
    shape = tile_shape(float32, 2 * lanes_of(float32), 3)
    b = NestBuilder()
    x = b.buffer("x", float32, (shape.rows, inner), (4 * inner, 4), 0)
    y = b.buffer("y", float32, (inner, shape.columns), (4 * shape.columns, 4), 1)
    z = b.buffer("z", float32, (shape.rows, shape.columns), (4 * shape.columns, 4), 2)
    with b.parallel(()):
        tile = accumulate(
            b,
            float32,
            shape,
            [(0, inner)],
            lambda row, at: b.splat(b.load(x, (affine(row), affine(at[0]))), shape.lanes),
            lambda vector, at: b.load_lanes(
                y, (affine(at[0]), affine(vector * shape.lanes)), shape.lanes
            ),
        )
        for row, sums in enumerate(tile.sums):
            for vector, total in enumerate(sums):
                b.body.append(Store(z, (affine(row), affine(vector * shape.lanes)), total))
    verify(b.nest)
    generator = np.random.default_rng(0)
    left = generator.integers(-9, 9, (shape.rows, inner)).astype(np.float32)
    right = generator.integers(-9, 9, (inner, shape.columns)).astype(np.float32)
    for run in (interpret, run_nest):
        out = np.zeros((shape.rows, shape.columns), np.float32)
        run(b.nest, [left, right, out])
        np.testing.assert_array_equal(out, left @ right)


@pytest.mark.parametrize(
    ("rows", "vectors", "is_rolled"), [(6, 4, True), (12, 1, False), (1, 4, False)]
)
def test_short_iterations_are_unrolled(rows: int, vectors: int, is_rolled: bool) -> None:
    shape = TileShape(rows, vectors, 16)
    b = NestBuilder()
    x = b.buffer("x", float32, (100, 64), (256, 4), 0)
    with b.parallel((1,)):
        accumulate(
            b,
            float32,
            shape,
            [(0, 100)],
            lambda row, at: b.load_lanes(x, (affine(at[0]), affine(row)), 16),
            lambda vector, at: b.load_lanes(x, (affine(at[0]), affine(vector)), 16),
        )
        (loop,) = [each for each in b.body if isinstance(each, Loop)]
    assert loop.copies == (1 if is_rolled else PRODUCT_UNROLLING)
