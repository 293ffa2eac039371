"""Rows: reductions with what needs them in one kernel, and what is kept meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.compiler.forms.nest.data import Load, Loop
from ingot.runtime.processor import vector_bytes
from ingot.tuning import MAP_TILE, MAX_KEPT_ROW_BYTES
from ingot.tuning_vectors import MIN_ROWS_ACROSS


def softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_softmax_is_one_kernel() -> None:
    (nest,) = nests_of(softmax, numbers(6, 600))
    assert nest.parallel[0].lengths == (6,)


def test_costly_elements_are_kept_in_the_output_until_they_are_divided() -> None:
    (text,) = texts_of(softmax, numbers(6, 608))
    # each loop that computes exponentials stores them, and the last one divides what it loads
    assert text.count("exp(") == text.count("a1[i, ") - 2
    assert "local row" not in text


def test_cheap_elements_are_computed_again() -> None:
    def centred(x: mx.array) -> mx.array:
        return (x * 2 - (x * 2).mean(axis=-1, keepdims=True)).sum(axis=-1)

    for text in texts_of(centred, numbers(6, 600)):
        assert "local row" not in text


def test_elements_that_have_no_output_to_wait_in_are_kept_on_the_stack() -> None:
    def squares(x: mx.array) -> mx.array:
        e = mx.exp(mx.sin(x))
        return ((e - e.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)

    (text,) = texts_of(squares, numbers(6, 600))
    assert "local row0: float32[600]" in text
    longer = MAX_KEPT_ROW_BYTES // 4 + 1
    assert all("local row" not in each for each in texts_of(squares, numbers(2, longer)))


def test_every_pass_is_a_loop_along_the_row() -> None:
    (nest,) = nests_of(softmax, numbers(6, 400))
    loops = [each for each in nest.parallel[0].body if isinstance(each, Loop)]
    assert len(loops) >= 3


LONG = (513, 600, 8192, 9001)  # blocks of 512, parts of 16 of these, and remainders


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_long_rows_with_any_remainder(dtype: str) -> None:
    rng = np.random.default_rng(0)
    run = mx.compile(lambda x: (x.sum(axis=1), (x + x).max(axis=1)))
    for length in LONG:
        values = rng.integers(-5, 6, (17, length)).astype(dtype)
        total, largest = run(mx.array(values))
        wide = values.astype(np.int64)
        assert np.array_equal(np.array(total), wide.sum(1).astype(dtype)), length
        assert np.array_equal(np.array(largest), 2 * wide.max(1)), length


def normalised(x: mx.array) -> mx.array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / (centred * centred).mean(axis=-1, keepdims=True)


def test_halves_are_kept_where_computing_them_again_would_round_again() -> None:
    """And so are operands that two passes convert, in the same row."""
    halves = numbers(6, 608).astype(mx.float16)
    (text,) = texts_of(normalised, halves)
    assert text.count("local row") == 1
    assert "local row0: float32[608]" in text
    before, after = text.split("for j in 0..608 vector\n")
    assert "a1[i, " not in before
    assert "float16(row0[j]) / " in after
    (text,) = texts_of(normalised, numbers(6, 608))
    assert "local row" not in text


def test_halves_of_rows_longer_than_l1_are_kept_in_the_output() -> None:
    longer = MAX_KEPT_ROW_BYTES // 4 + 16
    (text,) = texts_of(normalised, numbers(2, longer).astype(mx.float16))
    assert "local row" not in text
    assert text.count(" - ") == text.count("a1[i, ") - 2


def test_what_only_ranks_read_is_not_converted_to_be_kept() -> None:
    (text,) = texts_of(softmax, numbers(6, 600).astype(mx.float16))
    kept = [line.split(" = ")[1] for line in text.splitlines() if "row0[" in line.split("=")[0]]
    assert kept
    assert not any("a0" in each for each in kept)
    assert "float16(row0[j]) / " in text


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("length", [24, 33, 300, 600, 4097])
def test_kept_halves_have_the_bits_of_one_op_after_the_other(dtype: mx.Dtype, length: int) -> None:
    def alone(x: mx.array) -> mx.array:
        mx.eval(x)
        return x

    x = alone(numbers(7, length).astype(dtype) * 3 + 1)
    centred = alone(x - alone(x.mean(axis=-1, keepdims=True)))
    squares = alone(alone(centred * centred).mean(axis=-1, keepdims=True))
    expected = alone(centred / squares).astype(mx.float32)
    found = mx.compile(normalised)(x).astype(mx.float32)
    assert np.array_equal(np.array(found), np.array(expected))


@pytest.mark.parametrize("length", [513, 545, 600, 4097])
def test_what_is_left_of_a_row_is_read_in_as_few_lanes_as_hold_it(length: int) -> None:
    """Lanes beyond the end of a row wait for memory of the next."""
    (text,) = texts_of(lambda x: x.sum(axis=1), numbers(17, length))
    rest = length % 32
    lanes = 8 if rest <= 8 else 32
    assert f"for j in 0..{lanes} lanes\n      if j < {rest}\n" in text


@pytest.mark.parametrize("length", [12, 24, 33])
def test_indices_of_gathered_rows_are_loaded_before_the_row(length: int) -> None:
    """In masked lanes, LLVM would gather element by element."""
    index = mx.array(np.random.default_rng(0).integers(-50, 50, (6, 20)).astype(np.int32))
    nest = nests_of(lambda x, i: (x[i] * 2).sum(axis=-1), numbers(50, length), index)[-1]
    body = nest.parallel[0].body
    loads = [each for each in body if isinstance(each, Load) and each.buffer.dtype is mx.int32]
    assert len(loads) == 1


@pytest.mark.skipif(vector_bytes() < 64, reason="vectors have no masked lanes")
def test_what_remains_after_whole_vectors_of_the_last_pass_is_masked() -> None:
    for length, lanes in ((287, 16), (289, 8), (4105, 16)):
        (text,) = texts_of(softmax, numbers(6, length))
        rest = length % 16
        *_, last = text.split(f"for j in 0..{length - rest} vector\n")
        assert f"for j in 0..{lanes} lanes\n      if j < {rest}\n" in last, length
    (text,) = texts_of(softmax, numbers(6, 288))
    assert "if j < " not in text.split("for j in 0..288 vector\n")[-1]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_masked_passes_are_those_of_numpy(dtype: mx.Dtype) -> None:
    for length in (257, 271, 287, 319, 500, 511, 700, 1023):
        x = mx.array(np.random.default_rng(length).normal(size=(5, length))).astype(dtype)
        wide = np.array(x.astype(mx.float32)).astype(np.float64)
        e = np.exp(wide - wide.max(-1, keepdims=True))
        found = np.array(mx.compile(softmax)(x).astype(mx.float32))
        tolerance = {mx.float32: 1e-6, mx.float16: 2e-3, mx.bfloat16: 2e-2}[dtype]
        np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True), tolerance, tolerance / 100)


def squared_distances(x: mx.array, y: mx.array) -> mx.array:
    return ((x[:, None] - y[None]) ** 2).sum(axis=-1)


def test_vectors_run_across_short_rows_along_the_last_axis() -> None:
    (nest,) = nests_of(squared_distances, numbers(6, 3), numbers(40, 3))
    (loop,) = nest.parallel[0].body
    assert isinstance(loop, Loop)
    assert loop.kind == "vector"
    assert nest.parallel[0].lengths == (6,)
    # tiles of a long axis are shared by threads, and a short one is part of the parallel loop
    (nest,) = nests_of(squared_distances, numbers(2, 3), numbers(3 * MAP_TILE, 3))
    assert nest.parallel[0].lengths == (2, 3)
    (nest,) = nests_of(squared_distances, numbers(6, 3), numbers(MIN_ROWS_ACROSS - 1, 3))
    assert nest.parallel[0].lengths == (6, MIN_ROWS_ACROSS - 1)


@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.parametrize("count", [7, 8, 19, MAP_TILE + 5])
def test_short_rows_are_those_of_numpy(count: int, width: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, (n, width)).astype(np.float32) for n in (5, count))
    expected = ((x[:, None] - y[None]) ** 2).sum(-1)
    compiled, shapeless = (
        mx.compile(squared_distances),
        mx.compile(squared_distances, shapeless=True),
    )
    for function in (compiled, shapeless):
        np.testing.assert_array_equal(np.array(function(mx.array(x), mx.array(y))), expected)

    def shares(x: mx.array, y: mx.array) -> mx.array:
        return mx.softmax(x[:, None] * y[None], axis=-1)

    e = np.exp(x[:, None] * y[None] - (x[:, None] * y[None]).max(-1, keepdims=True))
    result = np.array(mx.compile(shares)(mx.array(x), mx.array(y)))
    np.testing.assert_allclose(result, e / e.sum(-1, keepdims=True), rtol=2e-6, atol=1e-30)
