"""Short rows in registers: several at a time, without memory or masks but at their ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.compiler.forms.nest.data import Load, Loop
from ingot.compiler.forms.nest.traversal import statements
from ingot.runtime.processor import vector_bytes
from ingot.tuning_vectors import MAX_ROWS_TOGETHER, MAX_UNROLLED_HALVES

LENGTHS = (
    9,
    15,
    16,
    17,
    24,
    31,
    32,
    33,
    47,
    63,
    64,
    65,
    72,
    95,
    96,
    97,
    128,
    130,
    200,
    256,
    300,
    500,
)

pytestmark = pytest.mark.skipif(vector_bytes() < 64, reason="vectors have no masked lanes")


def softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def centred(x: mx.array) -> mx.array:
    return x - x.mean(axis=-1, keepdims=True)


def normalised(x: mx.array) -> mx.array:
    found = centred(x)
    return found / (found * found).mean(axis=-1, keepdims=True)


def test_elements_are_loaded_once_and_kept_in_no_memory() -> None:
    (nest,) = nests_of(softmax, numbers(8, 40))
    assert all(buffer.argument is not None for buffer in nest.buffers)
    (region,) = nest.parallel
    loads = [each for each in statements(region.body) if isinstance(each, Load)]
    assert sum(each.lanes for each in loads) == 4 * (32 + 8)
    assert not any(isinstance(each, Loop) for each in statements(region.body))


@pytest.mark.parametrize(
    ("length", "count"), [(16, 8), (32, 8), (33, 4), (64, 4), (65, 2), (129, 1), (256, 1)]
)
def test_as_many_rows_at_a_time_as_fit_into_registers(length: int, count: int) -> None:
    (nest,) = nests_of(softmax, numbers(2 * MAX_ROWS_TOGETHER, length))
    (region,) = nest.parallel
    assert region.lengths == (2 * MAX_ROWS_TOGETHER // count,)


def test_sums_leave_registers_for_more_rows_than_functions_and_halves_for_most() -> None:
    for function, dtype, count in (
        (softmax, mx.float32, 2),
        (normalised, mx.float32, 4),
        (softmax, mx.float16, 4),
        (normalised, mx.bfloat16, 8),
        (centred, mx.float32, 1),  # one sum to wait for
    ):
        (nest,) = nests_of(function, numbers(8, 90).astype(dtype))
        assert nest.parallel[0].lengths == (8 // count,)


def test_rows_of_halves_and_of_sums_may_be_longer() -> None:
    for function, dtype, longest in (
        (softmax, mx.float32, 256),
        (softmax, mx.float16, 256),
        (centred, mx.float32, 320),
        (centred, mx.float16, 512),
    ):
        for length, is_loop in ((longest, False), (longest + 1, True)):
            (text,) = texts_of(function, numbers(8, length).astype(dtype))
            assert ("for j in " in text) is is_loop, (longest, length)


def test_rows_that_are_left_over_have_a_loop_of_their_own() -> None:
    (nest,) = nests_of(softmax, numbers(2 * MAX_ROWS_TOGETHER + 3, 30))
    assert [region.lengths for region in nest.parallel] == [(2,), (3,)]


def test_a_single_row_is_a_loop() -> None:
    (text,) = texts_of(softmax, numbers(1, 100))
    assert "for i in " in text


def test_short_rows_of_halves_are_unrolled_if_they_have_functions() -> None:
    for length, is_unrolled in ((MAX_UNROLLED_HALVES - 1, True), (MAX_UNROLLED_HALVES + 1, False)):
        (text,) = texts_of(softmax, numbers(64, length).astype(mx.bfloat16))
        assert (" x 32" not in text) is is_unrolled


def _float64(x: mx.array) -> np.ndarray:
    return np.array(x.astype(mx.float32)).astype(np.float64)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CASES: list[tuple[Callable[[mx.array], mx.array], Callable[[np.ndarray], np.ndarray]]] = [
    (softmax, _softmax),
    (centred, lambda x: x - x.mean(-1, keepdims=True)),
    (lambda x: x.sum(axis=-1), lambda x: x.sum(-1)),
    (lambda x: x.max(axis=-1), lambda x: x.max(-1)),
    (lambda x: x.min(axis=-1), lambda x: x.min(-1)),
    (lambda x: (x * x).mean(axis=-1) + x[:, 0], lambda x: (x * x).mean(-1) + x[:, 0]),
    (lambda x: mx.logsumexp(x, axis=-1), lambda x: np.log(np.exp(x).sum(-1))),
]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize(("function", "reference"), CASES)
def test_short_rows_are_those_of_numpy(
    dtype: mx.Dtype,
    function: Callable[[mx.array], mx.array],
    reference: Callable[[np.ndarray], np.ndarray],
) -> None:
    tolerance = {mx.float32: 1e-5, mx.float16: 1e-2, mx.bfloat16: 1e-1}[dtype]
    for length in LENGTHS:
        x = mx.array(np.random.default_rng(length).normal(size=(11, length))).astype(dtype)
        found = _float64(mx.compile(lambda x: function(x))(x))
        np.testing.assert_allclose(found, reference(_float64(x)), tolerance, tolerance)


def test_the_order_of_summation_is_that_of_other_rows() -> None:
    """A strided row is summed by loops, element by element in the same lanes."""
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        values = (rng.normal(size=(9, length)) * 10.0 ** rng.integers(-6, 7, (9, length))).astype(
            np.float32
        )
        x, apart = mx.array(values), mx.array(np.repeat(values, 3, axis=1))[:, ::3]
        run = mx.compile(lambda x: (x.sum(axis=-1), x / x.sum(axis=-1, keepdims=True)))
        for one, other in zip(run(x), run(apart), strict=True):
            assert np.array_equal(np.array(one), np.array(other)), length


def test_integers_and_negative_zeros() -> None:
    values = np.random.default_rng(0).integers(-(2**31), 2**31, (19, 50)).astype(np.int32)
    found = mx.compile(lambda x: (x.sum(axis=-1), x.max(axis=-1), x.min(axis=-1)))(mx.array(values))
    with np.errstate(over="ignore"):
        assert np.array_equal(np.array(found[0]), values.sum(-1, dtype=np.int32))
    assert np.array_equal(np.array(found[1]), values.max(-1))
    assert np.array_equal(np.array(found[2]), values.min(-1))
    zeros = mx.array(np.full((9, 40), -0.0, np.float32))
    total = np.array(mx.compile(lambda x: x.sum(axis=-1))(zeros))
    assert not np.signbit(total).any()


def test_rows_with_operands_of_rows_and_of_columns() -> None:
    rng = np.random.default_rng(0)
    x, scale, weight = (
        rng.normal(size=shape).astype(np.float32) for shape in ((21, 37), (21,), (37,))
    )

    def weighted(x: mx.array, scale: mx.array, weight: mx.array) -> tuple[mx.array, mx.array]:
        scaled = x * scale[:, None]
        total = (scaled * weight).sum(axis=-1)
        return scaled - total[:, None], total + scale

    found = mx.compile(weighted)(mx.array(x), mx.array(scale), mx.array(weight))
    scaled = x.astype(np.float64) * scale[:, None]
    total = (scaled * weight).sum(-1)
    np.testing.assert_allclose(np.array(found[0]), scaled - total[:, None], 1e-5, 1e-5)
    np.testing.assert_allclose(np.array(found[1]), total + scale, 1e-5, 1e-5)


def test_special_values_stay_in_their_rows() -> None:
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        values = np.random.default_rng(0).normal(size=(16, 45)).astype(np.float32)
        values[3, 44], values[9, 0], values[12, 33] = np.inf, np.nan, -np.inf
        found = _float64(mx.compile(softmax)(mx.array(values).astype(dtype)))
        is_bad = np.isnan(found).any(-1)
        assert np.flatnonzero(is_bad).tolist() == [3, 9]
        assert found[12, 33] == 0.0


def test_functions_are_not_inlined_for_many_rows() -> None:
    """LLVM takes long for them."""

    def several(x: mx.array) -> mx.array:
        return mx.softmax(mx.exp(x) * mx.tanh(x) + mx.sin(x), axis=-1)

    for function, count in ((softmax, 8), (several, 2)):
        (nest,) = nests_of(function, numbers(8, 31))
        assert nest.parallel[0].lengths == (8 // count,)
