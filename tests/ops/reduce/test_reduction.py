"""Sums, products, extremes and their positions, all and any."""

from __future__ import annotations

import mlx.core as oracle
import numpy as np
import pytest
from tests.ops.rule_checks import check_derivatives, check_vmap, numbers

import ingot.core as mx
from ingot.graph.op import registry

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()
REDUCTIONS = "sum prod max min all any".split()
AXES = [None, 0, 1, -1, (0, 2), (2, 1), [0, 1, 2]]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_values_are_mlxs(name: str, dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 4, (2, 3, 4))
    for axis in AXES:
        ours = getattr(mx, name)(mx.array(values).astype(getattr(mx, dtype)), axis)
        theirs = getattr(oracle, name)(oracle.array(values).astype(getattr(oracle, dtype)), axis)
        assert str(ours.dtype).rsplit(".")[-1] == str(theirs.dtype).rsplit(".")[-1]
        np.testing.assert_array_equal(numbers(ours), numbers(theirs))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_no_axes_leave_the_array(name: str) -> None:
    x = mx.array([[1, 0], [3, 1]], dtype=mx.int8)
    result = getattr(mx, name)(x, axis=[])
    assert result is not x
    assert result.dtype == (mx.bool_ if name in ("all", "any") else mx.int8)
    assert result.shape == x.shape


@pytest.mark.parametrize("name", REDUCTIONS)
def test_keepdims(name: str) -> None:
    x = mx.ones((2, 3, 4))
    reduce = getattr(mx, name)
    assert reduce(x, keepdims=True).shape == (1, 1, 1)
    assert reduce(x, (0, 2), True).shape == (1, 3, 1)
    assert getattr(x, name)(-1).shape == (2, 3)


def test_reductions_of_nothing() -> None:
    empty = mx.zeros((0, 3))
    assert mx.sum(empty, 0).tolist() == [0, 0, 0]
    assert mx.prod(empty, 0).tolist() == [1, 1, 1]
    assert mx.all(empty).item() is True
    assert mx.any(empty).item() is False
    assert mx.max(empty, 1).shape == (0,)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes_of_nothing_raise(name: str) -> None:
    with pytest.raises(ValueError, match=rf"\[{name}\] cannot choose from no elements: .*\(0, 3\)"):
        getattr(mx, name)(mx.zeros((0, 3)), 0)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_wrong_arguments(name: str) -> None:
    reduce, x = getattr(mx, name), mx.ones((2, 3))
    with pytest.raises(TypeError, match=rf"\[{name}\] a must be an array, got list"):
        reduce([1, 2])
    with pytest.raises(IndexError, match=rf"\[{name}\] axis 2 is out of range for an array with 2"):
        reduce(x, 2)
    with pytest.raises(ValueError, match=rf"\[{name}\].*twice"):
        reduce(x, (0, -2))
    with pytest.raises(TypeError, match=rf"\[{name}\].*1.5"):
        reduce(x, 1.5)


def test_nan_wins() -> None:
    x = mx.array([[1.0, np.nan, 3.0], [np.nan, -np.inf, np.inf], [1.0, 3.0, 3.0]])
    for name, expected in {"argmax": [1, 0, 1], "argmin": [1, 0, 0]}.items():
        for dtype in (mx.float16, mx.bfloat16, mx.float32, mx.float64):
            result = getattr(mx, name)(x.astype(dtype), 1)
            assert result.dtype == mx.uint32
            assert result.tolist() == expected
    for dtype in (mx.float16, mx.bfloat16, mx.float32, mx.float64):
        assert np.isnan(numbers(mx.max(x.astype(dtype), 1))[:2]).all()
        assert np.isnan(numbers(mx.min(x.astype(dtype), 0))).tolist() == [True, True, False]


def test_positions() -> None:
    x = mx.array([[3, 1, 3], [0, 5, 5]])
    assert mx.argmax(x).item() == 4
    assert mx.argmax(x, keepdims=True).shape == (1, 1)
    assert mx.argmax(x, 0).tolist() == [0, 1, 1]
    assert x.argmin(1, True).tolist() == [[1], [0]]


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(2, 0, 1),
    "stepped": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1, :, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "float16"])
def test_sums_of_any_layout(layout: str, axes: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = LAYOUTS[layout](rng.integers(-1, 2, (41, 67, 83)).astype(dtype))
    op = registry()["Sum"](axes, getattr(mx, dtype))
    wide = "complex128" if dtype == "complex64" else "float64"
    exact = x.astype(wide).sum(axes, keepdims=True).astype(dtype)
    np.testing.assert_array_equal(op.evaluate(x), exact)


@pytest.mark.parametrize(
    "shape", [(10**7,), (10**6, 10), (10, 10**6), (3333, 3, 1000), (5 * 10**6, 2)]
)
@pytest.mark.parametrize("constant", [False, True])
def test_long_float32_sums_are_accurate(shape: tuple[int, ...], constant: bool) -> None:
    if constant:
        x = np.full(shape, 0.1, np.float32)
    else:
        x = np.random.default_rng(0).random(shape, np.float32)
    for axis in (*range(len(shape)), None):
        exact = x.sum(axis, dtype=np.float64)
        error = np.abs(np.array(mx.sum(mx.array(x), axis)) / exact - 1).max()
        assert error < 1e-6, (axis, error)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_added_in_float32(dtype: str) -> None:
    x = mx.full((2, 20_000), 0.5).astype(getattr(mx, dtype))
    expected = mx.array(10_000.0).astype(getattr(mx, dtype)).item()
    assert mx.sum(x, 1).tolist() == [expected] * 2
    assert mx.sum(x.T, 0).tolist() == [expected] * 2


SMOOTH = {
    "sum": lambda x: mx.sum(x * x, (0, 2)),
    "prod": lambda x: mx.prod(x, 1),
    "prod of several axes": lambda x: mx.prod(x, (0, 2)),
    "max": lambda x: mx.max(x * x, (0, 2)),
    "min": lambda x: mx.min(x * x, 1, keepdims=True),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    check_derivatives(SMOOTH[name], np.random.default_rng(5).normal(size=(2, 3, 2)))


@pytest.mark.parametrize("zeros", [[0], [0, 2], [0, 1, 3]])
def test_derivatives_of_prod_with_zeros(zeros: list[int]) -> None:
    x = np.array([1.5, -2.0, 0.5, 3.0])
    x[zeros] = 0
    check_derivatives(mx.prod, x)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("x", [[1.0, 3.0, 3.0, 2.0], [2.0, 2.0, 2.0, 2.0], [np.nan, 1.0, 2.0, 1.0]])
def test_ties_share_the_gradient_as_in_mlx(name: str, x: list[float]) -> None:
    def ours(y: mx.array) -> mx.array:
        return getattr(mx, name)(y, 0)

    def theirs(y: oracle.array) -> oracle.array:
        return getattr(oracle, name)(y, 0)

    expected = numbers(oracle.grad(theirs)(oracle.array(x)))
    np.testing.assert_array_equal(numbers(mx.grad(ours)(mx.array(x))), expected)
    direction = [1.0, 2.0, 3.0, 4.0]
    change = mx.jvp(ours, [mx.array(x)], [mx.array(direction)])[1][0]
    expected = oracle.jvp(theirs, [oracle.array(x)], [oracle.array(direction)])[1][0]
    assert change.item() == expected.item()


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_complex_cotangents_are_mlxs(name: str) -> None:
    x = [1 + 2j, 3 - 1j, 0.5j]
    cotangent = 1 + 0.5j
    _, ours = mx.vjp(getattr(mx, name), [mx.array(x)], [mx.array(cotangent)])
    _, theirs = oracle.vjp(getattr(oracle, name), [oracle.array(x)], [oracle.array(cotangent)])
    np.testing.assert_allclose(numbers(ours[0]), numbers(theirs[0]), rtol=1e-6)


@pytest.mark.parametrize("name", [*REDUCTIONS, "argmax", "argmin"])
def test_vmap(name: str) -> None:
    x = np.random.default_rng(0).integers(0, 3, (4, 2, 3)).astype(np.float32)
    for axis in (None, 0, -1):
        check_vmap(lambda row, axis=axis: getattr(mx, name)(row, axis), x)


def test_starts_for_the_code_generator() -> None:
    ops = registry()
    assert ops["Sum"]((0,), mx.int32).start(mx.int32) == 0
    assert ops["Max"]((0,)).start(mx.int8) == -128
    assert ops["Min"]((0,)).start(mx.uint16) == 65535
    assert ops["Max"]((0,)).start(mx.float16) == -np.inf
    assert ops["Min"]((0,)).start(mx.bool_) is True
    assert ops["All"]((0,)).start(mx.bool_) is True


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool_"])
@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1])
def test_minmax_is_mlxs(dtype: str, axis: int | tuple[int, int] | None) -> None:
    numbers = np.random.default_rng(0).integers(-100, 100, (3, 4, 5)).astype(np.float32)
    for keepdims in (False, True):
        ours = mx.minmax(mx.array(numbers).astype(getattr(mx, dtype)), axis, keepdims)
        theirs = oracle.minmax(oracle.array(numbers).astype(getattr(oracle, dtype)), axis, keepdims)
        assert [x.shape for x in ours] == [x.shape for x in theirs]
        assert [x.tolist() for x in ours] == [x.tolist() for x in theirs]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("special", [0.0, np.inf, np.nan])
def test_large_arrays_of_halves(name: str, dtype: str, axis: int | None, special: float) -> None:
    values = np.random.default_rng(6).standard_normal((70, 90)).astype(np.float32)
    values[3, 5] = values[40, 5] = special
    if special == 0:
        values = -np.abs(values)
    ours = getattr(mx, name)(mx.array(values).astype(getattr(mx, dtype)), axis)
    wide = numbers(mx.array(values).astype(getattr(mx, dtype))).astype(np.float32)
    np.testing.assert_array_equal(numbers(ours), getattr(np, name)(wide, axis))
