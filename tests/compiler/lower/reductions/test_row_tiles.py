"""Rows of transposed operands, which are copied to the stack several at a time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of
from tests.support.guard_pages import guarded_array

import ingot.core as mx
from ingot.tuning_vectors import MAX_ROW_TILE_BYTES, MIN_TILED_ROW


def layer_norm(m, x):  # type: ignore[no-untyped-def]
    centred = x - m.mean(x, axis=-1, keepdims=True)
    return centred / m.sqrt(m.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(600, 17), (1024, 64), (777, 300), (5000, 33), (513, 128)])
def test_transposed_rows_are_reduced_in_the_order_of_others(
    shape: tuple[int, int], dtype: str
) -> None:
    """Bit for bit, whatever rows and elements whole blocks leave over."""
    x = numbers(*shape).astype(getattr(mx, dtype))
    for function in (lambda x: layer_norm(mx, x), softmax):
        run = mx.compile(function)
        expected = run(mx.contiguous(x.T))
        found = [run(x.T) for _ in range(2)][1]  # the second time without a copy
        assert mx.array_equal(found, expected)
        transposed = mx.compile(lambda x, function=function: function(x.T))
        assert mx.array_equal(transposed(x), expected)


def test_transposed_rows_equal_those_of_numpy() -> None:
    """Also behind other axes, and with a second operand that is not transposed."""
    x, y = numbers(3, 600, 50), numbers(3, 50, 600)
    found = mx.compile(lambda x, y: layer_norm(mx, x.swapaxes(1, 2) + y))(x, y)
    expected = layer_norm(np, np.array(x, np.float64).swapaxes(1, 2) + np.array(y))
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-4, atol=1e-5)


def test_rows_that_run_backwards() -> None:
    run = mx.compile(lambda x: layer_norm(mx, x))
    x = numbers(700, 90)
    for view in (x.T[::-1], x.T[:, ::-1], x[:, ::2].T):
        expected = layer_norm(np, np.array(view, np.float64))
        found = [np.array(run(view)) for _ in range(2)][1]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_tiles_replace_the_copy_in_memory() -> None:
    (text,) = texts_of(lambda x: softmax(x.T), numbers(1200, 300))
    assert "local rows0" in text
    assert "prefetch" in text


def test_rows_that_are_short_or_do_not_fit_are_copied_first() -> None:
    for length in (MIN_TILED_ROW - 1, MAX_ROW_TILE_BYTES // 64 + 1):
        nests = nests_of(lambda x: softmax(x.T), numbers(length, 40))
        assert len(nests) == 2, length


@pytest.mark.parametrize(
    ("shape", "dtype", "is_tiled"),
    [
        ((1024, 1024), "float32", True),
        ((1024, 1024), "float16", False),  # a block is half a line wide
        ((1024, 1032), "float16", True),
        ((6000, 1024), "float32", False),  # one line fits, but not two
        ((6000, 1032), "float32", True),
    ],
)
def test_lines_that_share_a_set_of_l1(shape: tuple[int, int], dtype: str, is_tiled: bool) -> None:
    nests = nests_of(lambda x: softmax(x.T), numbers(*shape).astype(getattr(mx, dtype)))
    assert (len(nests) == 1) is is_tiled


def test_tiles_fit_on_the_stack_of_a_thread() -> None:
    """Also if it is an eighth of the usual 8 MiB."""
    x = numbers(MAX_ROW_TILE_BYTES // 64 - 32, 33)
    run = mx.compile(lambda x: layer_norm(mx, x.T))
    found: list[np.ndarray] = []
    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=lambda: found.append(np.array(run(x))))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    expected = layer_norm(np, np.array(x, np.float64).T)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def test_nothing_is_read_beyond_the_last_element() -> None:
    """Blocks that do not fill a vector end where memory that may not be read begins."""
    x = numbers(1023, 70)
    run = mx.compile(lambda x: layer_norm(mx, x.T))
    expected = np.array(run(x))
    for at_end in (True, False):
        assert np.array_equal(np.array(run(guarded_array(x, at_end))), expected)
