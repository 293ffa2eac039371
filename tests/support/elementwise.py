"""What the tests of elementwise ops share: equal calls of ingot and MLX, and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as oracle
import numpy as np

import ingot.core as mx

__all__ = [
    "Named",
    "assert_derivatives",
    "assert_same",
    "assert_same_derivatives",
    "assert_same_error",
    "assert_vmap",
    "values_of",
]

STEP = 1e-5


@dataclass(frozen=True)
class Named:
    """A dtype by its name."""

    name: str


def values_of(result: Any) -> Any:
    """An array of either library, or a list of them, as NumPy; bfloat16 becomes float32."""
    if isinstance(result, (list, tuple)):
        return [values_of(item) for item in result]
    if str(result.dtype).endswith("bfloat16"):
        result = result.astype(mx.float32 if isinstance(result, mx.array) else oracle.float32)
    return np.array(result)


def _made(module: Any, argument: Any) -> Any:
    """A pair (values, dtype name) as an array of the module, a `Named` dtype as the module's."""
    if isinstance(argument, Named):
        return getattr(module, argument.name)
    if isinstance(argument, tuple):
        values, dtype = argument
        return module.array(values, dtype=getattr(module, dtype))
    return argument


def _call(module: Any, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    with oracle.stream(oracle.cpu):
        result = getattr(module, name)(*(_made(module, item) for item in arguments), **keywords)
        module.eval(result)
    return result


def assert_same(name: str, *arguments: Any, rounding: float = 0, **keywords: Any) -> None:
    """ingot and MLX give the same: shape, dtype and, within relative `rounding`, values."""
    ours = _call(mx, name, arguments, keywords)
    theirs = _call(oracle, name, arguments, keywords)
    assert type(ours) is type(theirs) or isinstance(ours, mx.array)
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, list) else [(ours, theirs)]
    for our, their in pairs:
        assert str(our.dtype).split(".")[-1] == str(their.dtype).split(".")[-1]
        assert our.shape == their.shape
        np.testing.assert_allclose(values_of(our), values_of(their), rounding, 0, equal_nan=True)


def assert_same_error(name: str, *arguments: Any, match: str, **keywords: Any) -> None:
    """ingot raises MLX's type of exception or a kind of it, with a message that holds `match`."""
    errors = []
    for module in (mx, oracle):
        try:
            _call(module, name, arguments, keywords)
        except (TypeError, ValueError, RuntimeError) as error:
            errors.append(error)
    assert len(errors) == 2, errors
    assert isinstance(errors[0], type(errors[1])), errors
    assert match in str(errors[0]), errors[0]


def _directions(points: list[Any], which: int) -> list[Any]:
    return [point * 0 + (1 if index == which else 0) for index, point in enumerate(points)]


def _tangent(function: Callable[..., Any], points: list[Any], which: int) -> Any:
    """The derivative by one argument, by forward mode."""
    return mx.jvp(function, points, _directions(points, which))[1][0]


def _cotangent(function: Callable[..., Any], points: list[Any], which: int) -> Any:
    """The derivative by one argument, by reverse mode; conjugated, which is what vjp conjugates."""
    ones = function(*points) * 0 + 1
    return mx.vjp(function, points, [ones])[1][which].conj()


def assert_derivatives(
    function: Callable[..., Any], *points: Any, complex_points: bool = False
) -> None:
    """Both modes equal central differences, to second order, in float64.

    There is no complex128, so complex points are compared roughly and to first order.
    """
    dtype = mx.complex64 if complex_points else mx.float64
    at = [mx.array(np.asarray(point), dtype=dtype) for point in points]
    step = 1e-2 if complex_points else STEP
    tolerance = 2e-3 if complex_points else 1e-6

    def difference(values: Callable[..., Any], which: int) -> np.ndarray:
        ahead = [point + step * one for point, one in zip(at, _directions(at, which), strict=True)]
        behind = [point - step * one for point, one in zip(at, _directions(at, which), strict=True)]
        return (values_of(values(*ahead)) - values_of(values(*behind))) / (2 * step)

    for which in range(len(at)):
        expected = difference(function, which)
        for mode in (_tangent, _cotangent):
            found = values_of(mode(function, at, which))
            np.testing.assert_allclose(found, expected, tolerance, tolerance)
        if complex_points:
            continue
        for mode in (_tangent, _cotangent):

            def first(*values: Any, mode: Any = mode, which: int = which) -> Any:
                return mode(function, list(values), which)

            for other in range(len(at)):
                expected = difference(first, other)
                for again in (_tangent, _cotangent):
                    found = values_of(again(first, at, other))
                    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


def assert_same_derivatives(name: str, *points: Any, rounding: float = 1e-6) -> None:
    """ingot's vjp in float32 equals MLX's, even where derivatives are infinite or NaN."""
    results = []
    for module in (mx, oracle):
        with oracle.stream(oracle.cpu):
            at = [module.array(np.array(point, np.float32)) for point in points]
            function = getattr(module, name)
            ones = module.array(np.ones(function(*at).shape, np.float32))
            results.append([values_of(found) for found in module.vjp(function, at, [ones])[1]])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rounding, 0, equal_nan=True)


def assert_vmap(function: Callable[..., Any], *arrays: Any) -> None:
    """A mapped function equals stacked single calls, whichever arguments are mapped."""
    for mapped in range(1, 2 ** len(arrays)):
        axes = [0 if mapped >> index & 1 else None for index in range(len(arrays))]
        singles = [
            [value[i] if axis == 0 else value[0] for value, axis in zip(arrays, axes, strict=True)]
            for i in range(arrays[0].shape[0])
        ]
        expected = [values_of(function(*(mx.array(item) for item in single))) for single in singles]
        given = [
            mx.array(value if axis == 0 else value[0])
            for value, axis in zip(arrays, axes, strict=True)
        ]
        found = values_of(mx.vmap(function, in_axes=tuple(axes))(*given))
        # Vectorised loops of NumPy round differently at the ends of arrays.
        np.testing.assert_allclose(found, np.stack(expected), 1e-6, equal_nan=True)
