"""Shapeless functions over many shapes: the bits of programs that were made for each shape alone,
and what NumPy computes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot
import ingot.core as mx
from ingot.compiler.call.symbolic_program import SymbolicProgram

Arrays = list[np.ndarray]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True)) if x.size else x
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * w + b


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return (mx.softmax(scores, axis=-1) if isinstance(q, mx.array) else softmax(scores)) @ v


# name -> function of ingot, the same in NumPy, shapes of the inputs for lengths m and n
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "chain": (
        lambda x, y: mx.exp(x) * y + x / 2,
        lambda x, y: np.exp(x) * y + x / 2,
        lambda m, n: [(m, n), (m, n)],
    ),
    "broadcast": (
        lambda x, y: (x + y) * 3,
        lambda x, y: (x + y) * 3,
        lambda m, n: [(m, 1, n), (3, n)],
    ),
    "softmax": (lambda x: mx.softmax(x, axis=-1), softmax, lambda m, n: [(m, n)]),
    "layer norm": (
        lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5),
        layer_norm,
        lambda m, n: [(m, n), (n,), (n,)],
    ),
    "mean": (
        lambda x: (x - x.mean(axis=-1, keepdims=True), x.mean(axis=0)),
        lambda x: (x - x.mean(axis=-1, keepdims=True), x.mean(axis=0)),
        lambda m, n: [(m, n)],
    ),
    "columns": (
        lambda x: (x * 2).sum(axis=0) + 1,
        lambda x: (x * 2).sum(axis=0) + 1,
        lambda m, n: [(m, n)],
    ),
    "all": (
        lambda x: ((x * x).sum(), x.size),
        lambda x: ((x * x).sum(), x.size),
        lambda m, n: [(m, n)],
    ),
    "middle": (
        lambda x: mx.sum(mx.exp(x), axis=1) + mx.sum(x, axis=(0, 2)).sum(),
        lambda x: np.exp(x).sum(axis=1) + x.sum(axis=(0, 2)).sum(),
        lambda m, n: [(3, m, n)],
    ),
    "perceptron": (
        lambda x, a, b, c: mx.maximum(x @ a + b, 0) @ c,
        lambda x, a, b, c: np.maximum(x @ a + b, 0) @ c,
        lambda m, n: [(m, n), (n, 7), (7,), (7, n)],
    ),
    "attention": (attention, attention, lambda m, n: [(2, m, n), (2, m, n), (2, m, n)]),
    "transposed": (lambda x, y: x.T + y, lambda x, y: x.T + y, lambda m, n: [(m, n), (n, m)]),
    "slices": (
        lambda x: x[1:, :-1] * x[:-1, 1:],
        lambda x: x[1:, :-1] * x[:-1, 1:],
        lambda m, n: [(m, n)],
    ),
    "backwards": (lambda x: x[::-1] * 2, lambda x: x[::-1] * 2, lambda m, n: [(m, n)]),
    "strided": (
        lambda x: (x[:, ::2] * 2, x[:, ::2].sum(axis=1)),
        lambda x: (x[:, ::2] * 2, x[:, ::2].sum(axis=1)),
        lambda m, n: [(m, n)],
    ),
    "joined": (
        lambda x, y: mx.concatenate([x, y * 2], axis=0),
        lambda x, y: np.concatenate([x, y * 2], axis=0),
        lambda m, n: [(m, n), (3, n)],
    ),
    "padded": (
        lambda x: mx.pad(x, ((1, 2), (0, 3))) + 1,
        lambda x: np.pad(x, ((1, 2), (0, 3))) + 1,
        lambda m, n: [(m, n)],
    ),
    "positions": (
        lambda x: x + mx.arange(x.shape[1]) - mx.arange(x.shape[0])[:, None],
        lambda x: x + np.arange(x.shape[1]) - np.arange(x.shape[0])[:, None],
        lambda m, n: [(m, n)],
    ),
    "first largest": (
        lambda x: mx.argmax(x + 1, axis=-1) if x.size else x,
        lambda x: np.argmax(x + 1, axis=-1) if x.size else x,
        lambda m, n: [(m, n)],
    ),
    "sorted": (
        lambda x: mx.sort(x * 2, axis=-1) + x,
        lambda x: np.sort(x * 2, axis=-1) + x,
        lambda m, n: [(m, n)],
    ),
    "taken": (
        lambda x: mx.take(x, mx.arange(3) % max(x.shape[0], 1), axis=0) * 2 if x.shape[0] else x,
        lambda x: x[np.arange(3) % len(x)] * 2 if len(x) else x,
        lambda m, n: [(m, n)],
    ),
    "added at": (
        lambda x, y: (x * 2).at[mx.array([1, 0, 1])].add(y) if x.shape[0] > 1 else x,
        lambda x, y: _added_at(x * 2, y) if x.shape[0] > 1 else x,
        lambda m, n: [(m, n), (3, n)],
    ),
    "reshaped": (
        lambda x: mx.exp(x).reshape(-1).reshape(x.shape[1], x.shape[0]).T,
        lambda x: np.exp(x).reshape(-1).reshape(x.shape[1], x.shape[0]).T,
        lambda m, n: [(m, n)],
    ),
}
LENGTHS = [(5, 7), (3, 40), (100, 33), (1, 9), (64, 1), (0, 5), (6, 0), (2, 2), (40, 40), (17, 16)]
LONG = [(16, 513), (20, 1024), (700, 130), (3, 9000), (1300, 6)]


def _added_at(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    np.add.at(x, [1, 0, 1], y)
    return x


def inputs(shapes: list[tuple[int, ...]]) -> Arrays:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def values(result: Any) -> list[Any]:
    found = list(result) if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(item) if isinstance(item, mx.array) else item for item in found]


def assert_close(found: np.ndarray, expected: np.ndarray, lengths: tuple[int, int]) -> None:
    """Equality up to rounding, of terms as large as the largest result: sums may cancel."""
    scale = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, 2e-4, 1e-4 + 1e-6 * scale, err_msg=f"{lengths}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_of_one_trace_have_the_bits_of_programs_for_each_shape(name: str) -> None:
    function, in_numpy, shapes = FUNCTIONS[name]
    shapeless, for_each = mx.compile(function, shapeless=True), mx.compile(function)
    for m, n in LENGTHS + LONG:
        arrays = inputs(shapes(m, n))
        found = values(shapeless(*map(mx.array, arrays)))
        same = values(for_each(*map(mx.array, arrays)))
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            expected = values(in_numpy(*(x.astype(np.float64) for x in arrays)))
        for a, b, c in zip(found, same, expected, strict=True):
            if isinstance(a, int):
                assert a == b == c
                continue
            assert a.dtype == b.dtype
            assert a.shape == b.shape == np.shape(c), (m, n)
            assert a.tobytes() == b.tobytes(), (m, n)
            assert_close(a, c, (m, n))


class Counted:
    """How many programs for all shapes were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        original = SymbolicProgram.__init__

        def counted(program: SymbolicProgram, *arguments: Any) -> None:
            self.made += 1
            original(program, *arguments)

        monkeypatch.setattr(SymbolicProgram, "__init__", counted)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shapes_of_one_kind_share_their_machine_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, _, shapes = FUNCTIONS[name]
    counted = Counted(monkeypatch)
    shapeless = mx.compile(function, shapeless=True)
    shapeless.cache_clear()
    # products of few rows are computed in other ways; scatters are divided by powers of two
    first = {"perceptron": 200, "attention": 200, "added at": 70}.get(name, 20)
    for m in range(first, first + 40, 3):
        for n in (70, 81, 90):
            mx.eval(shapeless(*map(mx.array, inputs(shapes(m, n)))))
    assert counted.made == 1
    assert shapeless.cache_info().misses == 1


def test_programs_for_other_shapes_are_no_less_ready_than_the_first() -> None:
    """Memory is given away, inputs may be transposed, and failures name the line."""
    function = mx.compile(lambda x: mx.exp(x) + 1, shapeless=True)
    mx.eval(function(mx.zeros((4, 5))))
    for shape in ((6, 7), (8, 3), (40, 30), (3, 90), (5, 5)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        for _ in range(3):  # copied first, then compiled for all inputs that lie so
            found = np.asarray(function(mx.array(x.T.copy()).T))
            np.testing.assert_allclose(found, np.exp(x) + 1, rtol=1e-5)
    assert function.cache_info().new_layouts in (1, 2)  # by the lengths of rows


def test_profiles_know_the_numbers_of_each_shape() -> None:
    function = mx.compile(lambda x: mx.exp(x) @ x.T, shapeless=True)
    mx.eval(function(mx.zeros((4, 5))))
    x = mx.zeros((10, 20))
    mx.eval(x)
    with ingot.profile() as profile:
        mx.eval(function(x))
    rows = {row.name: row for row in profile.rows}
    assert rows["Exp"].bytes == 2 * 10 * 20 * 4
    assert rows["Matmul"].flops == 2 * 10 * 10 * 20


def laid_out(x: np.ndarray, how: str) -> mx.array:
    """The same numbers, in memory in another way."""
    if how == "transposed":
        return mx.array(np.ascontiguousarray(x.T)).T
    if how == "with gaps":
        return mx.array(np.stack([x, x], axis=-1))[..., 0]
    return mx.array(np.ascontiguousarray(x[::-1]))[::-1]  # "backwards"


@pytest.mark.parametrize("how", ["transposed", "with gaps", "backwards"])
@pytest.mark.parametrize("name", ["chain", "softmax", "mean", "perceptron", "columns", "slices"])
def test_inputs_with_another_layout(name: str, how: str) -> None:
    function, in_numpy, shapes = FUNCTIONS[name]
    shapeless = mx.compile(function, shapeless=True)
    shapeless.cache_clear()
    for m, n in [(20, 70), (21, 33), (40, 90), (1, 9), (64, 1), (0, 5), (30, 30), (3, 600)]:
        arrays = inputs(shapes(m, n))
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            expected = values(in_numpy(*(x.astype(np.float64) for x in arrays)))
        for _ in range(2):
            given = [laid_out(arrays[0], how), *map(mx.array, arrays[1:])]
            mx.eval(given)
            for a, c in zip(values(shapeless(*given)), expected, strict=True):
                assert_close(a, c, (m, n))
