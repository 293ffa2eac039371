"""Values of other libraries and classes as operands, and what MLX allows where, as MLX has it."""

from __future__ import annotations

from array import array as python_array
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any

import ml_dtypes
import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx


class Floating:
    def __float__(self) -> float:
        return 2.5


class Index:
    def __index__(self) -> int:
        return 2


class Complex:
    def __complex__(self) -> complex:
        return 0.5 + 1j


class Both(Floating, Index):
    pass


class Integer:
    def __int__(self) -> int:
        return 2


class Arrays:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.ones(2, np.float32)


class Refusing:
    def __float__(self) -> float:
        raise TypeError("no number")


class Plain:
    pass


class Buffer(python_array):  # type: ignore[type-arg]
    """Doubles that other libraries reach through the buffer protocol."""

    def __new__(cls) -> Any:
        return super().__new__(cls, "d", [1.5, -2])


class Wide(np.ndarray):
    """Numbers of complex128, which arrays do not have."""

    def __new__(cls) -> Wide:
        return np.array([1 + 2j, -1]).view(cls)


NUMBERS = (Decimal, np.longdouble)  # made without an argument, they are 0
VALUES = (Floating, Index, Complex, Both, Integer, Arrays, Refusing, Plain, Buffer, Wide, *NUMBERS)
USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x + v": lambda mx, x, v: x + v,
    "v + x": lambda mx, x, v: v + x,
    "x - v": lambda mx, x, v: x - v,
    "v / x": lambda mx, x, v: v / x,
    "x ** v": lambda mx, x, v: x**v,
    "x == v": lambda mx, x, v: x == v,
    "x != v": lambda mx, x, v: x != v,
    "add": lambda mx, x, v: mx.add(x, v),
    "where": lambda mx, x, v: mx.where(x > 1, v, x),
    "exp": lambda mx, x, v: mx.exp(v),
    "full": lambda mx, x, v: mx.full((2,), v),
    "array": lambda mx, x, v: mx.array(v),
    "list": lambda mx, x, v: mx.array([v]),
    "sum": lambda mx, x, v: mx.sum(v),
    "isfinite": lambda mx, x, v: mx.isfinite(v),
    "isnan": lambda mx, x, v: mx.isnan(v),
    "maximum": lambda mx, x, v: mx.maximum(v, x),
    "real": lambda mx, x, v: mx.real(v),
    "allclose": lambda mx, x, v: mx.allclose(x, v),
    "pad": lambda mx, x, v: mx.pad(x, v),
    "bernoulli": lambda mx, x, v: mx.random.bernoulli(v, x.shape, mx.random.key(0)),
}


def outcome(call: Callable[[], Any]) -> Any:
    """The dtype and elements of a result, or the type of an error."""
    try:
        found = call()
    except Exception as error:
        return next(kind for kind in (TypeError, ValueError, Exception) if isinstance(error, kind))
    return str(getattr(found, "dtype", "")).split(".")[-1], np.array(found).tolist()


# MLX makes no arrays of these. Frames and series of pandas are among what has `__array__`.
MADE_BY_INGOT = {("array", Arrays), ("list", Arrays), ("list", Buffer), ("list", Wide)}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", VALUES)
def test_operand(kind: type[Any], use: str) -> None:
    expected: Any
    found: Any
    expected, found = (
        outcome(lambda m=module: USES[use](m, m.array([1.0, 2.0]), kind())) for module in (mlx, mx)
    )
    if (use, kind) in MADE_BY_INGOT:
        assert expected is ValueError
        assert found[1] == np.asarray([kind()] if use == "list" else kind()).tolist()
    elif expected is Exception:  # an accident: any refusal is as good
        assert not isinstance(found, tuple)
    elif isinstance(expected, tuple) and isinstance(found, tuple):
        assert expected[0] == found[0]
        np.testing.assert_allclose(expected[1], found[1], rtol=1e-6)
    else:
        assert expected == found


def test_bfloat16_in_numpy() -> None:
    """MLX's array has a buffer of a format that NumPy does not know, and so no NumPy form."""
    x = mx.array([[1.5, 2], [3, 4]], mx.bfloat16)
    for found in (np.array(x), np.asarray(x), np.asarray(x.T).T):
        assert found.dtype == ml_dtypes.bfloat16
        assert found.astype(np.float32).tolist() == [[1.5, 2], [3, 4]]
    assert np.array(x, np.float64).tolist() == [[1.5, 2], [3, 4]]
    assert np.abs(x).sum() == 10.5
    assert mx.array(np.array(x)).dtype == mx.bfloat16
    with pytest.raises(BufferError, match="no format for bfloat16"):
        memoryview(x)


def test_numpy_functions() -> None:
    """They work through `__array__`, unless NumPy calls a method of the array with more keywords
    than it has: then the error says the way out.
    """
    data = np.array([[3.0, 1], [2, 4]], np.float32)
    x = mx.array(data)
    for name in "exp sort cumsum median unique transpose argmax linalg.norm isnan".split():
        function = reduce(getattr, name.split("."), np)
        np.testing.assert_allclose(np.array(function(x)), function(data), rtol=1e-6)
    for name in "mean sum max min std var prod any all".split():
        with pytest.raises(TypeError, match=rf"np\.{name}\(np\.array\(x\)\)"):
            getattr(np, name)(x)


VMAPS: dict[str, Callable[[Any, Any], Any]] = {
    "tuple of one": lambda mx, x: mx.vmap(lambda x: x * 2, out_axes=(1,))(x),
    "tuple of zero": lambda mx, x: mx.vmap(lambda x: x * 2, out_axes=(0,))(x),
    "list of one": lambda mx, x: mx.vmap(lambda x: x * 2, out_axes=[1])(x),
    "two for one": lambda mx, x: mx.vmap(lambda x: x * 2, out_axes=(0, 1))(x),
    "two for two": lambda mx, x: mx.vmap(lambda x: (x * 2, x), out_axes=(0, 1))(x)[1],
}


@pytest.mark.parametrize("name", VMAPS)
def test_axes_of_vmapped_results(name: str) -> None:
    expected, found = (
        outcome(lambda m=module: VMAPS[name](m, m.array([[1.0, 2], [3, 4]])))
        for module in (mlx, mx)
    )
    assert expected == found


@pytest.mark.parametrize("transform", ["compile", "vmap", "grad"])
def test_async_eval_inside_a_transform(transform: str) -> None:
    for module in (mlx, mx):

        def function(x: Any, module: Any = module) -> Any:
            module.async_eval(x)
            return x * 2

        with pytest.raises(ValueError, match="async_eval"):
            getattr(module, transform)(function)(module.array([1.0]))


@pytest.mark.parametrize("spatial", [(4,), (4, 5), (4, 3, 5), (2, 2, 2, 2)])
def test_conv1d_of_more_axes(spatial: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, *spatial, 4)).astype(np.float32)
    groups = 2 if len(spatial) < 3 else 1  # MLX has no groups of 3-D convolutions
    channels = 4 // groups
    w = generator.standard_normal((6, *(2 for _ in spatial), channels)).astype(np.float32)
    expected, found = (
        outcome(lambda m=m: m.conv1d(m.array(x), m.array(w), stride=2, padding=1, groups=groups))
        for m in (mlx, mx)
    )
    if isinstance(expected, tuple):
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)
    else:
        assert expected == found
