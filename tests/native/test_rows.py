"""Native scans, sorts and scatters against NumPy: every dtype, layout and number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ingot import _native
from ingot._native import Dtype
from ingot.graph.dtype import from_numpy
from ingot.runtime.processor import cache_sizes, machine
from ingot.tuning_rows import (
    MAX_SCATTER_PARTS,
    MIN_NATIVE_SCATTER,
    MIN_SCATTER_PART,
    SCAN_CHUNK,
    SORT_GRAIN,
)

KINDS = (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp)
INTEGERS = "uint8 int8 uint16 int16 uint32 int32 uint64 int64".split()
DTYPES = [*INTEGERS, "float32", "float64"]
MODES = ("assign", "add", "multiply", "maximum", "minimum")


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    old = _native.set_num_threads(request.param)
    yield request.param
    _native.set_num_threads(old)


def dtype_of(x: np.ndarray) -> Dtype:
    found = from_numpy(x.dtype)
    assert found is not None
    return found


def elements(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Integers of the whole range; floats with ties, both zeros, infinities and a few NaN."""
    rng = np.random.default_rng(seed)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    x = rng.integers(-4, 5, shape).astype(dtype) / 4
    special = rng.choice(np.array([-0.0, 0.0, np.inf, -np.inf, np.nan]), shape)
    return np.where(rng.random(shape) < 0.001, special, x).astype(dtype)


def scan(kind: np.ufunc, x: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape, x.dtype)
    assert _native.scan_rows(dtype_of(x), KINDS.index(kind), x, out)
    return out


def in_chunks(kind: np.ufunc, x: np.ndarray) -> np.ndarray:
    """The scan along the middle axis in the order that is promised, by NumPy."""
    is_sum = kind is np.add and x.dtype.kind == "f"
    wide = x.astype(np.float64 if is_sum else x.dtype)
    found, carry = [], None
    for begin in range(0, x.shape[1], SCAN_CHUNK):
        chunk = wide[:, begin : begin + SCAN_CHUNK]
        own = kind.accumulate(chunk, 1)
        if carry is None:
            found.append(own)
            carry = own[:, -1:]
            continue
        found.append(kind.accumulate(np.concatenate([carry, chunk], 1), 1)[:, 1:])
        carry = kind(carry, own[:, -1:])
    return np.concatenate(found, 1).astype(x.dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize(
    "shape", [(3, 5, 1), (19, 300, 1), (21, 7, 1), (2, 40, 300), (2, 40, 5), (1, 1, 1)]
)
def test_scans(kind: np.ufunc, dtype: str, shape: tuple[int, ...]) -> None:
    x = elements(dtype, shape)
    np.testing.assert_array_equal(scan(kind, x), in_chunks(kind, x))
    backwards = x[:, ::-1]
    np.testing.assert_array_equal(scan(kind, backwards), in_chunks(kind, backwards))
    apart = np.repeat(x, 2, 2)[:, :, ::2]
    np.testing.assert_array_equal(scan(kind, apart), in_chunks(kind, apart))


@pytest.mark.usefixtures("threads")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [np.add, np.multiply, np.maximum])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize(
    "shape",
    [(1, 20 * SCAN_CHUNK + 17, 1), (3, SCAN_CHUNK, 1), (2, SCAN_CHUNK + 1, 1), (1, 9000, 12)],
)
def test_long_rows_have_one_order(kind: np.ufunc, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape)
    if kind is np.multiply:
        x = 1 + x / 1000  # stays in range
    x = (100 * x if dtype == "int16" else x).astype(dtype)
    np.testing.assert_array_equal(scan(kind, x), in_chunks(kind, x))


@pytest.mark.usefixtures("threads")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [np.add, np.maximum])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int16"])
@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8, 9, 13])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 129, 1000, SCAN_CHUNK + 5])
def test_any_number_of_rows(kind: np.ufunc, dtype: str, rows: int, length: int) -> None:
    x = elements(dtype, (rows, length, 1), rows + length)
    np.testing.assert_array_equal(scan(kind, x), in_chunks(kind, x))


@pytest.mark.usefixtures("threads")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("skipped", [0, 1, 7])
def test_results_that_exceed_the_caches(dtype: str, skipped: int) -> None:
    """Whole lines are stored past the caches, and what lies before and behind is left alone."""
    nbytes = cache_sizes()[1] if machine() == "x86_64" else 1 << 20
    length = 4003
    rows = nbytes // (length * np.dtype(dtype).itemsize) + 3
    x = np.random.default_rng(4).integers(-9, 9, (rows, length, 1)).astype(dtype)
    memory = np.full(skipped + x.size + 5, 77, dtype)
    out = memory[skipped : skipped + x.size].reshape(x.shape)
    assert _native.scan_rows(dtype_of(x), KINDS.index(np.add), x, out)
    np.testing.assert_array_equal(out, np.cumsum(x, 1, dtype))
    assert (memory[:skipped] == 77).all()
    assert (memory[skipped + x.size :] == 77).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logaddexp(dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal((3, 2 * SCAN_CHUNK, 1)).astype(dtype)
    x[1, :5] = -np.inf
    x[2, 7] = np.inf
    np.testing.assert_allclose(
        scan(np.logaddexp, x), np.logaddexp.accumulate(x.astype(np.float64), 1), 1e-5
    )
    assert np.isnan(scan(np.logaddexp, np.full((1, 3, 1), np.nan, dtype))).all()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 1, 3), (3, 400, 2), (1, 5 * SORT_GRAIN + 7, 1)])
def test_sorts(dtype: str, shape: tuple[int, ...]) -> None:
    x = elements(dtype, shape)
    for rows in (x, x[:, ::-1], np.repeat(x, 2, 2)[:, :, ::2], np.full(shape, x[0, 0, 0])):
        out, order = np.empty(shape, dtype), np.empty(shape, np.uint32)
        _native.sort_rows(dtype_of(x), rows, False, out)
        np.testing.assert_array_equal(out, np.sort(rows, 1))
        _native.sort_rows(dtype_of(x), rows, True, order)
        np.testing.assert_array_equal(order, np.argsort(rows, 1, kind="stable"))


def test_sorts_of_other_shapes_are_refused() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    for out in (np.zeros((2, 3, 5), np.float32), np.zeros((2, 3, 4), np.int64)):
        with pytest.raises(ValueError, match="sort_rows"):
            _native.sort_rows(dtype_of(x), x, False, out)


def test_what_scans_do_not_take() -> None:
    x = np.zeros((1, 2, 1), np.complex64)
    assert not _native.scan_rows(dtype_of(x), 0, x, x.copy())
    with pytest.raises(ValueError, match=r"\[scan_rows\]"):
        _native.scan_rows(dtype_of(x), 0, x, np.zeros((1, 3, 1), np.complex64))


def scattered(mode: str, base: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """One update after the other."""
    combine: dict[str, Any] = {
        "assign": lambda old, new: new,
        "add": np.add,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
    }
    out = base.copy()
    for row, update in zip(rows.tolist(), updates, strict=True):
        out[row] = combine[mode](out[row], update)
    return out


@pytest.mark.usefixtures("threads")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 9, 64])
@pytest.mark.parametrize("order", ["random", "sorted", "sparse"])
def test_scatters(mode: str, dtype: str, width: int, order: str) -> None:
    rng = np.random.default_rng(3)
    count, height = (300, 4000) if order == "sparse" else (3000, 40)
    rows = rng.integers(0, height, count)
    rows[: count // 2] = 7  # most of them meet in one row
    rows = rows if order == "random" else np.sort(rows)
    base, updates = elements(dtype, (height, width)), elements(dtype, (count, width), 1)
    expected = scattered(mode, base, rows, updates)
    out = np.empty_like(base)
    number = MODES.index(mode)
    _native.scatter_rows(dtype_of(base), number, out, rows, updates, base)
    np.testing.assert_array_equal(out, expected)
    repeated = np.broadcast_to(base[:1, :1], base.shape)
    _native.scatter_rows(dtype_of(base), number, out, rows, updates[::-1], repeated)
    np.testing.assert_array_equal(out, scattered(mode, repeated, rows, updates[::-1]))
    in_place = base.copy()
    _native.scatter_rows(dtype_of(base), number, in_place, rows, updates, None)
    np.testing.assert_array_equal(in_place, expected)


@pytest.mark.usefixtures("threads")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float32", "float64"])
def test_scatters_in_parts(mode: str, dtype: str) -> None:
    count, width = MIN_NATIVE_SCATTER // 64, 64
    updates = elements(dtype, (count, width), 1)
    if dtype.startswith("float") and mode == "add":
        updates = np.random.default_rng(5).normal(size=(count, width)).astype(dtype)
    kind, number = dtype_of(updates), MODES.index(mode)
    ufunc = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    for height in (3, count // 9):
        base = elements(dtype, (height, width))
        rows = np.random.default_rng(6).integers(0, height, count)
        parts = min(MAX_SCATTER_PARTS, count // (MIN_SCATTER_PART * height))
        if mode == "assign":
            expected = base.copy()
            expected[rows] = updates
        elif mode != "add" or not dtype.startswith("float"):
            expected = base.copy()
            ufunc[mode].at(expected, rows, updates)
        else:  # the promised order: each part is summed by itself
            bounds = [count * part // parts for part in range(parts + 1)]
            sums = [base.copy()] + [np.full_like(base, -0.0) for _ in range(parts - 1)]
            for part, (low, high) in enumerate(pairwise(bounds)):
                np.add.at(sums[part], rows[low:high], updates[low:high])
            expected = reduce(np.add, sums)
        out = base.copy()
        _native.scatter_rows(kind, number, out, rows, updates, None)
        np.testing.assert_array_equal(out, expected)
        _native.scatter_rows(kind, number, out, rows, updates, base)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("mode", MODES)
def test_sorted_scatters_combine_in_order(mode: str) -> None:
    count, width, height = MIN_NATIVE_SCATTER // 64 + 1, 64, 500
    rng = np.random.default_rng(5)
    updates = rng.normal(size=(count, width)).astype(np.float32)
    base = rng.normal(size=(height, width)).astype(np.float32)
    rows = np.sort(rng.integers(0, height, count))
    out = np.empty_like(base)
    _native.scatter_rows(dtype_of(base), MODES.index(mode), out, rows, updates, base)
    np.testing.assert_array_equal(out, scattered(mode, base, rows, updates))


@pytest.mark.usefixtures("threads")
def test_parts_keep_the_sign_of_zero() -> None:
    table = np.full((2, 64), -0.0, np.float32)
    updates = np.full((MIN_NATIVE_SCATTER // 64, 64), -0.0, np.float32)
    rows = np.arange(len(updates))[::-1] % 2  # sorted ones are not split into parts
    _native.scatter_rows(dtype_of(table), MODES.index("add"), table, rows, updates, None)
    assert np.signbit(table).all()


def test_zeros_and_nan_in_extremes() -> None:
    base = np.array([[-0.0, 0.0, -0.0, np.nan, 1.0]], np.float32)
    update = np.array([[0.0, -0.0, -0.0, 1.0, np.nan]], np.float32)
    rows = np.zeros(1, np.int64)
    for mode, signs in (("maximum", [False, False, True]), ("minimum", [True, True, True])):
        out = np.empty_like(base)
        _native.scatter_rows(dtype_of(base), MODES.index(mode), out, rows, update, base)
        assert np.signbit(out[0, :3]).tolist() == signs
        assert np.isnan(out[0, 3:]).all()


def test_rows_outside_are_refused() -> None:
    table, updates = np.zeros((3, 2), np.float32), np.ones((1, 2), np.float32)
    for row in (-1, 3):
        with pytest.raises(ValueError, match=r"\[scatter_rows\]"):
            _native.scatter_rows(dtype_of(table), 1, table, np.array([row]), updates, None)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_flat_rows(dtype: str) -> None:
    low = -5 if dtype.startswith("int") else 0
    index = np.random.default_rng(4).integers(low, 5, 100).astype(dtype)
    rows = np.empty(100, np.int64)
    assert _native.flat_rows(index, 5, rows, False)
    np.testing.assert_array_equal(rows, index.astype(np.int64) % 5)
    assert _native.flat_rows(index, 7, rows, True)
    wrapped = np.where(index.astype(np.int64) < 0, index.astype(np.int64) + 7, index)
    np.testing.assert_array_equal(rows, index.astype(np.int64) % 5 * 7 + wrapped)
    index[3] = 5
    assert not _native.flat_rows(index, 5, rows, False)
    index[3] = np.iinfo(dtype).max
    assert not _native.flat_rows(index, 5, rows, False)
