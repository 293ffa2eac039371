"""The same key gives the same random numbers as in MLX, to the last bit.

Sizes are odd and even, below and above the one from which on graphs are fused; everything is drawn
three times, because a graph that comes again is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.oracle.harness.compare import EXACT, Close, difference

REPEATS = 3
SIZES = [(), (1,), (2,), (3,), (4, 5), (7, 1, 3), (0, 3), (1001,), (40_001,), (200, 201)]
HALVES_AND_SINGLE = ["float32", "float16", "bfloat16"]
INF, NAN = float("inf"), float("nan")
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_".split()

Draw = Callable[[ModuleType], Any]


def assert_same(ours: ModuleType, theirs: ModuleType, draw: Draw, close: Close = EXACT) -> None:
    expected = draw(theirs)
    for _ in range(REPEATS):
        assert difference(draw(ours), expected, close) is None


def dtype(mx: ModuleType, name: str) -> Any:
    return getattr(mx, name)


def key(mx: ModuleType, seed: int = 5) -> Any:
    return mx.random.key(seed)


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1])
def test_keys_and_splits(seed: int, ours: ModuleType, theirs: ModuleType) -> None:
    assert_same(ours, theirs, lambda mx: mx.random.key(seed))
    assert_same(ours, theirs, lambda mx: mx.random.split(mx.random.key(seed)))
    for number in (0, 1, 2, 3, 4, 5, 8, 9, 1000, 40_001):
        assert_same(ours, theirs, lambda mx, n=number: mx.random.split(key(mx, seed), n))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HALVES_AND_SINGLE)
def test_uniform(size: Any, name: str, ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType, *bounds: Any) -> Any:
        return mx.random.uniform(*bounds, shape=size, dtype=dtype(mx, name), key=key(mx))

    for bounds in [(), (0, 1), (-0.1, 0.3), (5, -3), (0, 0), (True, 2.5), (np.float64(0.1), 7)]:
        assert_same(ours, theirs, lambda mx, bounds=bounds: draw(mx, *bounds))


@pytest.mark.parametrize("name", HALVES_AND_SINGLE)
def test_uniform_between_arrays(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType) -> Any:
        low, high = mx.array([-1.0, 2.0, 3.1]), mx.array([[5], [6]])
        return mx.random.uniform(low, high, (7000, 2, 3), dtype(mx, name), key(mx))

    assert_same(ours, theirs, draw)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*HALVES_AND_SINGLE, "float64", "complex64"])
def test_normal(size: Any, name: str, ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType, **keywords: Any) -> Any:
        return mx.random.normal(size, dtype(mx, name), key=key(mx), **keywords)

    assert_same(ours, theirs, draw)
    assert_same(ours, theirs, lambda mx: draw(mx, loc=0.3, scale=1.7))
    assert_same(ours, theirs, lambda mx: draw(mx, loc=np.float64(0.1)))
    assert_same(ours, theirs, lambda mx: draw(mx, scale=mx.array([[[0.6]]]), loc=mx.array([2])))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HALVES_AND_SINGLE)
def test_truncated_normal(size: Any, name: str, ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType, low: Any, high: Any) -> Any:
        return mx.random.truncated_normal(low, high, size, dtype(mx, name), key(mx))

    infinity = float("inf")
    for bounds in [(-1.3, 0.7), (-infinity, infinity), (2, 9), (1, -1), (7, 8), (0, 0)]:
        assert_same(ours, theirs, lambda mx, bounds=bounds: draw(mx, *bounds))


@pytest.mark.parametrize("name", HALVES_AND_SINGLE)
def test_truncated_normal_between_arrays(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    bounds = np.sort(values(2, 40_001) * 3, axis=0)

    def draw(mx: ModuleType) -> Any:
        low, high = mx.array(bounds[0]), mx.array(bounds[1])
        return mx.random.truncated_normal(low, high, dtype=dtype(mx, name), key=key(mx))

    assert_same(ours, theirs, draw)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*HALVES_AND_SINGLE, "float64"])
def test_laplace(size: Any, name: str, ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType, **keywords: Any) -> Any:
        return mx.random.laplace(size, dtype(mx, name), key=key(mx), **keywords)

    assert_same(ours, theirs, draw)
    assert_same(ours, theirs, lambda mx: draw(mx, loc=0.1, scale=-2.3))
    assert_same(ours, theirs, lambda mx: draw(mx, loc=1e300))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HALVES_AND_SINGLE)
def test_gumbel(size: Any, name: str, ours: ModuleType, theirs: ModuleType) -> None:
    assert_same(ours, theirs, lambda mx: mx.random.gumbel(size, dtype(mx, name), key(mx)))


INTERVALS = [
    (0, 10),
    (-5, 5),
    (5, 5),
    (10, 3),
    (1.5, 7.9),
    (-1.5, 0.7),
    (0, 2**24 + 3),
    (2**24, 2**24 + 4),
    (-(2**31), 2**31 - 1),
    (False, True),
]


def holds(name: str, low: float, high: float) -> bool:
    """Whether the dtype has all integers between: C leaves open what becomes of the others."""
    narrow = name in ("int8", "int16", "uint8", "uint16", "bool_")
    return not (narrow and high > 10) and not (name[0] == "u" and low < 0)


@pytest.mark.parametrize("name", INTEGERS)
def test_randint(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    for low, high in INTERVALS:
        for size in (3, 40_001):

            def draw(mx: ModuleType, low: Any = low, high: Any = high, size: int = size) -> Any:
                return mx.random.randint(low, high, (size,), dtype(mx, name), key(mx))

            if holds(name, low, high):
                assert_same(ours, theirs, draw)


def test_randint_between_arrays(ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType) -> Any:
        return mx.random.randint(mx.array([0, 5]), mx.array([[9.5], [20]]), (3, 2, 2), key=key(mx))

    assert_same(ours, theirs, draw)


@pytest.mark.parametrize("name", [*HALVES_AND_SINGLE, "float64"])
@pytest.mark.parametrize("size", [None, (5,), (3, 5), (9000, 5)])
def test_bernoulli(size: Any, name: str, ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType) -> Any:
        p = mx.array([0.1, 0.5, 0.999, 1, 0]).astype(dtype(mx, name))
        return mx.random.bernoulli(p, size, key(mx))

    assert_same(ours, theirs, draw)
    assert_same(ours, theirs, lambda mx: mx.random.bernoulli(0.3, size, key(mx)))


@pytest.mark.parametrize("name", [*HALVES_AND_SINGLE, "float64", "int32", "complex64", "bool_"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_categorical(axis: int, name: str, ours: ModuleType, theirs: ModuleType) -> None:
    logits = 3 * values(30, 7, 11)

    def draw(mx: ModuleType, **keywords: Any) -> Any:
        given = mx.array(logits).astype(dtype(mx, name))
        return mx.random.categorical(given, axis, key=key(mx), **keywords)

    rest = np.delete((30, 7, 11), axis).tolist()
    assert_same(ours, theirs, draw)
    assert_same(ours, theirs, lambda mx: draw(mx, num_samples=20))
    assert_same(ours, theirs, lambda mx: draw(mx, shape=rest))
    assert_same(ours, theirs, lambda mx: draw(mx, shape=(4, *rest)))


@pytest.mark.parametrize("name", [*HALVES_AND_SINGLE, "float64", "int32", "bool_"])
@pytest.mark.parametrize("keywords", [{}, {"num_samples": 9}, {"shape": (2, 1)}, {"shape": (1,)}])
def test_categorical_of_one_distribution(
    keywords: dict[str, Any], name: str, ours: ModuleType, theirs: ModuleType
) -> None:
    """MLX finds these by a search, and not by the noise that it adds to several."""
    logits = 3 * values(7)

    def draw(mx: ModuleType, *shape: int, **more: Any) -> Any:
        given = mx.array(logits).astype(dtype(mx, name)).reshape(shape)
        return mx.random.categorical(given, key=key(mx), **keywords, **more)

    assert_same(ours, theirs, lambda mx: draw(mx, 7))
    assert_same(ours, theirs, lambda mx: draw(mx, 1, 7))
    assert_same(ours, theirs, lambda mx: draw(mx, 7, 1, axis=0))


@pytest.mark.parametrize("logits", [[0, INF, 1, INF], [-INF] * 3, [-INF, 0, -INF, 1], [0, NAN, 1]])
def test_categorical_of_infinite_logits(
    logits: list[float], ours: ModuleType, theirs: ModuleType
) -> None:
    def draw(mx: ModuleType) -> Any:
        return mx.random.categorical(mx.array(logits), num_samples=40, key=key(mx))

    assert_same(ours, theirs, draw)


@pytest.mark.parametrize("number", [0, 1, 2, 9, 1000, 300_000])
def test_permutation(number: int, ours: ModuleType, theirs: ModuleType) -> None:
    """The largest has equal bits among its words, whose order counts too."""
    assert_same(ours, theirs, lambda mx: mx.random.permutation(number, key=key(mx)))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_permutation_of_arrays(axis: int, ours: ModuleType, theirs: ModuleType) -> None:
    array = values(5, 6, 7)
    assert_same(ours, theirs, lambda mx: mx.random.permutation(mx.array(array), axis, key(mx)))


@pytest.mark.parametrize(
    ("mean", "cov", "size"),
    [
        ((3,), (), ()),
        ((3,), (), (50,)),
        ((4, 3), (), ()),
        ((4, 3), (5, 1), (2, 5, 4)),
        ((0, 3), (), ()),
    ],
)
def test_multivariate_normal(
    mean: Any, cov: Any, size: Any, ours: ModuleType, theirs: ModuleType
) -> None:
    """Up to rounding: LAPACK and BLAS are not the same ones."""
    factors = values(*cov, 3, 3)
    covariance = factors @ factors.swapaxes(-1, -2)

    def draw(mx: ModuleType) -> Any:
        given = mx.array(values(*mean)), mx.array(covariance)
        return mx.random.multivariate_normal(*given, size, key=key(mx))

    assert_same(ours, theirs, draw, Close(ulps=16, scale=10))


def test_a_program_with_a_seed(ours: ModuleType, theirs: ModuleType) -> None:
    """The state goes through the same keys, whatever is drawn."""

    def draw(mx: ModuleType) -> Any:
        mx.random.seed(42)
        drawn = []
        for _ in range(3):
            drawn.append(mx.random.uniform(shape=(3,)))
            drawn.append(mx.random.normal((2, 2)))
            drawn.append(mx.random.normal((2,), mx.complex64))
            drawn.append(mx.random.randint(0, 100, (5,)))
            drawn.append(mx.random.bernoulli())
            drawn.append(mx.random.categorical(mx.zeros((3, 4))))
            drawn.append(mx.random.permutation(6))
            drawn.append(mx.random.permutation(mx.arange(6)))
            drawn.append(mx.random.truncated_normal(-1, 1))
            drawn.append(mx.random.gumbel((2,)))
            drawn.append(mx.random.laplace((2,)))
            drawn.append(mx.random.state[0])
        return drawn

    assert_same(ours, theirs, draw)


DRAWS_OF_A_KEY: dict[str, Callable[[ModuleType, Any], Any]] = {
    "uniform": lambda mx, k: mx.random.uniform(shape=(5,), key=k),
    "split": lambda mx, k: mx.random.split(k, 3),
    "normal": lambda mx, k: mx.random.normal((3,), key=k),
    "complex": lambda mx, k: mx.random.normal((3,), mx.complex64, key=k),
    "randint": lambda mx, k: mx.random.randint(0, 9, (3,), key=k),
    "bernoulli": lambda mx, k: mx.random.bernoulli(0.5, (3,), key=k),
    "categorical": lambda mx, k: mx.random.categorical(mx.zeros((4, 3)), key=k),
    "laplace": lambda mx, k: mx.random.laplace((3,), key=k),
    "gumbel": lambda mx, k: mx.random.gumbel((3,), key=k),
    "truncated": lambda mx, k: mx.random.truncated_normal(-1, 1, (3,), key=k),
    "permutation": lambda mx, k: mx.random.permutation(7, key=k),
    "shuffle": lambda mx, k: mx.random.permutation(mx.arange(6).reshape(2, 3), 1, key=k),
    "nested": lambda mx, k: mx.vmap(lambda j: mx.random.uniform(key=j))(mx.random.split(k, 2)),
}


@pytest.mark.parametrize("name", DRAWS_OF_A_KEY)
def test_vmap_over_keys(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType, axis: int) -> Any:
        keys = mx.random.split(key(mx), 3)
        mapped = mx.vmap(lambda k: DRAWS_OF_A_KEY[name](mx, k), in_axes=axis)
        return mapped(keys if axis == 0 else keys.T)

    assert_same(ours, theirs, lambda mx: draw(mx, 0))
    assert_same(ours, theirs, lambda mx: draw(mx, 1))


def test_vmap_over_parameters(ours: ModuleType, theirs: ModuleType) -> None:
    def draw(mx: ModuleType) -> Any:
        def one(low: Any) -> Any:
            return mx.random.uniform(low, 5, (2, 3), key=key(mx))

        return mx.vmap(one)(mx.array([0.5, 1.5]))

    assert_same(ours, theirs, draw)


GRADIENTS: dict[str, Callable[[ModuleType, Any, Any], Any]] = {
    "uniform": lambda mx, a, b: mx.random.uniform(a, b, (4, 3), key=key(mx)),
    "normal": lambda mx, a, b: mx.random.normal((4, 3), loc=a, scale=b, key=key(mx)),
    "truncated": lambda mx, a, b: mx.random.truncated_normal(a, b, (4, 3), key=key(mx)),
    "mean": lambda mx, a, b: mx.random.multivariate_normal(a * b, mx.eye(3), (4,), key=key(mx)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_parameters(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    weights = values(4, 3)

    def draw(mx: ModuleType) -> Any:
        def loss(a: Any, b: Any) -> Any:
            return (GRADIENTS[name](mx, a, b) * mx.array(weights)).sum()

        a, b = mx.array([-0.5, 0.1, 0.2]), mx.array([0.7, 0.8, 1.9])
        forward = mx.jvp(loss, [a, b], [mx.array([1.0, 2.0, 3.0]), mx.array([-1.0, 0.5, 0.1])])
        return [*mx.grad(loss, argnums=(0, 1))(a, b), *forward[1]]

    assert_same(ours, theirs, draw, Close(ulps=16, scale=4))
