"""Running sums, products, extremes and logsumexp, and differences."""

from __future__ import annotations

from itertools import product

import mlx.core as oracle
import numpy as np
import pytest
from tests.ops.rule_checks import check_derivatives, check_vmap, numbers

import ingot.core as mx

SCANS = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "logcumsumexp": np.logaddexp,
}
FLAGS = list(product((False, True), (False, True)))


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16", "float16"])
def test_inclusive_scans_against_numpy(name: str, axis: int | None, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (3, 4, 5))
    ours = getattr(mx, name)(mx.array(x).astype(getattr(mx, dtype)), axis)
    wide = x.astype(np.float64)
    flat, along = (wide.reshape(-1), 0) if axis is None else (wide, axis)
    exact = SCANS[name].accumulate(flat, along)
    if dtype == "int32" and name == "cumprod":
        exact = exact.astype(np.int32)
    tolerance = {"bfloat16": 1e-2, "float16": 1e-3}.get(dtype, 1e-6)
    if name != "cumprod" or dtype != "float16":  # overflows
        np.testing.assert_allclose(numbers(ours), exact, rtol=tolerance)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize(("reverse", "inclusive"), FLAGS)
@pytest.mark.parametrize(
    "dtype", ["bool_", "uint8", "int8", "int32", "float16", "float32", "complex64"]
)
def test_flags_and_dtypes_are_mlxs(name: str, reverse: bool, inclusive: bool, dtype: str) -> None:
    values = [[1, 0, 2, 1], [3, 1, 0, 2]]
    for axis in (0, 1):
        flags = {"axis": axis, "reverse": reverse, "inclusive": inclusive}
        ours = getattr(mx, name)(mx.array(values).astype(getattr(mx, dtype)), **flags)
        theirs = getattr(oracle, name)(oracle.array(values).astype(getattr(oracle, dtype)), **flags)
        assert str(ours.dtype).rsplit(".")[-1] == str(theirs.dtype).rsplit(".")[-1]
        np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize(("reverse", "inclusive"), FLAGS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "complex64"])
def test_scans_of_rows_equal_scans_of_columns(
    name: str, reverse: bool, inclusive: bool, dtype: str
) -> None:
    values = np.random.default_rng(0).integers(-2, 3, (9, 500))
    x = mx.array(values).astype(getattr(mx, dtype))
    flags = {"reverse": reverse, "inclusive": inclusive}
    along_columns = numbers(getattr(mx, name)(x, 0, **flags))
    copied = mx.array(values.T.copy()).astype(getattr(mx, dtype))
    along_rows = numbers(getattr(mx, name)(copied, 1, **flags)).T
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(along_columns, along_rows, rtol=1e-5, atol=1e-5)


def test_dtype_argument() -> None:
    x = mx.array([200, 100], dtype=mx.uint8)
    assert mx.cumsum(x).tolist() == [200, 44]
    assert mx.cumsum(x, dtype=mx.int32).tolist() == [200, 300]
    assert mx.cumsum(x, dtype=mx.bool_).dtype == mx.int32
    assert mx.cumprod(x, dtype=mx.float32).tolist() == [200, 20000]
    with pytest.raises(TypeError, match=r"\[cumsum\] dtype must be a dtype"):
        mx.cumsum(x, dtype="int32")


def test_nan_and_infinities() -> None:
    x = mx.array([1.0, np.nan, 3.0])
    for name in SCANS:
        for dtype in (mx.float16, mx.bfloat16, mx.float32):
            assert np.isnan(numbers(getattr(mx, name)(x.astype(dtype)))).tolist() == [
                False,
                True,
                True,
            ]
    assert mx.logcumsumexp(mx.array([-np.inf, -np.inf, 1.0, np.inf])).tolist() == [
        -np.inf,
        -np.inf,
        1,
        np.inf,
    ]


def test_long_sums_are_accurate() -> None:
    x = np.random.default_rng(0).random((2, 10**6), np.float32)
    exact = np.cumsum(x, 1, dtype=np.float64)
    assert np.abs(np.array(mx.cumsum(mx.array(x), 1)) / exact - 1).max() < 1e-6
    half = mx.full((10_000,), 0.5).astype(mx.float16)
    assert mx.cumsum(half)[-1].item() == 5000


@pytest.mark.parametrize("rows", [7, 8, 19])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_sums_of_rows_side_by_side(rows: int, step: int) -> None:
    """Each is that of NumPy in double precision, to the last bit."""
    rng = np.random.default_rng(rows)
    for length in (1, 7, 8, 9, 23, 64, 301):
        x = (rng.standard_normal((rows, length)) * 10.0 ** rng.integers(-6, 6)).astype(np.float32)
        x[0, 0], x[-1, -1] = -0.0, np.nan
        x[1, length // 2] = np.inf
        exact = np.add.accumulate(x[:, ::step].astype(np.float64), 1).astype(np.float32)
        found = np.array(mx.cumsum(mx.array(x)[:, ::step], 1))
        np.testing.assert_array_equal(found, exact)
        assert np.array_equal(np.signbit(found[0]), np.signbit(exact[0]))


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"\[cummax\] a must be an array, got list"):
        mx.cummax([1, 2])
    with pytest.raises(IndexError, match=r"\[cumsum\] axis 2 is out of range"):
        mx.cumsum(mx.zeros((2, 3)), 2)
    with pytest.raises(IndexError, match=r"\[cumprod\] axis 0 is out of range"):
        mx.cumprod(mx.array(1.0), 0)
    assert mx.cumsum(mx.array(1.0)).shape == (1,)
    assert mx.cumsum(mx.zeros((0, 3)), 0).shape == (0, 3)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize(("reverse", "inclusive"), FLAGS)
def test_derivatives(name: str, reverse: bool, inclusive: bool) -> None:
    def scan(x: mx.array) -> mx.array:
        y = getattr(mx, name)(x * x, 1, reverse=reverse, inclusive=inclusive)
        return mx.where(mx.isinf(y), 0, y)  # exclusive extremes begin with infinity

    check_derivatives(scan, np.random.default_rng(3).normal(size=(2, 4)))


@pytest.mark.parametrize("zeros", [[0], [3], [1, 2], [0, 1, 3]])
def test_derivatives_of_cumprod_with_zeros(zeros: list[int]) -> None:
    x = np.array([1.5, -2.0, 0.5, 3.0])
    x[zeros] = 0
    check_derivatives(mx.cumprod, x)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize(("reverse", "inclusive"), FLAGS)
def test_the_last_of_equal_elements_gets_the_gradient_as_in_mlx(
    name: str, reverse: bool, inclusive: bool
) -> None:
    flags = {"reverse": reverse, "inclusive": inclusive}
    x, weights = [1.0, 3.0, 3.0, 2.0, 0.0, 0.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    _, ours = mx.vjp(lambda y: getattr(mx, name)(y, **flags), [mx.array(x)], [mx.array(weights)])
    _, theirs = oracle.vjp(
        lambda y: getattr(oracle, name)(y, **flags), [oracle.array(x)], [oracle.array(weights)]
    )
    assert ours[0].tolist() == theirs[0].tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize(("reverse", "inclusive"), FLAGS)
def test_nan_in_extremes_of_half_types_is_that_of_float32_in_mlx(
    name: str, dtype: str, reverse: bool, inclusive: bool
) -> None:
    """MLX's own half types have no NaN that its scan could return: it returns 0."""
    flags = {"reverse": reverse, "inclusive": inclusive}
    x = [-3.0, 1.0, float("nan"), 2.0, float("nan"), -4.0, 5.0]
    expected = np.array(getattr(oracle, name)(oracle.array(x), **flags))
    half = mx.array(x, getattr(mx, dtype))
    scan = getattr(mx, name)
    for function in (scan, mx.compile(lambda y: scan(y, **flags))):
        found = function(half, **flags) if function is scan else function(half)
        np.testing.assert_array_equal(numbers(found), expected)


@pytest.mark.parametrize(
    ("name", "whole"), [("cumsum", "sum"), ("cumprod", "prod"), ("logcumsumexp", "logsumexp")]
)
def test_complex_cotangents_are_those_of_the_reduction(name: str, whole: str) -> None:
    x, cotangent = [1 + 2j, 3 - 1j, 0.5j], [1 + 0.5j, 2j, -1 + 1j]
    _, ours = mx.vjp(getattr(mx, name), [mx.array(x)], [mx.array(cotangent)])
    expected = np.zeros(3, np.complex64)
    for end in (1, 2, 3):
        # MLX forgets to conjugate in its scans, but not in its reductions.
        _, part = oracle.vjp(
            getattr(oracle, whole), [oracle.array(x[:end])], [oracle.array(cotangent[end - 1])]
        )
        expected[:end] += numbers(part[0])
    np.testing.assert_allclose(numbers(ours[0]), expected, rtol=1e-5, atol=1e-6)


def test_products_that_overflow_do_not_spoil_the_gradient_before_them() -> None:
    gradient = mx.grad(lambda y: mx.cumprod(y)[1])(mx.full((30,), 1e6))
    assert gradient[:6].tolist() == pytest.approx([1e6, 1e6, 0, 0, 0, 0])


def test_masked_logits_have_no_gradient() -> None:
    gradient = mx.grad(lambda y: mx.logcumsumexp(y)[1:].sum())(
        mx.array([-np.inf, 1.0, -np.inf, 2.0])
    )
    assert np.isfinite(numbers(gradient)).all()
    assert gradient[0].item() == 0


@pytest.mark.parametrize("name", SCANS)
def test_vmap(name: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (4, 2, 3)).astype(np.float32)
    for axis in (None, 0, -1):
        check_vmap(lambda row, axis=axis: getattr(mx, name)(row, axis), x)
    check_vmap(mx.grad(lambda row: getattr(mx, name)(row, 0).sum()), x)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_diff(n: int, axis: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 4)).astype(np.int32)
    np.testing.assert_array_equal(np.array(mx.diff(mx.array(x), n, axis)), np.diff(x, n, axis))


def test_diff_of_bool_and_refusals() -> None:
    assert mx.diff(mx.array([True, False, True, True])).tolist() == [True, True, False]
    assert mx.diff(mx.array([1, 5, 3], dtype=mx.uint8)).tolist() == [4, 254]
    with pytest.raises(ValueError, match=r"\[diff\] cannot take differences -1 times"):
        mx.diff(mx.zeros((3,)), -1)
    with pytest.raises(IndexError, match=r"\[diff\] axis -1 is out of range"):
        mx.diff(mx.array(1.0))
    check_derivatives(lambda x: mx.diff(x * x, 2), np.array([1.0, 3.0, -2.0, 0.5]))
