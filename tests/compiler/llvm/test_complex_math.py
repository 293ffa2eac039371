"""Complex functions of generated code against NumPy's of complex128."""

from __future__ import annotations

import platform
from math import inf, nan

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word

from ingot.compiler.machine.jit import machine_description
from ingot.graph.dtype import bool_, complex64, float32

FUNCTIONS = (
    "sqrt exp log log2 log10 log1p sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh "
    "arctanh"
).split()
WORDS = {**dict.fromkeys([*FUNCTIONS, "rsqrt"], 1), **dict.fromkeys(["divide", "power"], 2)}


def spread(count: int, largest: float, seed: int = 0) -> np.ndarray:
    """Complex numbers of all directions and of moduli from 1e-6 to the largest."""
    generator = np.random.default_rng(seed)
    modulus = np.exp(generator.uniform(np.log(1e-6), np.log(largest), count))
    angle = generator.uniform(-np.pi, np.pi, count)
    return (modulus * np.exp(1j * angle)).astype(np.complex64)


def log1p(z: np.ndarray) -> np.ndarray:
    """NumPy's adds 1 first, which loses small z."""
    real = np.log1p(z.real * (z.real + 2) + z.imag * z.imag) / 2
    return real + 1j * np.arctan2(z.imag, z.real + 1)


def reference(name: str, z: np.ndarray) -> np.ndarray:
    wide = z.astype(np.complex128)
    if name == "rsqrt":
        return 1 / np.sqrt(wide)
    return log1p(wide) if name == "log1p" else getattr(np, name)(wide)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected) / np.abs(expected)))


@pytest.mark.parametrize("name", [*FUNCTIONS, "rsqrt"])
def test_functions_are_as_numpy_has_them(name: str) -> None:
    largest = 20.0 if name in ("exp", "sinh", "cosh", "sin", "cos", "tan") else 1e6
    z = spread(20_000, largest)
    found = compile_word(name, complex64)(z)
    assert relative_error(found, reference(name, z)) < 2e-7


@pytest.mark.parametrize("name", ["log", "log1p", "arctanh", "arcsin", "arccosh", "sqrt"])
def test_small_parts_are_accurate_too(name: str) -> None:
    """Each part by itself, even where it is much smaller than the other."""
    generator = np.random.default_rng(1)
    parts = 10.0 ** generator.uniform(-12, 3, (2, 20_000)) * generator.choice([-1, 1], (2, 20_000))
    z = (parts[0] + 1j * parts[1]).astype(np.complex64)
    found = compile_word(name, complex64)(z)
    with np.errstate(all="ignore"):
        expected = reference(name, z)
    if name == "log1p":  # where |1 + z| is nearly 1, the reference itself cancels
        near = np.abs(expected.real) < 1e-3 * np.abs(expected.imag)
        found, expected = found[~near], expected[~near]
    np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-5, atol=1e-44)
    np.testing.assert_allclose(found.real, expected.real, rtol=1e-5, atol=1e-14)


EDGES = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1e-30, -1e-30, 100, -100, 1e30, -1e30, 3e38, -3e38],
    np.float32,
)


def grid(values: np.ndarray) -> np.ndarray:
    """All combinations of parts, with the signs of zeros."""
    z = np.empty((values.size, values.size), np.complex64)
    z.real, z.imag = values[:, None], values[None, :]
    return z.ravel()


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "log1p"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_edges_and_sides_of_branch_cuts(name: str) -> None:
    z = grid(EDGES)
    found = compile_word(name, complex64)(z)
    expected = reference(name, z).astype(np.complex64)
    for part, other in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_allclose(part, other, rtol=1e-6, atol=1e-44)
        # An infinite part times a zero has either sign.
        sure = np.isfinite(expected.real) & np.isfinite(expected.imag) & (np.abs(other) > 1e-45)
        assert (np.signbit(part) == np.signbit(other))[sure].all()


INFINITE = {
    "sqrt": [(inf, 1, inf, 0), (-inf, 1, 0, inf), (1, inf, inf, inf), (1, -inf, inf, -inf)],
    "exp": [(inf, 0, inf, 0), (-inf, 1, 0, 0), (-inf, inf, 0, 0), (1, inf, nan, nan)],
    "log": [(inf, 1, inf, 0), (-inf, 1, inf, np.pi), (1, inf, inf, np.pi / 2), (0, 0, -inf, 0)],
    "sinh": [(inf, 0, inf, 0), (0, inf, 0, nan)],
    "cosh": [(inf, 0, inf, 0), (0, inf, nan, 0)],
    "tanh": [(inf, 1, 1, 0), (-inf, 1, -1, 0), (inf, inf, 1, 0)],
    "arcsin": [(inf, 1, np.pi / 2, inf), (1, inf, 0, inf), (inf, inf, np.pi / 4, inf)],
    "arccos": [(inf, 1, 0, -inf), (1, inf, np.pi / 2, -inf), (-inf, inf, 3 * np.pi / 4, -inf)],
    "arctan": [(inf, 1, np.pi / 2, 0), (1, inf, np.pi / 2, 0)],
    "arcsinh": [(inf, 1, inf, 0), (1, inf, inf, np.pi / 2), (inf, inf, inf, np.pi / 4)],
    "arccosh": [(inf, 1, inf, 0), (1, inf, inf, np.pi / 2), (-inf, 1, inf, np.pi)],
    "arctanh": [(inf, 1, 0, np.pi / 2), (1, inf, 0, np.pi / 2), (1, 0, inf, 0)],
}


@pytest.mark.parametrize("name", INFINITE)
def test_infinite_arguments(name: str) -> None:
    x, y, real, imaginary = np.array(INFINITE[name], np.float32).T
    z = np.empty(x.shape, np.complex64)
    z.real, z.imag = x, y
    found = compile_word(name, complex64)(z)
    np.testing.assert_allclose(found.real, real, rtol=1e-6)
    np.testing.assert_allclose(found.imag, imaginary, rtol=1e-6)


# Arithmetic


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power"])
def test_arithmetic(name: str) -> None:
    largest = 30.0 if name == "power" else 1e12
    a, b = spread(20_000, largest), spread(20_000, 4.0 if name == "power" else largest, 1)
    found = compile_word(name, complex64, arity=2)(a, b)
    expected = getattr(np, name)(a.astype(np.complex128), b.astype(np.complex128))
    scale = np.abs(expected)
    if name in ("add", "subtract"):
        scale = np.abs(a) + np.abs(b)
    assert np.max(np.abs(found - expected) / scale) < 4e-7


def test_products_with_conjugates_are_real() -> None:
    z = spread(1000, 1e6)
    found = compile_word("multiply", complex64, arity=2)(z, z.conj())
    assert (found.imag == 0).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quotients_of_large_small_infinite_and_zero_values() -> None:
    values = grid(np.array([0, -0.0, 1, -2, 3e38, 1e-38, inf, -inf, nan], np.float32))
    a, b = (part.ravel() for part in np.meshgrid(values, values))
    found = compile_word("divide", complex64, arity=2)(a, b)
    # NumPy's formula in double, where nothing finite overflows
    expected = (a.astype(np.complex128) / b.astype(np.complex128)).astype(np.complex64)
    np.testing.assert_allclose(found.real, expected.real, rtol=1e-6, atol=1e-44)
    np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-6, atol=1e-44)


def test_powers_of_zero() -> None:
    a = np.array([0, 0, 0, 2, 1j], np.complex64)
    b = np.array([0, 2, 1 + 1j, 0, 0], np.complex64)
    found = compile_word("power", complex64, arity=2)(a, b)
    np.testing.assert_array_equal(found, np.array([1, 0, 0, 1, 1], np.complex64))


def test_the_modulus_neither_overflows_nor_vanishes() -> None:
    z = grid(np.array([0, 3, -4, 3e38, 1e-42, inf, -inf, nan], np.float32))
    found = compile_word("absolute", complex64, float32)(z)
    with np.errstate(over="ignore"):
        expected = np.hypot(z.real.astype(np.float64), z.imag.astype(np.float64))
        np.testing.assert_array_equal(found, expected.astype(np.float32))


# Order

COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
ORDERED = grid(np.array([0, -0.0, 1, -1, inf, -inf, nan], np.float32))


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_comparisons_by_real_parts_first(name: str) -> None:
    a, b = (part.ravel() for part in np.meshgrid(ORDERED, ORDERED))
    found = compile_word(name, complex64, bool_, arity=2)(a, b)
    np.testing.assert_array_equal(found, getattr(np, name)(a, b))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes(name: str) -> None:
    a, b = (part.ravel() for part in np.meshgrid(ORDERED, ORDERED))
    found = compile_word(name, complex64, arity=2)(a, b)
    expected = getattr(np, name)(a, b)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(found[known], expected[known])


@pytest.mark.skipif("+fma" not in machine_description(), reason="fma is a call without that")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the assembly of x86")
@pytest.mark.parametrize("name", WORDS)
def test_code_is_vectorised_and_calls_nothing(name: str) -> None:
    text = compile_word(name, complex64, arity=WORDS[name]).assembly()
    features = machine_description()
    assert ("zmm" if "+avx512f" in features else "ymm" if "+avx2" in features else "xmm") in text
    assert "call" not in text
