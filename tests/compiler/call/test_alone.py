"""Ops alone as programs: made once for a layout of inputs, and only where the op says so."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot._native import NativeProgram, SmallProduct
from ingot.compiler.call import alone, symbolic_program
from ingot.compiler.call.alone import _program, _varying_axes, program_alone
from ingot.compiler.machine import kernels
from ingot.ops.attention import step
from ingot.ops.elementwise.exponential import Exp
from ingot.ops.products.contraction import Matmul
from ingot.tuning import MIN_RECURRING_ELEMENTS


class Alone(Exp):
    """An op that runs by itself where it has elements."""

    is_compiled_often = False

    def runs_alone(self, *shapes: Any) -> bool:
        return all(0 not in shape for shape in shapes)

    def small_product(self, *values: np.ndarray) -> None:
        return None


def test_results_are_those_of_compiled_functions() -> None:
    x = np.linspace(-3, 3, 1000, dtype=np.float32).reshape(20, 50)
    for values in (x, x.T):
        program = program_alone(None, Alone(), (values,))  # type: ignore[arg-type]
        assert isinstance(program, NativeProgram)
        found = program.run((values,))[0]
        np.testing.assert_array_equal(found, np.array(mx.compile(mx.exp)(mx.array(values))))


def test_ops_may_leave_it_to_their_own_rule() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert program_alone(None, Alone(), (empty,)) is None  # type: ignore[arg-type]


def test_small_products_run_without_a_program() -> None:
    a, b = np.zeros((4, 5), np.float32), np.zeros((5, 6), np.float32)
    halves = (a.astype(np.float16), b.astype(np.float16))
    for operands in ((a, b), halves, (a[:, ::2], b[::2])):
        assert isinstance(program_alone(None, Matmul(), operands), SmallProduct)  # type: ignore[arg-type]
    deep = (a.reshape((1,) * 12 + a.shape), b.reshape((1,) * 12 + b.shape))
    assert program_alone(None, Matmul(), deep) is None  # type: ignore[arg-type]


def test_programs_are_kept_by_layouts() -> None:
    _program.cache_clear()
    x = np.zeros((4, 5), np.float32)
    for values in (x, x, x.T, np.zeros((5, 4), np.float32)):
        program_alone(None, Alone(), (values,))  # type: ignore[arg-type]
    info = _program.cache_info()
    assert (info.hits, info.misses) == (1, 3)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_new_lengths_of_compositions_compile_nothing(
    is_transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rotated(library: Any, length: int) -> np.ndarray:
        x = np.random.default_rng(length).normal(size=(1, 3, length, 16)).astype(np.float32)
        if is_transposed:
            q = library.array(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        else:
            q = library.array(x)
        options = {"traditional": False, "base": 10000.0, "scale": 1.0, "offset": 5}
        return np.array(library.fast.rope(q, 16, **options))

    rotated(mx, 2)  # compiles

    def refuse(text: str, *_: Any) -> Any:
        raise AssertionError(f"compiles {text}")

    monkeypatch.setattr(kernels._Kernel, "of", refuse)  # of a text that is not in memory
    for length in (3, 4, 7, 13, 30):
        np.testing.assert_allclose(rotated(mx, length), rotated(mlx, length), atol=1e-5)


def _linear(library: Any, rows: int, generator: np.random.Generator) -> np.ndarray:
    """As a layer of a model: the same matrix, and another number of rows each time."""
    x = generator.normal(size=(1, rows, 256)).astype(np.float32)
    w = np.random.default_rng(0).normal(size=(320, 256)).astype(np.float32)
    return np.array(library.array(x) @ library.array(w).T)


def _quantized(library: Any, rows: int, generator: np.random.Generator) -> np.ndarray:
    x = generator.normal(size=(1, rows, 256)).astype(np.float32)
    w = np.random.default_rng(0).normal(size=(320, 256)).astype(np.float32)
    return np.array(library.quantized_matmul(library.array(x), *library.quantize(library.array(w))))


def _scores(library: Any, rows: int, generator: np.random.Generator) -> np.ndarray:
    """As in attention: both factors have another length each time, and heads lie interleaved."""
    q, k = generator.normal(size=(2, 1, rows, 3, 64)).astype(np.float32)
    return np.array(library.array(q).swapaxes(1, 2) @ library.array(k).transpose(0, 2, 3, 1))


def _step(library: Any, rows: int, generator: np.random.Generator) -> np.ndarray:
    """As in a step of decoding: one query per head, and one more key each time."""
    q, k = (generator.normal(size=(6, each, 32)).astype(np.float32) for each in (1, rows))
    scores = library.array(q) @ library.array(k).swapaxes(1, 2)
    return np.array(scores @ library.array(k))


def _refuse(*_: Any) -> Any:
    raise AssertionError("makes a program")


@pytest.mark.parametrize(
    ("product", "examples"), [(_linear, 3), (_quantized, 1), (_scores, 3), (_step, 3)]
)
def test_new_lengths_of_products_compile_nothing(
    product: Any, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(rows: int) -> None:
        ours, theirs = (product(x, rows, np.random.default_rng(rows)) for x in (mx, mlx))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)

    for rows in (230, 250, 270)[:examples]:  # the last tells what varies
        compare(rows)

    monkeypatch.setattr(alone, "program_of", _refuse)
    monkeypatch.setattr(symbolic_program, "run_pipeline", _refuse)
    monkeypatch.setattr(kernels._Kernel, "of", _refuse)
    for rows in (231, 243, 288, 297):
        compare(rows)


def test_short_prompts_of_new_lengths_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alone._products.cache_clear()
    _native.forget_programs()
    np.array(_quantized(mx, 22, np.random.default_rng(0)))
    monkeypatch.setattr(symbolic_program, "run_pipeline", _refuse)
    monkeypatch.setattr(alone, "program_of", _refuse)
    for rows in (9, 17, 24, 32):
        ours, theirs = (_quantized(x, rows, np.random.default_rng(rows)) for x in (mx, mlx))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


def test_the_fewest_axes_in_which_products_differed_vary() -> None:
    layers = [((37, 8), (8, 5)), ((37, 8), (8, 6)), ((37, 8), (8, 7))]
    # other matrices for the same rows are those of other layers
    assert _varying_axes(((37, 8), (8, 9)), layers) is None
    layers += [((61, 8), (8, 5)), ((61, 8), (8, 6)), ((61, 8), (8, 7))]
    assert _varying_axes(((61, 8), (8, 9)), layers) is None
    assert _varying_axes(((99, 8), (8, 6)), layers) == ((0,), ())
    scores = [((3, 37, 8), (3, 8, 37)), ((3, 61, 8), (3, 8, 61))]
    assert _varying_axes(((3, 99, 8), (3, 8, 99)), scores) == ((1,), (2,))
    assert _varying_axes(((3, 99, 9), (3, 9, 99)), scores) is None
    assert _varying_axes(((3, 99, 8), (3, 8, 99)), scores[:1]) is None
    # stacks on the right are not weights: a sequence grows, and its rows are as many as before
    steps = [((3, 1, 8), (3, 8, 37)), ((3, 1, 8), (3, 8, 38))]
    assert _varying_axes(((3, 1, 8), (3, 8, 39)), steps) == ((), (2,))
    assert _varying_axes(((3, 1, 8), (3, 8, 39)), steps[1:]) is None
    sums = [((3, 1, 37), (3, 37, 8)), ((3, 1, 38), (3, 38, 8))]
    assert _varying_axes(((3, 1, 39), (3, 39, 8)), sums) == ((2,), (1,))


def test_small_convolutions_that_recur_get_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "MIN_SMALL_RUNS_ALONE", 3)
    mx.eval(mx.fast.rms_norm(mx.ones((2, 8)), None, 1e-5))  # loads the compiler
    alone._runs.cache_clear()
    _program.cache_clear()
    generator = np.random.default_rng(0)
    w = generator.normal(size=(7, 4, 1)).astype(np.float32)
    for run in range(6):
        x = generator.normal(size=(1, 4, 7)).astype(np.float32)
        ours, theirs = (
            np.array(library.conv1d(library.array(x), library.array(w), groups=7))
            for library in (mx, mlx)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert _program.cache_info().misses == (run >= 2), run  # the third one makes it
    mx.eval(mx.conv1d(mx.ones((1, 9, 7)), mx.array(w), groups=7))
    assert _program.cache_info().misses == 1  # other lengths are counted by themselves


OFTEN: dict[str, tuple[Any, Any]] = {
    "sigmoid": (mx.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "erf": (mx.erf, lambda x: np.vectorize(math.erf)(x)),
    "select": (lambda x: mx.where(x > 0, x, -2 * x), lambda x: np.where(x > 0, x, -2 * x)),
    "sum": (lambda x: mx.sum(x, axis=0), lambda x: x.sum(0)),
    "max": (lambda x: mx.max(x, axis=1), lambda x: x.max(1)),
    "transposed": (lambda x: mx.exp(x.T), lambda x: np.exp(x.T)),
    "reversed": (lambda x: x[::-1, ::2] * 3, lambda x: x[::-1, ::2] * 3),
    "broadcast": (lambda x: x + x[:, :1], lambda x: x + x[:, :1]),
}


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("name", OFTEN)
def test_ops_that_are_evaluated_often_get_programs(name: str, dtype: mx.Dtype) -> None:
    function, expected = OFTEN[name]
    x = mx.array(np.random.default_rng(0).normal(size=(29, 31))).astype(dtype)
    reference = expected(np.array(x.astype(mx.float32)).astype(np.float64))
    tolerance = 1e-5 if dtype is mx.float32 else 3e-2
    alone._recurring.cache_clear()
    _native.forget_programs()
    for number in range(MIN_RECURRING_ELEMENTS // x.size + 2):
        found = function(x)
        if number < 3:
            assert alone._recurring.cache_info().misses == 0
            np.testing.assert_allclose(found.astype(mx.float32), reference, tolerance, tolerance)
        mx.eval(found)
    assert alone._recurring.cache_info().misses > 0
    np.testing.assert_allclose(found.astype(mx.float32), reference, tolerance, tolerance)


def test_recurring_ops_stay_with_their_rules_without_fusion() -> None:
    x = mx.ones((3, 1000))
    made = alone._recurring.cache_info().misses
    mx.set_eager_fusion(False)
    try:
        for _ in range(MIN_RECURRING_ELEMENTS // x.size + 2):
            mx.eval(mx.tan(x))
    finally:
        mx.set_eager_fusion(True)
    assert alone._recurring.cache_info().misses == made


@pytest.mark.parametrize("name", OFTEN)
def test_new_lengths_of_recurring_ops_compile_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, expected = OFTEN[name]
    generator = np.random.default_rng(0)

    def recur(length: int) -> None:
        values = generator.normal(size=(length, 40)).astype(np.float32)
        x = mx.array(values)
        for _ in range(MIN_RECURRING_ELEMENTS // x.size + 2):
            found = function(x)
            mx.eval(found)
        np.testing.assert_allclose(found, expected(values.astype(np.float64)), 1e-4, 1e-4)

    is_square = name == "transposed"  # its rows are as long as there are rows of the argument
    recur(100)
    if not is_square:
        monkeypatch.setattr(symbolic_program, "run_pipeline", _refuse)
        monkeypatch.setattr(kernels._Kernel, "of", _refuse)
    for length in (101, 150, 190):
        recur(length)


Q, K, V = (
    np.random.default_rng(seed).normal(size=(2, heads, 90, 16)).astype(np.float32)
    for seed, heads in enumerate((6, 2, 2))
)
HIDDEN = np.random.default_rng(3).random((90, 90)) < 0.3


def _attention(library: Any, queries: int, keys: int, kind: str) -> Any:
    """Of heads that lie interleaved, as those of a model do."""
    q, k, v = (
        library.array(x[:, :, :length].swapaxes(1, 2)).swapaxes(1, 2)
        for x, length in ((Q, queries), (K, keys), (V, keys))
    )
    given: dict[str, Any] = {"mask": "causal" if kind == "causal" else None}
    if kind == "mask":
        given["mask"] = library.array(HIDDEN[:queries, :keys] | (np.arange(keys) == 0))
    elif kind == "sinks":
        given["sinks"] = library.array(np.linspace(-2, 2, 6, dtype=np.float32))
    return library.fast.scaled_dot_product_attention(q, k, v, scale=0.25, **given)


@pytest.mark.parametrize("kind", ["causal", "mask", "sinks", "plain"])
def test_new_lengths_of_prompts_compile_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    np.array(_attention(mx, 40, 50, kind))
    monkeypatch.setattr(alone, "program_of", _refuse)
    monkeypatch.setattr(symbolic_program, "run_pipeline", _refuse)
    for queries, keys in ((41, 50), (38, 47), (42, 61)):  # on the same side of each threshold
        found, expected = (np.array(_attention(x, queries, keys, kind)) for x in (mx, mlx))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["causal", "mask", "sinks", "plain"])
@pytest.mark.parametrize("is_long", [False, True])
def test_lengths_of_prompts_that_recur_get_a_program(
    kind: str, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_long:  # too many scores to store
        monkeypatch.setattr(step, "MIN_BLOCKED_SCORES", 1)
    monkeypatch.setattr(alone, "MIN_WORK_FOR_LENGTHS", 3 * 2 * 6 * 70 * 80)
    alone._work.cache_clear()
    alone._program.cache_clear()
    _native.forget_programs()
    made: list[Any] = []
    program_of = alone.program_of

    def counted(*arguments: Any) -> Any:
        made.append(arguments)
        return program_of(*arguments)

    monkeypatch.setattr(alone, "program_of", counted)
    expected = np.array(_attention(mlx, 70, 80, kind))
    for call in range(4):
        found = np.array(_attention(mx, 70, 80, kind))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert len(made) == (call >= 2)
