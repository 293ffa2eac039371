"""Packed operands that are kept from call to call: found again, counted, and never stale."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.processes import run_in_threads

import ingot.core as mx
from ingot.runtime.processor import processor_features

ROWS, LENGTH, COLUMNS = 70, 120, 150


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def own(values: np.ndarray) -> mx.array:
    """An array with memory of its own."""
    found = mx.array(values) + 0
    mx.eval(found)
    return found


def layer(x: mx.array, w: mx.array) -> mx.array:
    return x @ w.T


class Layer:
    """A compiled product, called often enough for its panels to be kept."""

    def __init__(self, w: mx.array) -> None:
        self.compiled = mx.compile(layer)
        self.values = numbers((ROWS, LENGTH))
        self.x = own(self.values)
        for _ in range(4):
            mx.eval(self.compiled(self.x, w))

    def require(self, w: mx.array, expected: np.ndarray) -> None:
        """Several calls give the product with the expected matrix."""
        wanted = self.values.astype(np.float64) @ expected.astype(np.float64).T
        for _ in range(3):
            found = self.compiled(self.x, w)
            mx.eval(found)
            np.testing.assert_allclose(np.array(found), wanted, rtol=1e-4, atol=1e-4)


def kept_of(function: Callable[..., Any], *arguments: mx.array) -> list[Any]:
    return list(mx.compile(function).explain(*arguments).stages.plan.kept.values())


def test_what_one_input_determines_is_kept() -> None:
    x, w = own(numbers((ROWS, LENGTH))), own(numbers((COLUMNS, LENGTH)))
    ((source, writers),) = kept_of(layer, x, w)
    assert source.kind == "input"
    assert source.step.shape == (COLUMNS, LENGTH)
    assert writers == (0,)
    long, wide = own(numbers((3 * LENGTH, ROWS))), own(numbers((COLUMNS, 3 * LENGTH)))
    both = kept_of(lambda x, w: x.T @ w.T, long, wide)  # the left operand is packed too
    assert sorted(source.step.shape for source, _ in both) == sorted([long.shape, wide.shape])
    assert kept_of(lambda x, w: x @ (w * 2).T, x, w) == []  # not an input
    halves = [y.astype(mx.bfloat16) for y in (x, w)]
    shapes = [source.step.shape for source, _ in kept_of(layer, *halves)]
    if "avx512_bf16" in processor_features():
        assert shapes == [(COLUMNS, LENGTH)]  # panels of pairs
    else:
        assert sorted(shapes) == sorted([x.shape, w.shape])  # both converted to float32


def test_panels_are_counted_and_released() -> None:
    w = own(numbers((COLUMNS, LENGTH)))
    made = mx.compile(layer)
    x = own(numbers((ROWS, LENGTH)))
    mx.eval(made(x, w))
    gc.collect()
    mx.clear_cache()  # blocks that are used again may be a little larger
    before = mx.get_active_memory()
    for _ in range(3):
        mx.eval(made(x, w))
    kept = mx.get_active_memory() - before
    assert kept >= COLUMNS * LENGTH * 4
    mx.clear_cache()
    assert mx.get_active_memory() == before
    for _ in range(3):
        mx.eval(made(x, w))
    assert mx.get_active_memory() - before >= COLUMNS * LENGTH * 4
    del w
    assert mx.get_active_memory() < before
    del made
    gc.collect()


def test_captured_matrices_are_packed_once() -> None:
    values = numbers((COLUMNS, LENGTH), 1)
    w, given = own(values), numbers((ROWS, LENGTH))
    x = own(given)
    made = mx.compile(lambda x: layer(x, w))
    ((source, _),) = made.explain(x).stages.plan.kept.values()
    assert source.kind == "constant"
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    for number in range(4):
        found = np.array(made(x + number))
        np.testing.assert_allclose(found, (given + number) @ values.T, rtol=1e-3, atol=1e-3)
    assert mx.get_active_memory() - before >= COLUMNS * LENGTH * 4
    del made
    gc.collect()
    mx.clear_cache()
    assert mx.get_active_memory() <= before


def test_few_rows_are_multiplied_in_place() -> None:
    w = own(numbers((COLUMNS, 600), 1))
    assert len(kept_of(layer, own(numbers((32, 600))), w)) == 1
    assert kept_of(layer, own(numbers((31, 600))), w) == []


def test_another_array_gets_panels_of_its_own() -> None:
    first, second = numbers((COLUMNS, LENGTH), 1), numbers((COLUMNS, LENGTH), 2)
    w, v = own(first), own(second)
    called = Layer(w)
    for _ in range(2):
        called.require(v, second)
        called.require(w, first)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_panels_of_both_operands(dtype: str) -> None:
    def given(seed: int, columns: int) -> tuple[mx.array, np.ndarray]:
        x = own(numbers((301, columns), seed)).astype(getattr(mx, dtype))
        return x, np.array(x.astype(mx.float32))

    (x, a), (w, b), (y, c) = given(1, 67), given(2, 150), given(3, 67)
    made = mx.compile(lambda x, w: x.T @ w)
    tolerance = 1e-4 if dtype == "float32" else 0.1
    for _ in range(3):
        for left, values in ((x, a), (y, c), (y, c), (x, a)):
            found = np.array(made(left, w).astype(mx.float32))
            np.testing.assert_allclose(found, values.T @ b, rtol=tolerance, atol=10 * tolerance)
    x[300] = 2
    a[300] = 2
    w[0] = 3
    b[0] = 3
    for _ in range(3):
        found = np.array(made(x, w).astype(mx.float32))
        np.testing.assert_allclose(found, a.T @ b, rtol=tolerance, atol=10 * tolerance)


def test_updates_in_place() -> None:
    values = numbers((COLUMNS, LENGTH), 1)
    w = own(values)
    called = Layer(w)
    w[3] = 0.5
    values[3] = 0.5
    called.require(w, values)
    w += 1
    called.require(w, values + 1)


def test_donated_arrays() -> None:
    values = numbers((COLUMNS, LENGTH), 1)
    w = own(values)
    called = Layer(w)
    update = mx.compile(lambda w: w - 0.25)
    for _ in range(3):
        w = update(w)
        values = values - np.float32(0.25)
        mx.eval(w)
        called.require(w, values)


@pytest.mark.parametrize("export", [np.asarray, memoryview, np.from_dlpack])
def test_writes_through_other_libraries(export: Callable[[Any], Any]) -> None:
    values = numbers((COLUMNS, LENGTH), 1)
    w = own(values)
    called = Layer(w)
    shared = np.asarray(export(w))
    called.require(w, values)
    for row in (3, 5):
        shared[row] = 2
        values[row] = 2
        called.require(w, values)
    del shared
    called.require(w, values)


def test_calls_from_several_threads() -> None:
    matrices = [numbers((COLUMNS, LENGTH), seed) for seed in range(3)]
    arrays = [own(values) for values in matrices]
    called = Layer(arrays[0])

    def run(number: int) -> None:
        for _ in range(30):
            called.require(arrays[number], matrices[number])

    run_in_threads(3, run)


def test_products_without_compile() -> None:
    values = numbers((COLUMNS, LENGTH), 1)
    w, x = own(values), own(numbers((ROWS, LENGTH)))
    for row in range(4):
        for _ in range(4):
            found = x @ w.T
            mx.eval(found)
        np.testing.assert_allclose(
            np.array(found), numbers((ROWS, LENGTH)) @ values.T, rtol=1e-3, atol=1e-4
        )
        w[row] = 0.0
        values[row] = 0


def multiplied(x: mx.array, *matrices: mx.array) -> int:
    """Multiplies by transposed views of matrices, one product after the other. Returns the bytes
    that are kept then.
    """
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    for _ in range(3):
        for w in matrices:
            mx.eval(x @ w.T)
    return mx.get_active_memory() - before


def test_transposed_views_without_compile() -> None:
    x, w = own(numbers((ROWS, LENGTH))), own(numbers((COLUMNS, LENGTH), 1))
    nbytes = COLUMNS * LENGTH * 4
    assert multiplied(x, w) >= nbytes
    mx.eval(x @ w[:, :].T)
    np.array(w)  # nobody has its memory from here on
    assert multiplied(x, w) >= nbytes
    shared = np.asarray(w)
    assert multiplied(x, w) == 0
    del shared
    assert multiplied(x, w) >= nbytes
    layers = [own(numbers((COLUMNS, LENGTH), seed)) for seed in range(4)]
    assert multiplied(x, *layers) >= 4 * nbytes
    before = mx.get_active_memory()
    del layers[1]
    assert before - mx.get_active_memory() >= 2 * nbytes  # the matrix and its panels


def test_views_of_memory_that_others_write_to() -> None:
    values, given = numbers((COLUMNS, LENGTH), 1), numbers((ROWS, LENGTH))
    w, x = own(values), own(given)
    view = w.T
    mx.eval(view)

    def require() -> None:
        for _ in range(3):
            np.testing.assert_allclose(np.array(x @ view), given @ values.T, rtol=1e-3, atol=1e-4)

    require()
    shared = np.asarray(w)
    del w  # what refers to the memory are the view and NumPy's array, as many as before
    for row in range(3):
        shared[row] = values[row] = row
        require()


def test_views_with_different_offsets() -> None:
    values, given = numbers((2 * COLUMNS, LENGTH), 1), numbers((ROWS, LENGTH))
    w, x = own(values), own(given)
    for _ in range(4):
        for part in (slice(None, COLUMNS), slice(COLUMNS, None)):
            found = np.array(x @ w[part].T)
            np.testing.assert_allclose(found, given @ values[part].T, rtol=1e-3, atol=1e-4)


def test_a_donated_view_of_all_elements() -> None:
    values, given = numbers((COLUMNS, LENGTH), 1), numbers((ROWS, LENGTH))
    x, flat = own(given), mx.flatten(own(values))
    for _ in range(3):
        for _ in range(3):
            found = np.array(x @ flat.reshape(COLUMNS, LENGTH).T)
            np.testing.assert_allclose(found, given @ values.T, rtol=1e-3, atol=1e-4)
        flat[: 2 * LENGTH] = 0.5  # in place, because nothing else refers to the memory
        values[:2] = 0.5
        mx.eval(flat)
        flat = mx.flatten(flat)
        flat += 1
        mx.eval(flat)
        values += 1


def test_loops_pack_fixed_operands_once() -> None:
    w, h = own(numbers((40, 40), 1) / 10), own(numbers((30, 40), 2))

    def repeated(h: mx.array, w: mx.array) -> mx.array:
        return mx.fori_loop(0, 5, lambda i, h: mx.tanh(h @ w), h)

    expected = np.array(h, np.float64)
    for _ in range(5):
        expected = np.tanh(expected @ np.array(w, np.float64))
    for _ in range(3):
        found = mx.compile(repeated)(h, w)
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-4, atol=1e-5)
