"""Filled, counted and spaced arrays against NumPy and MLX."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()


def outcome(module: Any, call: Any) -> Any:
    """The dtype, shape and values of a call, or the type of what it raises, subclasses included."""
    try:
        result = call(module)
        return str(result.dtype).rsplit(".", 1)[-1], result.shape, result.tolist()
    except TypeError:
        return TypeError
    except ValueError:
        return ValueError


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), 3, (2, 0), [2, 3]])
def test_zeros_and_ones(dtype: str, shape: Any) -> None:
    for name in ("zeros", "ones", "empty"):
        ours = getattr(mx, name)(shape, getattr(mx, dtype))
        theirs = getattr(mlx, name)(shape, getattr(mlx, dtype))
        assert ours.dtype is getattr(mx, dtype)
        assert ours.shape == theirs.shape
        assert ours.tolist() == theirs.tolist()
        like = getattr(mx, f"{name}_like")
        assert like(ours).dtype is ours.dtype
        assert like(ours, mx.int8).dtype is mx.int8
        assert like(ours).tolist() == ours.tolist()


def test_zeros_cost_nothing() -> None:
    before = mx.get_active_memory()
    huge = mx.zeros((10**6, 10**6))
    mx.eval(huge)
    assert mx.get_active_memory() - before < 10**6
    assert huge[5, 7].item() == 0


def test_zeros_do_not_share_what_is_written() -> None:
    a, b = mx.zeros((2, 2)), mx.zeros((2, 2))
    a[0] = 1
    a += 1
    scalar = mx.zeros(())
    scalar += 1
    assert b.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert mx.zeros((1,)).item() == mx.zeros(()).item() == 0
    assert a.tolist() == [[2.0, 2.0], [1.0, 1.0]]


FILLS: list[Any] = [
    lambda m: m.full(2, 3),
    lambda m: m.full((2, 1), 3.5),
    lambda m: m.full(2, True),
    lambda m: m.full(2, 1j),
    lambda m: m.full(2, 2**40),
    lambda m: m.full(2, 3, m.float32),
    lambda m: m.full(2, True, m.int8),
    lambda m: m.full(2, 3.7, m.int32),  # MLX keeps the kind of the number
    lambda m: m.full(2, 3, m.bool_),
    lambda m: m.full(2, 1.5, m.complex64),
    lambda m: m.full(2, m.array(3), m.float32),  # and the dtype of an array
    lambda m: m.full(2, np.float32(3.7), m.int32),
    lambda m: m.full((2, 2), m.array([1, 2])),
    lambda m: m.full((2, 2), m.array([1, 2, 3])),
    lambda m: m.full(2, -1, m.uint8),
    lambda m: m.full(2, [1, 2]),
    lambda m: m.full(-2, 1),
    lambda m: m.full_like(m.array([1, 2]), 3.7),
    lambda m: m.full_like(m.array([1, 2]), 3.7, m.float32),
    lambda m: m.full_like(m.array([1.0, 2.0]), m.array([2, 3])),
    lambda m: m.full_like(m.array([1.0, 2.0]), 1j),
    lambda m: m.full_like(m.array([1, 2], m.uint8), 300),
    lambda m: m.full_like(3, 2),
    lambda m: m.zeros_like([1, 2]),
]


@pytest.mark.parametrize("call", FILLS)
def test_full(call: Any) -> None:
    assert outcome(mx, call) == outcome(mlx, call)


def test_rules_of_full() -> None:
    check_derivatives(lambda a: mx.full((2, 3), a), doubles(3))
    check_derivatives(lambda a: mx.full_like(exact(doubles(2, 3)), a), doubles(3))
    check_vmap(lambda a: mx.full((2, 3), a), doubles(5, 3), in_axes=[0])


RANGES: list[Any] = [
    lambda m: m.arange(5),
    lambda m: m.arange(0),
    lambda m: m.arange(-3),
    lambda m: m.arange(2.5),
    lambda m: m.arange(1, 7, 2),
    lambda m: m.arange(7, 1, -2),
    lambda m: m.arange(-7, 5, 3),
    lambda m: m.arange(4, 1),
    lambda m: m.arange(1, 4, 0.5),
    lambda m: m.arange(3, None),
    lambda m: m.arange(3, None, 2),
    lambda m: m.arange(1, 5, None),
    lambda m: m.arange(5, 2, m.float32),  # stop and step
    lambda m: m.arange(5, 2, dtype=m.float32),  # start and stop
    lambda m: m.arange(stop=5),
    lambda m: m.arange(5, step=2),
    lambda m: m.arange(start=1, stop=5, step=2),
    lambda m: m.arange(start=5),
    lambda m: m.arange(),
    lambda m: m.arange(1, 2, 3, 4),
    lambda m: m.arange("a"),
    lambda m: m.arange(5, other=1),
    lambda m: m.arange(5, dtype=int),
    lambda m: m.arange(True),
    lambda m: m.arange(True, 3),
    lambda m: m.arange(3, dtype=m.bool_),
    lambda m: m.arange(0, 5, 0),
    lambda m: m.arange(nan),
    lambda m: m.arange(inf),
    lambda m: m.arange(0, 1, inf),
    lambda m: m.arange(1, 0, inf),
    lambda m: m.arange(1, 0, -inf),
    lambda m: m.arange(2**31),
    lambda m: m.arange(0, 1, 1e-30),
    lambda m: m.arange(2**31, 2**31 + 3),
    lambda m: m.arange(2**31 - 2, 2**31 - 1),
    lambda m: m.arange(0, 5, 0.5, m.int32),
    lambda m: m.arange(0, 5, 1.5, m.int32),
    lambda m: m.arange(3, 0, -0.5, m.int32),
    lambda m: m.arange(0.5, 5, 1, m.int32),
    lambda m: m.arange(300, dtype=m.uint8),
    lambda m: m.arange(-3, 3, 1, m.uint8),
    lambda m: m.arange(5, 0, -1, m.uint8),
    lambda m: m.arange(1000, 1010, 1, m.bfloat16),
    lambda m: m.arange(3, dtype=m.complex64),
    lambda m: m.arange(0, 6, 2, m.float16),
    lambda m: m.arange(2**24, 2**24 + 8, 2, m.float32),
]


@pytest.mark.parametrize("call", RANGES)
def test_arange(call: Any) -> None:
    assert outcome(mx, call) == outcome(mlx, call)


def test_long_ranges_do_not_collect_errors() -> None:
    steps = value(mx.arange(0, 100_000, 0.1)).astype(np.float64)
    exact_steps = np.arange(len(steps)) * float(np.float32(0.1))
    np.testing.assert_allclose(steps, exact_steps, rtol=1e-7)


def test_ranges_of_large_integers_are_exact() -> None:
    assert mx.arange(2**62, 2**62 + 3).tolist() == [2**62, 2**62 + 1, 2**62 + 2]
    top = 2**63
    assert mx.arange(top, top + 2, dtype=mx.uint64).tolist() == [top, top + 1]


SPACES: list[Any] = [
    lambda m: m.linspace(0, 1),
    lambda m: m.linspace(0.1, 0.9, 7),
    lambda m: m.linspace(-3, 8, 100),
    lambda m: m.linspace(0, 1, 5, False),
    lambda m: m.linspace(0, 1, 1),
    lambda m: m.linspace(0, 1, 0),
    lambda m: m.linspace(0, 1, -1),
    lambda m: m.linspace(0, 1, 3.0),
    lambda m: m.linspace(0, 1, None),
    lambda m: m.linspace(0, 1j, 3),
    lambda m: m.linspace(5.7, 9, 1, dtype=m.int32),
    lambda m: m.linspace(0, -9, 5, dtype=m.int32),
    lambda m: m.linspace(0, 1, 5, dtype=m.bool_),
    lambda m: m.linspace(0.1, 0.9, 7, dtype=m.float64),
    lambda m: m.linspace(0.1, 0.9, 7, dtype=m.bfloat16),
    lambda m: m.linspace(0, 1, 3, dtype=None),
    lambda m: m.linspace(0, m.array(1), 3),
]


@pytest.mark.parametrize("call", SPACES)
def test_linspace(call: Any) -> None:
    ours, theirs = outcome(mx, call), outcome(mlx, call)
    if isinstance(theirs, type):
        assert ours is theirs
        return
    assert ours[:2] == theirs[:2]
    np.testing.assert_allclose(ours[2], theirs[2], rtol=2e-7, atol=1e-7)


def test_constants() -> None:
    names = ("e", "euler_gamma", "inf", "newaxis", "pi")
    assert [getattr(mx, name) for name in names] == [getattr(mlx, name) for name in names]
    assert mx.nan != mx.nan


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: mx.zeros((2, -1)),
        ValueError,
        "[zeros] a shape cannot have negative lengths, got (2, -1).",
    ),
    (
        lambda: mx.ones(2, int),
        TypeError,
        "[ones] dtype must be a dtype such as mx.float32 or None, got type: <class 'int'>. "
        "Use mx.int32.",
    ),
    (
        lambda: mx.arange(0, 5, 0),
        ValueError,
        "[arange] the step cannot be 0: no number of steps leads to the stop.",
    ),
    (
        lambda: mx.arange(0, inf, 2),
        ValueError,
        "[arange] there is no number of steps of 2 from 0 to inf.",
    ),
    (
        lambda: mx.arange(0, 2**31),
        ValueError,
        "[arange] from 0 to 2147483648 in steps of 1 has too many elements: "
        "an array can have 2147483647.",
    ),
    (lambda: mx.arange(1j), TypeError, "[arange] takes Python numbers, got 1j."),
    (
        lambda: mx.linspace(0, 1, -1),
        ValueError,
        "[linspace] the number of samples cannot be negative, got -1.",
    ),
    (
        lambda: mx.linspace(0, "a", 2),
        TypeError,
        "[linspace] takes real numbers, got 'a'.",
    ),
]


@pytest.mark.parametrize(("call", "error", "sentence"), ERRORS)
def test_sentences(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
