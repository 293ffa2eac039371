"""Maps of arrays that exceed the caches: vectors that are stored past them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import run_nest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.compiler.llvm.nests import nest_module
from ingot.compiler.lower import streams
from ingot.compiler.lower.streams import MIN_VECTOR_BYTES
from ingot.runtime.processor import cache_sizes, machine, vector_bytes, vector_registers
from ingot.tuning import MAP_TILE

pytestmark = pytest.mark.skipif(
    machine() != "x86_64" or vector_bytes() < MIN_VECTOR_BYTES,
    reason="not streamed on this processor",
)


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "cache_sizes", lambda: (0, 0))
    monkeypatch.setattr(streams, "MIN_CACHE_BYTES", 0)


def is_streamed(function: Any, *args: Any) -> bool:
    (text,) = texts_of(function, *args)
    return "non-temporal" in text


def test_results_that_exceed_the_caches_are_streamed() -> None:
    length = cache_sizes()[1] // 4
    assert not is_streamed(lambda x: x + 1, mx.zeros(length))
    assert is_streamed(lambda x: x + 1, mx.zeros(length + 21))


FUNCTIONS: dict[str, Any] = {
    "gelu": lambda x: x * (1 + mx.erf(x / 1.4142135)) / 2,
    "exp": mx.exp,
    "expm1": mx.expm1,
    "log": lambda x: mx.log(mx.abs(x)),
    "log1p": mx.log1p,
    "sin": mx.sin,
    "tan": mx.tan,
    "tanh": mx.tanh,
    "arcsin": mx.arcsin,
    "arctan2": lambda x: mx.arctan2(x, x * x),
    "arccosh": lambda x: mx.arccosh(x + 2),
    "erfinv": mx.erfinv,
    "power": lambda x: mx.power(mx.abs(x), x),
    "remainder": lambda x: mx.remainder(x, 0.3),
    "sqrt": lambda x: mx.rsqrt(mx.sqrt(mx.abs(x) + 1)),
    "round": lambda x: mx.round(x * 9) + mx.floor(x) + mx.ceil(x),
    "sign": mx.sign,
    "clip": lambda x: mx.clip(x, -0.5, 0.5),
    "logaddexp": lambda x: mx.logaddexp(x, 2 * x),
    "where": lambda x: mx.where(x > 0.2, x, x * 0.1),
    "logic": lambda x: mx.where(mx.logical_not((x > 0.2) | (x < -0.3)), x, 2),
    "truth": lambda x: mx.where(mx.logical_not(x) | x.astype(mx.float16).astype(mx.bool_), x, 3),
    "logical and": lambda x: mx.where(mx.logical_and(x, mx.floor(x)), x, x * 3),
    "integer power": lambda x: mx.power((x * 9).astype(mx.int32), 5).astype(mx.float32),
    "unsigned power": lambda x: mx.power(mx.abs(x * 9).astype(mx.uint32), 5).astype(mx.float32),
    "power of integers": lambda x: mx.power((x * 4).astype(mx.int32), (x * 9).astype(mx.int32)),
    "cast bool": lambda x: (x > 0).astype(mx.float32) - x,
    "nan to num": lambda x: mx.nan_to_num(mx.log(x)),
    "cast": lambda x: (x * 100).astype(mx.int32).astype(mx.float32),
    "halves": lambda x: x.astype(mx.float16).astype(mx.bfloat16).astype(mx.float32) + 1,
    "two results": lambda x: (x + 1, x * 2),
}


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectors_have_the_values_of_elements(name: str) -> None:
    """The last elements of 269 do not fill a block."""
    assert is_streamed(FUNCTIONS[name], numbers(269)) or vector_registers() == 16


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float64, mx.int32, mx.uint32])
def test_dtypes(dtype: Any) -> None:
    x = (numbers(300) * 1000).astype(dtype)
    assert is_streamed(lambda x, y: x * y + x, x, x)


@pytest.mark.usefixtures("small_caches")
def test_what_is_not_streamed() -> None:
    x = numbers(300)
    assert not is_streamed(lambda x: x > 0, x)  # bools are bytes in memory
    assert not is_streamed(lambda x: x[::-1] + 1, x)
    assert not is_streamed(lambda x: x.astype(mx.int64), x)
    assert not is_streamed(lambda x: mx.exp(x), x.astype(mx.float16))
    assert not is_streamed(lambda x: mx.sin(x), x.astype(mx.float64))  # it reads a table
    assert not is_streamed(lambda x: x + mx.arange(300), x)
    assert not is_streamed(lambda x, y: x + y, numbers(3, 65), numbers(65))
    assert not is_streamed(lambda x: x + 1, numbers(15))


@pytest.mark.usefixtures("small_caches")
def test_rows_have_operands_of_their_own() -> None:
    (nest,) = nests_of(lambda x, y: mx.maximum(x + y, 0), numbers(5, 192), numbers(192))
    assert nest.parallel[0].lengths == (5,)
    assert is_streamed(lambda x, y: (x - y) * x, numbers(5, 192), numbers(5, 1))
    long = numbers(2, MAP_TILE + 192)
    (nest,) = nests_of(lambda x, y: x + y, long, numbers(2, 1))
    assert nest.parallel[0].lengths == (2, 2)


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("offset", [0, 1, 8])
def test_memory_that_does_not_begin_with_a_line_is_stored_to_as_usual(offset: int) -> None:
    (nest,) = nests_of(lambda x: x * 3, numbers(340))
    assert "!nontemporal" in nest_module(nest)
    memory = np.full(340 + 48, -1.0, np.float32)
    first = -memory.ctypes.data // 4 % 16 + offset
    source, result = numbers(340), memory[first : first + 340]
    run_nest(nest, [np.array(source), result])
    np.testing.assert_allclose(result, np.array(source) * 3, rtol=1e-6)
    assert (np.delete(memory, range(first, first + 340)) == -1).all()


def test_large_arrays() -> None:
    """Also as the memory of a donated operand."""
    length = cache_sizes()[1] // 4 + 1000
    x = np.random.default_rng(1).uniform(-1, 1, length).astype(np.float32)
    step = mx.compile(lambda x: x * 2 - 1)
    np.testing.assert_array_equal(np.array(step(mx.array(x))), x * 2 - 1)
    y = mx.array(x)
    for _ in range(3):
        y = step(y)
        mx.eval(y)
    expected = x
    for _ in range(3):
        expected = expected * 2 - 1
    np.testing.assert_array_equal(np.array(y), expected)
