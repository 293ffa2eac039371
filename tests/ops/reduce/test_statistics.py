"""Means, spreads, counts, comparisons of whole arrays, logsumexp and softmax."""

from __future__ import annotations

from fractions import Fraction

import mlx.core as oracle
import numpy as np
import pytest
from tests.ops.rule_checks import check_derivatives, check_vmap, numbers

import ingot.core as mx

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()


@pytest.mark.parametrize("name", ["mean", "var", "std", "count_nonzero"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_values_are_mlxs(name: str, dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 4, (2, 3, 4))
    for axis in (None, 0, -1, (0, 2), []):
        ours = getattr(mx, name)(mx.array(values).astype(getattr(mx, dtype)), axis=axis)
        theirs = getattr(oracle, name)(
            oracle.array(values).astype(getattr(oracle, dtype)), axis=axis
        )
        assert str(ours.dtype).rsplit(".")[-1] == str(theirs.dtype).rsplit(".")[-1]
        tolerance = 1e-2 if ours.dtype.size == 2 else 1e-6
        np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=tolerance)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_means_of_integers_neither_cancel_nor_overflow(dtype: str) -> None:
    lowest, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
    for values in ([lowest, largest, 1, 7, 100, 3], [largest] * 7, [lowest, 1] * 35_000):
        expected = float(Fraction(sum(values), len(values)))  # of Python's integers, exact
        for mean in (mx.mean, mx.compile(mx.mean), mx.compile(mx.mean, shapeless=True)):
            found = mean(mx.array(np.array(values, dtype))).item()
            assert found == pytest.approx(expected, rel=2e-7)


def test_means_of_integers_are_mlxs_where_its_sums_do_not_overflow() -> None:
    values = np.array([[-(2**62), 2**62, 55], [2**40, -(2**40), 1]])
    for axis in (None, 0, 1):
        ours, theirs = mx.mean(mx.array(values), axis), oracle.mean(oracle.array(values), axis)
        np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=2e-7)
    for dtype in ("int32", "int64"):
        _, ours = mx.jvp(
            mx.mean,
            [mx.array([1, 2, 3], getattr(mx, dtype))],
            [mx.array([5, 2, 3], getattr(mx, dtype))],
        )
        assert ours[0].item() == pytest.approx(10 / 3)


def test_degrees_of_freedom() -> None:
    x = np.array([3.0, 1.0, 2.0, 5.0], np.float32)
    a = mx.array(x)
    assert mx.var(a, ddof=1).item() == pytest.approx(x.var(ddof=1))
    assert mx.var(a, 0, True, 1).shape == (1,)
    assert a.std(correction=1).item() == pytest.approx(x.std(ddof=1))
    assert mx.var(a, ddof=1, correction=0).item() == pytest.approx(x.var())
    assert mx.var(a, ddof=4).item() == np.inf
    assert np.isnan(mx.var(a[:1], ddof=1).item())
    with pytest.raises(TypeError, match=r"\[var\] ddof must be an int, got float: 0.5"):
        mx.var(a, ddof=0.5)


def test_spread_far_from_zero() -> None:
    x = np.random.default_rng(0).normal(1e4, 1, 10_000).astype(np.float32)
    assert mx.var(mx.array(x)).item() == pytest.approx(x.astype(np.float64).var(), rel=1e-5)


def test_half_precision_does_not_overflow_in_between() -> None:
    x = mx.full((1000,), 300.0).astype(mx.float16)
    assert mx.mean(x).item() == 300
    assert mx.var(x).item() == 0
    assert mx.softmax(mx.zeros((100_000,), mx.float16)).dtype == mx.float16


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_nothing_has_no_mean(name: str) -> None:
    assert np.isnan(numbers(getattr(mx, name)(mx.zeros((0, 3)), 0))).all()


def test_counts() -> None:
    x = mx.array([[0.0, np.nan, -0.0], [1.0, 2.0, 0.0]])
    assert mx.count_nonzero(x).item() == 3
    assert mx.count_nonzero(x, axis=1, keepdims=True).tolist() == [[1], [2]]


def test_comparisons_of_arrays() -> None:
    x = mx.array([1.0, np.nan])
    assert mx.array_equal(x, x).item() is False
    assert mx.array_equal(x, x, equal_nan=True).item() is True
    assert mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0])).item() is True
    assert mx.array_equal(x, mx.zeros((2, 1))).item() is False
    assert mx.array_equal(1, 1.0).item() is True
    assert mx.allclose(mx.array([1.0]), mx.array([1.000001])).item() is True
    assert mx.allclose(mx.array([1.0]), mx.array([1.1])).item() is False
    assert mx.allclose(mx.array([1.0]), mx.array([1.1]), 0.2).item() is True
    assert mx.allclose(x, x).item() is False
    assert mx.allclose(x, x, equal_nan=True).item() is True


INFINITE = [
    [-np.inf, -np.inf],
    [np.inf, 1.0],
    [np.inf, -np.inf],
    [3e38, 3e38],
    [np.nan, 1.0],
    [-np.inf, 1.0],
    [-1e4, -1e4],
]


@pytest.mark.parametrize("name", ["logsumexp", "softmax"])
@pytest.mark.parametrize("x", INFINITE)
def test_extreme_values_as_in_mlx(name: str, x: list[float]) -> None:
    ours = getattr(mx, name)(mx.array(x), 0)
    theirs = getattr(oracle, name)(oracle.array(x), 0)
    np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_logsumexp_and_softmax_against_numpy(dtype: str, axis: int | None) -> None:
    x = mx.array(np.random.default_rng(0).normal(0, 4, (5, 7))).astype(getattr(mx, dtype))
    wide = np.exp(numbers(x).astype(np.float64))
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-13}.get(dtype, 1e-6)
    sums = wide.sum(axis, keepdims=True)
    ours = mx.logsumexp(x, axis, True)
    np.testing.assert_allclose(numbers(ours), np.log(sums), rtol=tolerance)
    for precise in (False, True):
        ours = mx.softmax(x, axis, precise=precise)
        np.testing.assert_allclose(numbers(ours), wide / sums, rtol=tolerance, atol=1e-6)
        assert ours.dtype == (mx.float32 if dtype == "int32" else x.dtype)


def test_logsumexp_and_softmax_refuse() -> None:
    with pytest.raises(ValueError, match=r"\[logsumexp\] cannot add up no elements: .*\(0, 3\)"):
        mx.logsumexp(mx.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"\[softmax\] an array without axes has no axis 0"):
        mx.softmax(mx.array(1.0), 0)
    with pytest.raises(IndexError, match=r"\[softmax\] axis 1 is out of range"):
        mx.softmax(mx.zeros((3,)), 1)
    with pytest.raises(TypeError, match=r"\[softmax\] a must be an array, got float"):
        mx.softmax(1.0)
    assert mx.softmax(mx.zeros((0, 3))).shape == (0, 3)


SMOOTH = {
    "mean": lambda x: mx.mean(x * x, 0),
    "var": lambda x: mx.var(x, -1, ddof=1),
    "std": lambda x: mx.std(x, 0),
    "logsumexp": lambda x: mx.logsumexp(x, (0, 1)),
    "softmax": lambda x: mx.softmax(x, -1),
    "softmax over all": mx.softmax,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    check_derivatives(SMOOTH[name], np.random.default_rng(5).normal(size=(2, 3)))


@pytest.mark.parametrize("name", SMOOTH)
def test_vmap(name: str) -> None:
    x = np.random.default_rng(5).normal(size=(4, 2, 3)).astype(np.float32)
    looped = np.stack([numbers(SMOOTH[name](mx.array(row))) for row in x])
    np.testing.assert_allclose(numbers(mx.vmap(SMOOTH[name])(mx.array(x))), looped, rtol=2e-6)


def test_masked_logits_have_no_gradient() -> None:
    x = mx.array([-np.inf, 1.0, 2.0])
    for function in (mx.logsumexp, lambda y: mx.softmax(y)[2]):
        gradient = numbers(mx.grad(function)(x))
        assert gradient[0] == 0
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", ["mean", "var", "std", "logsumexp"])
def test_complex_cotangents_are_mlxs(name: str) -> None:
    x = [1 + 2j, 3 - 1j, 0.5j]
    real = name in ("var", "std")
    cotangent = 1.0 if real else 1 + 0.5j
    _, ours = mx.vjp(getattr(mx, name), [mx.array(x)], [mx.array(cotangent)])
    _, theirs = oracle.vjp(getattr(oracle, name), [oracle.array(x)], [oracle.array(cotangent)])
    np.testing.assert_allclose(numbers(ours[0]), numbers(theirs[0]), rtol=1e-5)


def test_vmap_of_counts() -> None:
    check_vmap(mx.count_nonzero, np.arange(12).reshape(3, 4) % 3)
