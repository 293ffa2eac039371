"""Casts of every pair of dtypes, of all that an integer cannot hold too: one result whichever way a
cast runs, which is MLX's, and that of Python's own integers for uint32, where MLX has two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as oracle
import numpy as np
import pytest
from tests.support.bits import different_bits, edges

import ingot.core as mx
from ingot.graph.dtype import ALL_DTYPES, is_inexact, is_integer

PAIRS = [
    pytest.param(source, target, id=f"{source.name}-{target.name}")
    for source in ALL_DTYPES
    for target in ALL_DTYPES
]
TO_INTEGERS = [
    pytest.param(source, target, id=f"{source.name}-{target.name}")
    for source in ALL_DTYPES
    for target in ALL_DTYPES
    if is_inexact(source) and is_integer(target)
]
EDGES = [0.0, 0.9, 1.5, 127, 128, 255.5, 256, 300.7, 32768, 65535, 65536, 70000, 2.0**31, 3e9]
EDGES += [2.0**32, 5e9, 2.0**53, 2.0**63, 1e19, 1.8e19, 2.0**64, 1e20, 3e38, math.inf]
EDGES = [math.nan, *EDGES, *(-x for x in EDGES)]


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    """MLX's rule is that of its CPU backend."""
    with oracle.stream(oracle.cpu):
        yield


def _values(dtype: mx.Dtype, count: int = 4999) -> np.ndarray:
    generator = np.random.default_rng(5)
    values = edges(dtype.numpy, count, generator)
    if is_inexact(dtype):
        with np.errstate(all="ignore"):
            values[100 : 100 + len(EDGES)] = np.array(EDGES).astype(dtype.numpy)
    return values


def _numpy(x: mx.array) -> np.ndarray:
    mx.eval(x)
    found: np.ndarray = np.array(x._node.data)
    return found


def _name(dtype: mx.Dtype) -> str:
    return "bool_" if dtype is mx.bool_ else dtype.name


def _mlx(values: np.ndarray, source: mx.Dtype, target: mx.Dtype) -> np.ndarray:
    """What MLX makes of it, through views, since NumPy has no bfloat16."""
    dtype = getattr(oracle, _name(source))
    if source.name == "bfloat16":
        given = oracle.array(values.view(np.uint16)).view(dtype)
    else:
        given = oracle.array(values, dtype)
    found = given.astype(getattr(oracle, _name(target)))
    if target.name == "bfloat16":
        return np.array(found.view(oracle.uint16)).view(target.numpy)
    return np.array(found)


def _whole(number: float, target: mx.Dtype) -> int:
    """The rule for integers, in Python's."""
    bits = 8 * target.size
    way = 64 if bits == 64 or target is mx.uint32 else 32
    if target is mx.uint64 and number >= 2.0**63:
        return int(number) if number < 2.0**64 else 0
    inside = -(2.0 ** (way - 1)) <= number < 2.0 ** (way - 1)  # not if it is NaN
    whole = int(number) if inside else -(2 ** (way - 1))
    wrapped = whole % 2**bits
    signed = not target.name.startswith("u")
    return wrapped - 2**bits if signed and wrapped >= 2 ** (bits - 1) else wrapped


def _expected(values: np.ndarray, target: mx.Dtype) -> np.ndarray:
    real = values.real if values.dtype.kind == "c" else values
    return np.array([_whole(float(x), target) for x in real], target.numpy)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_compiled_and_not_and_in_mlx(source: mx.Dtype, target: mx.Dtype) -> None:
    values = _values(source)
    x = mx.array(values, source)
    found = _numpy(x.astype(target))
    compiled = _numpy(mx.compile(lambda x: x.astype(target))(x))
    assert different_bits(compiled, found).size == 0
    strided = mx.array(np.repeat(values, 2), source)[::2]
    assert different_bits(_numpy(strided.astype(target)), found).size == 0
    # MLX has two results for uint32, and rounds float64 to half types by way of float32.
    if not (target is mx.uint32 and is_inexact(source)) and not (
        source is mx.float64 and target.size == 2
    ):
        assert different_bits(found, _mlx(values, source, target)).size == 0


@pytest.mark.parametrize(("source", "target"), TO_INTEGERS)
def test_to_integers_by_the_stated_rule(source: mx.Dtype, target: mx.Dtype) -> None:
    values = _values(source, 300)
    found = _numpy(mx.array(values, source).astype(target))
    np.testing.assert_array_equal(found, _expected(values, target))


@pytest.mark.parametrize(("source", "target"), TO_INTEGERS)
def test_single_elements_and_all_entry_points(source: mx.Dtype, target: mx.Dtype) -> None:
    """Scalars, parts of vectors, constants, fused graphs, lists and NumPy arrays."""
    values = _values(source, 300)[100 : 100 + len(EDGES)]
    expected = _expected(values, target)
    x = mx.array(values, source)
    constant = mx.compile(lambda: mx.array(values, source).astype(target))
    ways: dict[str, Any] = {
        "constants": constant(),
        "folded scalars": mx.stack(
            [mx.compile(lambda v=v: mx.array(v, source).astype(target) | 0)() for v in x[:5]]
        ),
        "a fused graph": mx.compile(lambda x: (x + 0).astype(target) | 0)(x),
        "one by one": mx.stack([each.astype(target) for each in x]),
        "backwards": x[::-1].astype(target)[::-1],
        "an array": mx.array(x, target),
    }
    if source is mx.float32:
        ways["a list"] = mx.array([float(v) for v in values], target)
        ways["numbers"] = mx.stack([mx.array(float(v), target) for v in values])
        ways["NumPy"] = mx.array(values, dtype=target)
    for way, found in ways.items():
        np.testing.assert_array_equal(_numpy(found), expected[: found.shape[0]], way)


@pytest.mark.parametrize("target", [mx.float16, mx.bfloat16])
def test_doubles_are_rounded_once(target: mx.Dtype) -> None:
    last = 2.0**-10 if target is mx.float16 else 2.0**-7
    nearly = [1 + last / 2, 1 + 1.5 * last, 2.0**-130, 3.0]
    even = [1.0, 1 + 2 * last]  # where the first two go if they are ties
    values = [x + sign * x * 2.0**-45 for x in nearly for sign in (1, 0, -1)]
    x = mx.array(values, mx.float64)
    expected = [
        even[nearly.index(value)] if value in nearly[:2] else min(around, key=_distance(value))
        for value, around in zip(values, _neighbours(values, target), strict=True)
    ]
    for found in (x.astype(target), mx.compile(lambda x: x.astype(target))(x)):
        np.testing.assert_array_equal(_numpy(found).astype(np.float64), expected)


def _distance(value: float) -> Callable[[float], float]:
    return lambda other: abs(other - value)


def _neighbours(values: list[float], dtype: mx.Dtype) -> list[np.ndarray]:
    """For each value the numbers of a half type around it."""
    every = np.arange(0x7C01 if dtype is mx.float16 else 0x7F81, dtype=np.uint16)
    numbers = every.view(dtype.numpy).astype(np.float64)
    return [numbers[max(0, place - 1) : place + 1] for place in np.searchsorted(numbers, values)]


@pytest.mark.parametrize("target", [dtype for dtype in ALL_DTYPES if is_integer(dtype)])
def test_ten_million_elements(target: mx.Dtype) -> None:
    values = np.array(EDGES, np.float32)
    x = mx.array(np.resize(values, 10_000_001))
    found = _numpy(x.astype(target))
    np.testing.assert_array_equal(found, np.resize(_expected(values, target), 10_000_001))
