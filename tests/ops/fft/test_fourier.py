"""Fourier transforms: values against NumPy and MLX, derivatives, vmap, refusals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.linalg.matrix_checks import (
    DTYPES,
    check_close,
    complex_normal,
    normal,
    refuses,
    values,
)

import ingot.core as mx

NORMS = ("backward", "ortho", "forward")
ONE_AXIS = ("fft", "ifft", "rfft", "irfft")
TWO_AXES = ("fft2", "ifft2", "rfft2", "irfft2")
SEVERAL_AXES = ("fftn", "ifftn", "rfftn", "irfftn")


def sample(name: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Input for a transform: real for those of real values."""
    if name.startswith("rfft"):
        return normal(*shape, seed=seed).astype(np.float32)
    return complex_normal(*shape, seed=seed)


def check_equals_numpy(name: str, x: np.ndarray, **arguments: Any) -> None:
    found = getattr(mx.fft, name)(mx.array(x), **arguments)
    assert found.dtype == (mx.float32 if name.startswith("irfft") else mx.complex64)
    check_close(found, getattr(np.fft, name)(x, **arguments), 3e-5)


@pytest.mark.parametrize("name", ONE_AXIS)
def test_transforms_along_one_axis(name: str) -> None:
    x = sample(name, 3, 5, 4)
    for n, axis, norm in product((None, 1, 3, 4, 8, 9), (0, 1, -1), NORMS):
        check_equals_numpy(name, x, n=n, axis=axis, norm=norm)


@pytest.mark.parametrize("name", [*TWO_AXES, *SEVERAL_AXES])
def test_transforms_along_several_axes(name: str) -> None:
    x = sample(name, 3, 5, 4)
    cases = [((0, 1), None), ((2, 0), (5, 6)), ((-1, -2), (2, 2)), ((1,), (7,)), ((0, 1, 2), None)]
    for (axes, s), norm in product(cases, NORMS):
        check_equals_numpy(name, x, s=s, axes=axes, norm=norm)
    check_equals_numpy(name, x)


@pytest.mark.parametrize("name", ["fft", "rfft2", "irfftn"])
def test_large_transforms(name: str) -> None:
    x = sample(name, 200, 129)
    found = values(getattr(mx.fft, name)(mx.array(x)))
    expected = getattr(np.fft, name)(x.astype(np.complex128 if x.dtype.kind == "c" else float))
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", ONE_AXIS)
def test_inputs_of_any_dtype_equal_mlx(name: str) -> None:
    for dtype in DTYPES:
        ours, theirs = (
            getattr(library.fft, name)(
                library.array([1.0, 2.0, 3.0, 4.0, 5.0]).astype(getattr(library, dtype))
            )
            for library in (mx, mlx)
        )
        check_close(ours, np.array(theirs))
    complex_numbers = mx.array(complex_normal(5))
    check_close(mx.fft.rfft(complex_numbers), values(mx.fft.rfft(complex_numbers.real)))


@pytest.mark.parametrize("name", [*TWO_AXES, *SEVERAL_AXES])
def test_no_axes_change_nothing(name: str) -> None:
    x = mx.array([[1.0, 2.0]])
    found = getattr(mx.fft, name)(x, axes=())
    assert found.dtype == mx.float32
    assert found.tolist() == x.tolist()
    found += 1
    assert x.tolist() == [[1.0, 2.0]]


def cotangent(out: Any, library: Any) -> Any:
    numbers = np.random.default_rng(3).normal(size=(2, *out.shape)).astype(np.float32)
    real, imaginary = library.array(numbers[0]), library.array(numbers[1])
    return real + imaginary * 1j if out.dtype == library.complex64 else real


@pytest.mark.parametrize("name", [*ONE_AXIS, *TWO_AXES, *SEVERAL_AXES])
@pytest.mark.parametrize("norm", NORMS)
def test_cotangents_equal_mlx(name: str, norm: str) -> None:
    arguments: list[dict[str, Any]] = [{}]
    if name in ONE_AXIS:
        arguments += [{"n": 3, "axis": 0}, {"n": 7, "axis": 1}, {"n": 6}]
    else:
        arguments += [{"axes": (2, 0), "s": (5, 6)}, {"axes": (0, 1), "s": (2, 3)}]
    for chosen in arguments:

        def pulled(library: Any, chosen: dict[str, Any] = chosen) -> Any:
            def function(x: Any) -> Any:
                return getattr(library.fft, name)(x, norm=norm, **chosen)

            x = library.array(sample(name, 3, 5, 4))
            return library.vjp(function, [x], [cotangent(function(x), library)])[1][0]

        check_close(pulled(mx), np.array(pulled(mlx)), 1e-4)


def dot(a: mx.array, b: mx.array) -> float:
    return float((values(a).conj() * values(b)).real.sum())


@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL_AXES])
@pytest.mark.parametrize("length", [4, 5])
def test_tangents_are_transforms_and_adjoint_to_cotangents(name: str, length: int) -> None:
    transform: Callable[..., mx.array] = getattr(mx.fft, name)
    keyword: dict[str, Any] = {"n": length} if name in ONE_AXIS else {"s": (length,), "axes": (-1,)}

    def function(x: mx.array) -> mx.array:
        return transform(x, **keyword)

    x, direction = (mx.array(sample(name, 2, 3, seed=seed)) for seed in (0, 5))
    outputs, (change,) = mx.jvp(function, [x], [direction])
    check_close(change, values(function(direction)))
    weights = cotangent(outputs[0], mx)
    _, (back,) = mx.vjp(function, [x], [weights])
    np.testing.assert_allclose(dot(back, direction), dot(weights, change), rtol=1e-4)

    def pulled(y: mx.array) -> mx.array:
        return mx.vjp(function, [x], [y])[1][0]

    # The second derivative, that of the adjoint by its cotangent, is the transform again.
    _, (again,) = mx.vjp(pulled, [weights], [direction])
    check_close(again, values(function(direction)), 1e-4)


@pytest.mark.parametrize("name", [*ONE_AXIS, "fftn", "irfftn"])
def test_vmap(name: str) -> None:
    x = sample(name, 3, 4, 5)
    function = getattr(mx.fft, name)
    for axis in (0, 1, 2):
        rows = [function(mx.array(row)) for row in np.moveaxis(x, axis, 0)]
        mapped = mx.vmap(function, in_axes=axis)(mx.array(x))
        check_close(mapped, np.stack([values(row) for row in rows]))


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name: str) -> None:
    x = normal(2, 3, 5)
    axes_given = (None, 0, -1, (0, 2), [1], (), (1, -2))
    for axes in axes_given:
        found = getattr(mx.fft, name)(mx.array(x, dtype=mx.float64), axes)
        np.testing.assert_array_equal(values(found), getattr(np.fft, name)(x, axes))
    assert getattr(mx.fft, name)(mx.array(1.0)).item() == 1
    assert getattr(mx.fft, name)(mx.zeros((0,))).shape == (0,)


def test_shift_and_back() -> None:
    x = mx.arange(5)
    assert mx.fft.ifftshift(mx.fft.fftshift(x)).tolist() == x.tolist()


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name: str) -> None:
    for n, d in product((1, 2, 4, 5, 1000), (1.0, 0.1, 2, -3.5)):
        found = getattr(mx.fft, name)(n, d)
        assert found.dtype == mx.float32
        np.testing.assert_allclose(values(found), getattr(np.fft, name)(n, d), rtol=3e-7)


def test_compiled_functions_give_the_same() -> None:
    def function(x: mx.array) -> mx.array:
        spectrum = mx.fft.rfft(x * 2)
        return mx.fft.irfft(spectrum * mx.fft.rfft(x), 6) + 1

    x = mx.array(normal(2, 6))
    check_close(mx.compile(function)(x), values(function(x)))


def test_refusals() -> None:
    x = mx.ones((2, 3))
    fft = mx.fft
    refuses(TypeError, "[fft] a must be an array, got list", lambda: fft.fft([1.0]))
    refuses(TypeError, "[rfft] n must be an int or None, got float: 2.5.", lambda: fft.rfft(x, 2.5))
    refuses(
        TypeError,
        "[ifft] norm must be a string, got NoneType: None.",
        lambda: fft.ifft(x, norm=None),
    )
    refuses(
        ValueError,
        '[ifft] norm is "backward", "ortho" or "forward", got \'Ortho\'.',
        lambda: fft.ifft(x, norm="Ortho"),
    )
    refuses(IndexError, "[fft] axis 2 is out of range", lambda: fft.fft(x, axis=2))
    refuses(IndexError, "[fft2] axis -2 is out of range", lambda: fft.fft2(mx.ones(3)))
    for n in (0, -1):
        refuses(
            ValueError,
            f"[fft] the transformed axes have at least one element each, got lengths ({n}).",
            lambda n=n: fft.fft(x, n),
        )
    refuses(ValueError, "[irfft] the transformed axes", lambda: fft.irfft(mx.ones((3, 1))))
    refuses(ValueError, "[fft] the transformed axes", lambda: fft.fft(mx.zeros((0,))))
    refuses(
        ValueError,
        "[fftn] the lengths (2, 2) need axes that they belong to: give axes.",
        lambda: fft.fftn(x, (2, 2)),
    )
    refuses(
        ValueError,
        "[fft2] lengths (2) and axes (-2, -1) differ in number.",
        lambda: fft.fft2(x, (2,)),
    )
    refuses(
        ValueError,
        "[fftn] the axes (1, -1) name an axis twice.",
        lambda: fft.fftn(x, axes=(1, -1)),
    )
    refuses(
        ValueError,
        "[rfftn] takes an array with at least one axis, got a scalar.",
        lambda: fft.rfftn(mx.array(1.0)),
    )
    refuses(
        TypeError, "[fftn] axes must be a sequence of ints or None", lambda: fft.fftn(x, axes=1)
    )
    refuses(IndexError, "[fftshift] axis 2 is out of range", lambda: fft.fftshift(x, 2))
    refuses(TypeError, "[fftshift] axes must be an int", lambda: fft.fftshift(x, 1.5))
    refuses(
        ValueError,
        "[fftfreq] there must be at least one sample, got n=0.",
        lambda: fft.fftfreq(0),
    )
    refuses(
        ValueError,
        "[rfftfreq] the distance d of samples cannot be 0.",
        lambda: fft.rfftfreq(3, 0),
    )
    refuses(TypeError, "[fftfreq] n must be an int", lambda: fft.fftfreq(5.5))
    refuses(
        TypeError,
        "[fftfreq] d must be a number, got str: 'a'.",
        lambda: fft.fftfreq(5, "a"),
    )
