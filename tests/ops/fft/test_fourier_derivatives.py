"""Derivatives of Fourier transforms: both modes, to second order, under vmap.

The transforms are linear, so NumPy's own, applied to one basis vector after the other in double
precision, give their whole derivative: a matrix between real numbers, two for each complex one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import ingot.core as mx

NORMS = ("backward", "ortho", "forward")
SHAPE = (3, 5, 4)
ONE_AXIS = ("fft", "ifft", "rfft", "irfft")
SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")

# odd and even lengths, shorter and longer than the axis, axes in any order
LENGTHS = [{"n": n, "axis": axis} for n, axis in product((None, 1, 2, 3, 6, 7), (0, -1))]
SHAPES: list[dict[str, Any]] = [
    {"axes": axes, "s": s}
    for axes, s in [
        ((0, 1), None),
        ((1, 0), None),
        ((2, 0), (5, 6)),
        ((0, 2), (2, 3)),
        ((-1, -2), (3, 8)),
        ((1,), (7,)),
        ((0, 1, 2), None),
        ((2, 1, 0), (2, 7, 5)),
    ]
]
CASES = [
    *product(ONE_AXIS, LENGTHS),
    *product(SEVERAL, SHAPES),
    *product(("fftshift", "ifftshift"), [{"axes": None}, {"axes": (0, 2)}]),
]


def to_real(x: Any) -> np.ndarray:
    """The real numbers that an array consists of."""
    values = np.array(x)
    parts = (values.real, values.imag) if values.dtype.kind == "c" else (values,)
    return np.concatenate([part.ravel() for part in parts]).astype(np.float64)


def from_real(numbers: np.ndarray, like: Any) -> np.ndarray:
    """The array, of the shape and kind of another, that consists of these numbers."""
    if np.array(like).dtype.kind != "c":
        return numbers.reshape(like.shape)
    real, imaginary = np.split(numbers, 2)
    return (real + 1j * imaginary).reshape(like.shape)


def matrix_of(function: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """The derivative of a linear function, column by column."""
    basis = np.eye(to_real(x).size)
    return np.stack([to_real(function(from_real(row, x))) for row in basis], 1)


def narrowed(x: np.ndarray) -> mx.array:
    return mx.array(x.astype(np.complex64 if x.dtype.kind == "c" else np.float32))


def check(found: Any, expected: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(to_real(found), expected, rtol=0, atol=2e-5 * scale)


def check_linear(
    ours: Callable[..., mx.array], theirs: Callable[..., np.ndarray], x: np.ndarray
) -> None:
    """All derivatives of a linear function, given the same in NumPy."""
    random = np.random.default_rng(1)
    matrix = matrix_of(theirs, x)
    point, out = narrowed(x), theirs(x)
    along = random.normal(size=matrix.shape[1])
    pull = random.normal(size=matrix.shape[0])
    weights = random.uniform(0.5, 1.5, out.shape)
    both = np.concatenate([weights.ravel()] * (matrix.shape[0] // weights.size))
    tangent, cotangent = narrowed(from_real(along, x)), narrowed(from_real(pull, out))

    def pulled(x: mx.array, c: mx.array) -> mx.array:
        return mx.vjp(ours, [x], [c])[1][0]

    def pushed(x: mx.array, t: mx.array) -> mx.array:
        return mx.jvp(ours, [x], [t])[1][0]

    def loss(x: mx.array) -> mx.array:
        y = ours(x)
        return 0.5 * (mx.square(mx.abs(y)) * narrowed(weights)).sum()

    check(ours(point), matrix @ to_real(x))
    check(pushed(point, tangent), matrix @ along)
    check(pulled(point, cotangent), matrix.T @ pull)
    # second order: of the adjoint by its cotangent, and of a loss that is not linear
    check(mx.vjp(lambda c: pulled(point, c), [cotangent], [tangent])[1][0], matrix @ along)
    gradient = mx.grad(loss)
    hessian = matrix.T @ (both[:, None] * matrix)
    check(gradient(point), hessian @ to_real(x))
    check(mx.jvp(gradient, [point], [tangent])[1][0], hessian @ along)
    check(mx.vjp(gradient, [point], [tangent])[1][0], hessian @ along)
    # the same for two examples at once
    for axis in (0, -1):
        points = mx.stack([point, 2 * point], axis)
        gradients = mx.vmap(gradient, in_axes=axis)(points)
        check(gradients[1], 2 * (hessian @ to_real(x)))
        tangents = mx.stack([tangent, -tangent], axis)
        check(mx.vmap(pushed, in_axes=axis)(points, tangents)[1], -matrix @ along)


@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL, "fftshift", "ifftshift"])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_transforms(name: str, kind: str) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=SHAPE)
    if kind == "complex":
        x = x + 1j * random.normal(size=SHAPE)
    ours, theirs = getattr(mx.fft, name), getattr(np.fft, name)
    cases = [keywords for case, keywords in CASES if case == name]
    for number, keywords in enumerate(cases):
        norm = {} if name.endswith("shift") else {"norm": NORMS[number % 3]}
        arguments = {**keywords, **norm}

        def in_numpy(x: np.ndarray, arguments: Any = arguments) -> np.ndarray:
            # NumPy discards imaginary parts of what it takes to be real only with a warning
            found: np.ndarray = theirs(x.real if name.startswith("rfft") else x, **arguments)
            return found

        check_linear(lambda x, arguments=arguments: ours(x, **arguments), in_numpy, x)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("length", [4, 5])
def test_there_and_back(norm: str, length: int) -> None:
    """A filter: a function of real numbers whose spectrum is changed in between."""
    response = np.random.default_rng(3).normal(size=(length // 2 + 1,)) * (1 + 1j)
    x = np.random.default_rng(2).normal(size=(3, length))

    def filtered(library: Any, x: Any, response: Any) -> Any:
        spectrum = library.fft.rfft(x, norm=norm) * response
        return library.fft.irfft(spectrum, length, norm=norm)

    check_linear(
        lambda x: filtered(mx, x, narrowed(response)), lambda x: filtered(np, x, response), x
    )


@pytest.mark.parametrize("name", ["stft", "istft"])
def test_short_time_transforms(name: str) -> None:
    """Linear as well; NumPy has none, so the values of the transform itself give its matrix."""
    random = np.random.default_rng(4)
    x = random.normal(size=(2, 20))
    if name == "istft":
        x = random.normal(size=(5, 6)) + 1j * random.normal(size=(5, 6))

    def transform(x: mx.array) -> mx.array:
        found: mx.array = getattr(mx.fft, name)(x, n_fft=8, hop_length=4)
        return found

    check_linear(transform, lambda x: np.array(transform(narrowed(x))), x)
