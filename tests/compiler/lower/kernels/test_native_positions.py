"""What kernels compute from positions: random bits, counted arrays, and where extremes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core
import numpy as np
import pytest
from tests.support.numpy_kernel import NumpyKernel

import ingot.core as mx
from ingot.graph.dtype import ALL_DTYPES, Dtype
from ingot.ops.internal.positions import Positions
from ingot.ops.internal.ranks import Ranked, RankedPlace
from ingot.ops.random.bits import RandomBits, RandomWord
from ingot.ops.shape.creation import Counted

SIZES = [1, 2, 3, 7, 1023, 4097]


def native(compiled: Any, *args: Any) -> dict[str, Any]:
    found: dict[str, Any] = compiled.explain(*args).to_dict()["native"]
    return found


def values(x: Any) -> np.ndarray:
    """The elements, with bfloat16 as float32."""
    return np.array(x.astype(mx.float32) if x.dtype is mx.bfloat16 else x)


# Random numbers

DISTRIBUTIONS: dict[str, Callable[[Any, Any, int], Any]] = {
    "bits": lambda m, key, n: m.random.randint(0, 1 << 20, (n,), key=key),
    "uniform": lambda m, key, n: m.random.uniform(shape=(n,), key=key),
    "between": lambda m, key, n: m.random.uniform(-3, 0.7, (n, 3), key=key),
    "normal": lambda m, key, n: m.random.normal((2, n), key=key),
    "scaled": lambda m, key, n: m.random.normal((n,), loc=1.7, scale=0.3, key=key),
    "bernoulli": lambda m, key, n: m.random.bernoulli(0.3, (n, 2), key=key),
    "truncated": lambda m, key, n: m.random.truncated_normal(-1.0, 2.0, (n,), key=key),
    "gumbel": lambda m, key, n: m.random.gumbel((n,), key=key),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_random_numbers_are_one_kernel_with_the_bits_of_mlx(name: str, size: int) -> None:
    draw = DISTRIBUTIONS[name]
    compiled = mx.compile(lambda key: draw(mx, key, size))
    key = mx.random.key(size)
    found = native(compiled, key)
    assert (found["kernels"], found["host_steps"]) == (1, [])
    expected = draw(mlx.core, mlx.core.random.key(size), size)
    np.testing.assert_array_equal(values(compiled(key)), np.array(expected))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_random_half_types(name: str, dtype: str) -> None:
    def draw(m: Any, key: Any) -> Any:
        kind = getattr(m, dtype)
        function = getattr(m.random, name)
        drawn = function(shape=(1023,), dtype=kind, key=key)
        return drawn.astype(m.float32)

    compiled = mx.compile(lambda key: draw(mx, key))
    expected = np.array(draw(mlx.core, mlx.core.random.key(5)))
    np.testing.assert_array_equal(values(compiled(mx.random.key(5))), expected)


def test_a_batch_of_keys() -> None:
    keys = mx.random.split(mx.random.key(3), 5)
    draw = mx.vmap(lambda key: mx.random.normal((3, 7), key=key))
    np.testing.assert_array_equal(values(mx.compile(draw)(keys)), values(draw(keys)))


@pytest.mark.parametrize("words", [1, 2, 3, 10, 1023])
def test_words_of_positions(words: int) -> None:
    keys = np.array([[1, 2], [7, 0xFFFFFFFF]], np.uint32)
    position = Positions((2, words), (1,), mx.uint32).evaluate()
    first, second = (np.repeat(keys[:, half : half + 1], words, 1) for half in (0, 1))
    expected = RandomBits((words,)).evaluate(keys)
    word = RandomWord(words)
    np.testing.assert_array_equal(word.evaluate(position, first, second), expected)
    found = word.emit(NumpyKernel(), position, first, second)
    np.testing.assert_array_equal(found, expected)
    assert word.paired_elements == words
    pairs, half = words // 2, (words + 1) // 2
    front, back = word.emit_pair(
        NumpyKernel(), position[:, :pairs], first[:, :pairs], second[:, :pairs]
    )
    np.testing.assert_array_equal(front, expected[:, :pairs])
    np.testing.assert_array_equal(back, expected[:, half:])


# Places that pairs of words go to: several threads, several axes, across the grain, in place
PLACES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a line": lambda m, key, x: m.random.uniform(shape=(x.size,), key=key),
    "an odd line": lambda m, key, x: m.random.uniform(shape=(x.size - 1,), key=key),
    "columns that repeat": lambda m, key, x: m.random.uniform(shape=x.shape, key=key) + x[0],
    "rows that repeat": lambda m, key, x: m.random.uniform(shape=x.shape, key=key) * x[:, :1],
    "a transpose": lambda m, key, x: m.random.uniform(shape=x.T.shape, key=key) + x.T,
    "three axes": lambda m, key, x: m.random.uniform(shape=(2, *x.shape), key=key) - x,
    "every other": lambda m, key, x: m.random.bernoulli(0.3, x[::2].shape, key=key) * x[::2],
    "two draws": lambda m, key, x: (
        m.random.uniform(shape=x.shape, key=key) - m.random.uniform(shape=x.shape, key=key + 1)
    ),
    "draws of two lengths": lambda m, key, x: (
        m.random.uniform(shape=(2, *x.shape), key=key)
        + m.random.uniform(shape=x.shape, key=key + 1)
    ),
}


@pytest.mark.parametrize("shape", [(6, 5), (7, 6), (64, 1023)], ids=str)
@pytest.mark.parametrize("name", PLACES)
def test_words_come_in_pairs_wherever_they_go(name: str, shape: tuple[int, int]) -> None:
    place = PLACES[name]
    whole = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape) / 8
    compiled = mx.compile(lambda key, x: place(mx, key, x))
    found = compiled(mx.random.key(9), mx.array(whole))
    expected = place(mlx.core, mlx.core.random.key(9), mlx.core.array(whole))
    np.testing.assert_array_equal(values(found), np.array(expected))


def test_pairs_in_the_memory_of_an_argument() -> None:
    @mx.compile
    def dropped(x: mx.array, key: mx.array) -> mx.array:
        return mx.random.bernoulli(0.5, x.shape, key=key) * (x + 1)

    for size in (30, 4097, 1 << 17):
        numbers = np.arange(size, dtype=np.float32)
        mask = mlx.core.random.bernoulli(0.5, (size,), key=mlx.core.random.key(4))
        found = dropped(mx.array(numbers), mx.random.key(4))
        np.testing.assert_array_equal(values(found), np.array(mask) * (numbers + 1))


def test_short_pairs_make_llvm_say_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    # halves shorter than the vectors that normal numbers ask for
    compiled = mx.compile(lambda key: mx.random.normal((19,), key=key) + 0.125)
    expected = mlx.core.random.normal((19,), key=mlx.core.random.key(2)) + 0.125
    np.testing.assert_array_equal(values(compiled(mx.random.key(2))), np.array(expected))
    assert capfd.readouterr().err == ""


def test_the_cipher_runs_once_for_two_words() -> None:
    key = mx.random.key(0)

    def parts(*shape: int) -> int:
        compiled = mx.compile(lambda key: mx.random.uniform(shape=shape, key=key))
        stages = compiled.explain(key).stages
        (code,) = stages.executable.codes
        return code.parts

    assert parts(1000) == 500
    assert parts(1001) == 501
    assert parts(30, 40) == 600


def test_dropout_is_one_kernel() -> None:
    def dropout(x: mx.array, y: mx.array, key: mx.array) -> mx.array:
        mask = mx.random.bernoulli(0.9, x.shape, key=key)
        return mask * mx.tanh(mx.sum(x * y, axis=1, keepdims=True) + x) * (1 / 0.9)

    x, y = (mx.random.normal((64, 100), key=mx.random.key(number)) for number in (2, 3))
    compiled = mx.compile(dropout)
    key = mx.random.key(1)
    assert native(compiled, x, y, key)["kernels"] == 1
    found, expected = values(compiled(x, y, key)), values(dropout(x, y, key))
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)  # the sums are of the order of 10
    assert 0.05 < (found == 0).mean() < 0.15


# Counted arrays

RANGES = [
    ((7,), "int32"),
    ((5, 1000, 3), "int32"),
    ((5, -1000, -3), "int64"),
    ((0.5, 100.25, 0.1), "float32"),
    ((0.5, 100.25, 0.1), "float64"),
    ((0, -30, -1), "float16"),
    ((0, 1000, 7), "bfloat16"),
    ((0, 300), "uint8"),
    ((0, 5), "complex64"),
    ((2**63 - 2, 2**63 + 2), "uint64"),
]


@pytest.mark.parametrize(("bounds", "dtype"), RANGES, ids=str)
def test_counted_arrays(bounds: tuple[Any, ...], dtype: str) -> None:
    kind = getattr(mx, dtype)
    compiled = mx.compile(lambda x: (mx.arange(*bounds, dtype=kind), x + 1))
    expected = mx.arange(*bounds, dtype=kind)
    found = compiled(mx.array(1.0))[0]
    assert native(compiled, mx.array(1.0))["host_steps"] == []
    assert found.dtype is kind
    np.testing.assert_array_equal(found._data, expected._data)


def test_the_rule_for_counted_arrays() -> None:
    places = np.arange(9)
    for dtype in (mx.int16, mx.float32, mx.complex64):
        op = Counted(2, 3, dtype)
        np.testing.assert_array_equal(op.emit(NumpyKernel(), places), op.evaluate(places))


def test_positions_among_several_axes() -> None:
    found = Positions((2, 3, 4), (0, 2), mx.int64).evaluate()
    expected = np.broadcast_to((np.arange(2) * 4)[:, None, None] + np.arange(4), (2, 3, 4))
    np.testing.assert_array_equal(found, expected)


def test_counted_arrays_fuse() -> None:
    x = mx.random.normal((50, 60))
    compiled = mx.compile(lambda x: mx.where(mx.arange(60) < 20, x, 0).sum(axis=1))
    found = native(compiled, x)
    assert found["host_steps"] == []
    np.testing.assert_allclose(values(compiled(x)), values(x)[:, :20].sum(1), 1e-4, 1e-5)


# Positions of extremes

SHAPES = [(1,), (7,), (1023,), (4097,), (33, 65), (3, 9000), (9000, 3), (5, 40, 9), (4, 1, 6, 5)]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 1e-45, -1e-45, 3e38]
SMALL = [dtype for dtype in ALL_DTYPES if dtype.size <= 4]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_positions_of_extremes(name: str, shape: tuple[int, ...]) -> None:
    given = np.random.default_rng(3).integers(-50, 50, shape).astype(np.float32)
    x = mx.array(given)
    for axis in (None, *range(len(shape))):
        for keepdims in (False, True) if axis is None else (len(shape) > 2,):
            function = mx.compile(
                lambda x, axis=axis, keepdims=keepdims: getattr(mx, name)(
                    x * 2, axis=axis, keepdims=keepdims
                )
            )
            assert native(function, x)["host_steps"] == []
            expected = getattr(np, name)(given * 2, axis=axis, keepdims=keepdims)
            found = values(function(x))
            assert found.dtype == np.uint32
            np.testing.assert_array_equal(found, expected, f"{axis} {keepdims}")


@pytest.mark.parametrize("dtype", SMALL, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_extremes_of_all_dtypes(name: str, dtype: Dtype) -> None:
    wide = np.random.default_rng(1).uniform(-130, 130, (41, 37))
    given = np.concatenate([np.tile(SPECIAL, 5)[:41, None], wide], 1)
    with np.errstate(all="ignore"):
        x = mx.array(given.astype(np.float32)).astype(dtype)
    for axis in (None, 0, 1):
        compiled = mx.compile(lambda x, axis=axis: getattr(mx, name)(x, axis=axis))
        assert native(compiled, x)["host_steps"] == []
        expected = getattr(np, name)(values(x), axis=axis)
        np.testing.assert_array_equal(values(compiled(x)), expected)


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.size == 8], ids=lambda d: d.name)
def test_extremes_of_wide_dtypes(dtype: Dtype) -> None:
    x = mx.array(np.random.default_rng(1).integers(0, 2**40, (41, 37))).astype(dtype)
    compiled = mx.compile(lambda x: mx.argmax(x + x, axis=1))
    np.testing.assert_array_equal(values(compiled(x)), np.argmax(x._data, 1))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_nan_wins(name: str, axis: int | None) -> None:
    given = np.random.default_rng(0).standard_normal((41, 43)).astype(np.float32)
    given[[5, 9, 30, 30], [3, 3, 8, 40]] = [np.nan, -np.nan, -np.nan, np.nan]
    given[2] = np.inf
    found = mx.compile(lambda x: getattr(mx, name)(x, axis=axis))(mx.array(given))
    np.testing.assert_array_equal(values(found), getattr(np, name)(given, axis=axis))


def test_the_position_of_what_is_computed_along_rows_is_one_kernel() -> None:
    x = mx.random.normal((64, 100))
    compiled = mx.compile(lambda x: mx.argmax(mx.softmax(x, axis=-1), axis=-1))
    assert native(compiled, x)["kernels"] == 1
    np.testing.assert_array_equal(values(compiled(x)), np.argmax(values(x), -1))


@pytest.mark.parametrize("dtype", SMALL, ids=lambda dtype: dtype.name)
def test_the_rules_for_ranks(dtype: Dtype) -> None:
    if dtype is mx.bool_:
        x = np.array([True, False, True])
    elif dtype.name.startswith(("float", "bfloat")):
        x = np.array([*SPECIAL[:-1], np.nan]).astype(dtype.numpy)
    else:
        x = np.arange(-3, 9).astype(dtype.numpy)
    position = np.arange(x.size, dtype=np.uint32)
    for largest in (True, False):
        ranks = Ranked(largest).evaluate(x, position)
        np.testing.assert_array_equal(Ranked(largest).emit(NumpyKernel(), x, position), ranks)
        place = RankedPlace()
        np.testing.assert_array_equal(place.evaluate(ranks), position)
        np.testing.assert_array_equal(place.emit(NumpyKernel(), ranks), position)
