"""The math library against wider types: errors in ulp over the whole range, and special values.

Floats are compared with functions of doubles, doubles with those of 80-bit numbers, or with mpmath
where there are none. `-s` prints the largest error of each function. INGOT_MATHLIB_SAMPLES is the
number of samples that are spread over all bit patterns of floats (a fourth of it of doubles); there
are as many again in each interval of interest.
"""

from __future__ import annotations

import os
import platform
import re
import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, nan, pi
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.special
from tests.compiler.accuracy import Type, sampled_between, sampled_bits, ulp_errors
from tests.compiler.kernel_runner import CompiledLoop, compile_function, compile_word

from ingot.compiler.llvm import mathlib
from ingot.compiler.llvm.mathlib.c_logarithm import c_log
from ingot.compiler.llvm.mathlib.coefficients import ERROR_FUNCTION_TABLE, EXPONENTIAL
from ingot.compiler.machine.jit import machine_description
from ingot.graph import dtype as dtypes
from ingot.graph.kernel import WORDS
from ingot.graph.numerics.c_library import c_function

SAMPLES = int(os.environ.get("INGOT_MATHLIB_SAMPLES", 2**18))
DTYPES = {np.float32: dtypes.float32, np.float64: dtypes.float64}
TYPES = [pytest.param(np.float32, id="float32"), pytest.param(np.float64, id="float64")]

Reference = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Case:
    """A function: intervals in which samples are dense, and what it may be wrong by."""

    intervals: tuple[tuple[float, float], ...]
    double_intervals: tuple[tuple[float, float], ...] = ()  # besides; for floats they are too wide
    single_bound: float = 2.0
    reference: Reference | None = None  # NumPy's function of the same name
    double_reference: Reference | None = None
    double_share: float = 0.25  # of the samples, for doubles


def with_mpmath(function: Callable[[mpmath.mpf], mpmath.mpf], digits: int = 40) -> Reference:
    """A reference for doubles: 80-bit results of mpmath, one by one."""

    def reference(x: np.ndarray) -> np.ndarray:
        out = np.empty(x.shape, np.longdouble)
        with mpmath.workdps(digits):
            for i, value in enumerate(x.astype(np.float64)):
                found = function(mpmath.mpf(float(value)))
                high = float(found)
                low = float(found - high) if np.isfinite(high) else 0.0
                out[i] = np.longdouble(high) + np.longdouble(low)
        return out

    return reference


def precise_erfinv(x: mpmath.mpf) -> mpmath.mpf:
    """mpmath's is slow: one step of Newton's method from SciPy's."""
    if not abs(x) < 1:
        return x * mpmath.inf if abs(x) == 1 else mpmath.nan
    y = mpmath.mpf(float(scipy.special.erfinv(float(x))))
    return y - (mpmath.erf(y) - x) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)


UNIT = ((-1.0, 1.0), (-0.1, 0.1), (0.99, 1.0), (-1.0, -0.999))
AROUND_1 = ((0.0, 4.0), (0.9, 1.1), (0.0, 1e6))
ANGLES = ((-10.0, 10.0), (-1.0, 1.0), (-1e5, 1e5))

CASES = {
    "exp": Case(((-105.0, 90.0), (-1.0, 1.0)), ((-750.0, 711.0), (-746.0, -700.0))),
    "expm1": Case(((-20.0, 90.0), (-1.0, 1.0)), ((-40.0, 711.0),)),
    "log": Case(AROUND_1),
    "log2": Case(AROUND_1),
    "log10": Case(AROUND_1),
    "log1p": Case(((-1.0, 1.0), (-0.1, 0.1), (0.0, 1e4))),
    "rsqrt": Case(AROUND_1, reference=lambda x: 1 / np.sqrt(x)),
    "sin": Case(ANGLES),
    "cos": Case(ANGLES),
    "tan": Case(ANGLES, single_bound=4.0),
    "arcsin": Case(UNIT),
    "arccos": Case(UNIT),
    "arctan": Case(((-4.0, 4.0), (-1.0, 1.0))),
    "sinh": Case(((-4.0, 4.0), (-90.0, 90.0)), ((-711.0, 711.0),)),
    "cosh": Case(((-4.0, 4.0), (-90.0, 90.0)), ((-711.0, 711.0),)),
    "tanh": Case(((-1.0, 1.0), (-10.0, 10.0)), ((-20.0, 20.0),)),
    "arcsinh": Case(((-4.0, 4.0), (-1e3, 1e3)), single_bound=4.0),
    "arccosh": Case(((1.0, 1.1), (1.0, 10.0), (1.0, 1e4)), single_bound=4.0),
    "arctanh": Case(UNIT, single_bound=4.0),
    "erf": Case(
        ((-1.2, 1.2), (-4.5, 4.5)),
        ((-6.5, 6.5),),
        reference=scipy.special.erf,
        double_reference=with_mpmath(mpmath.erf),
        double_share=2.0**-7,
    ),
    "erfinv": Case(
        UNIT,
        ((1 - 1e-9, 1.0), (1 - 1e-14, 1.0)),
        reference=scipy.special.erfinv,
        double_reference=with_mpmath(precise_erfinv),
        double_share=2.0**-9,
    ),
}

_largest_errors: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def error_table() -> Iterator[None]:
    """Prints what was measured, at the end."""
    yield
    print("\nlargest errors\n" + "\n".join(_largest_errors))


def check(
    name: str, bound: float, found: np.ndarray, expected: np.ndarray, *arguments: np.ndarray
) -> None:
    """That no error exceeds the bound and that zeros have the right sign."""
    errors = ulp_errors(found, expected)
    worst = int(np.argmax(errors))
    at = tuple(argument[worst] for argument in arguments)
    _largest_errors.append(f"{name:9} {found.dtype!s:8} {errors[worst]:.3f} ulp at {at}")
    assert errors[worst] <= bound, f"{name}{at} = {found[worst]!r}, not {expected[worst]!r}"
    zeros = (expected == 0) & (found == 0)
    assert (np.signbit(found) == np.signbit(expected))[zeros].all()


def wide(type: Type) -> type[np.floating]:
    return np.float64 if type is np.float32 else np.longdouble


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_are_small_everywhere(name: str, type: Type) -> None:
    case = CASES[name]
    intervals = case.intervals
    reference = case.reference or getattr(np, name)
    count, bound = SAMPLES, case.single_bound
    if type is np.float64:
        intervals += case.double_intervals
        reference = case.double_reference or reference
        count, bound = int(SAMPLES * case.double_share), 2.0
    samples = [sampled_between(type, *interval, count) for interval in intervals]
    x = np.concatenate([sampled_bits(type, count), *samples])
    if case.double_reference and type is np.float64:
        x = x[np.isfinite(x)]
    found = compile_function(getattr(mathlib, name), DTYPES[type])(x)
    check(name, bound, found, reference(x.astype(wide(type))), x)


SPECIAL_VALUES: dict[str, list[tuple[float, float]]] = {
    "exp": [(0, 1), (-0.0, 1), (inf, inf), (-inf, 0), (nan, nan), (1000, inf), (-1000, 0)],
    "expm1": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -1), (nan, nan), (1000, inf), (-1000, -1)],
    "log": [(0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (nan, nan), (-1, nan), (1, 0)],
    "log2": [
        (0, -inf),
        (-0.0, -inf),
        (inf, inf),
        (-inf, nan),
        (nan, nan),
        (-1, nan),
        (1, 0),
        (8, 3),
        (0.25, -2),
    ],
    "log10": [(0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (nan, nan), (-1, nan), (1, 0)],
    "log1p": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, nan), (nan, nan), (-1, -inf), (-2, nan)],
    "rsqrt": [(0, inf), (inf, 0), (nan, nan), (-1, nan), (1, 1), (4, 0.5)],
    "sin": [(0, 0), (-0.0, -0.0), (inf, nan), (-inf, nan), (nan, nan)],
    "cos": [(0, 1), (-0.0, 1), (inf, nan), (-inf, nan), (nan, nan)],
    "tan": [(0, 0), (-0.0, -0.0), (inf, nan), (-inf, nan), (nan, nan)],
    "arcsin": [
        (0, 0),
        (-0.0, -0.0),
        (1, pi / 2),
        (-1, -pi / 2),
        (2, nan),
        (-2, nan),
        (inf, nan),
        (nan, nan),
    ],
    "arccos": [
        (0, pi / 2),
        (-0.0, pi / 2),
        (1, 0),
        (-1, pi),
        (2, nan),
        (-2, nan),
        (inf, nan),
        (nan, nan),
    ],
    "arctan": [(0, 0), (-0.0, -0.0), (inf, pi / 2), (-inf, -pi / 2), (nan, nan)],
    "sinh": [
        (0, 0),
        (-0.0, -0.0),
        (inf, inf),
        (-inf, -inf),
        (nan, nan),
        (1000, inf),
        (-1000, -inf),
    ],
    "cosh": [(0, 1), (-0.0, 1), (inf, inf), (-inf, inf), (nan, nan), (1000, inf), (-1000, inf)],
    "tanh": [(0, 0), (-0.0, -0.0), (inf, 1), (-inf, -1), (nan, nan), (1000, 1), (-1000, -1)],
    "arcsinh": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (nan, nan)],
    "arccosh": [(1, 0), (0, nan), (-2, nan), (-1e6, nan), (inf, inf), (-inf, nan), (nan, nan)],
    "arctanh": [
        (0, 0),
        (-0.0, -0.0),
        (1, inf),
        (-1, -inf),
        (2, nan),
        (-2, nan),
        (inf, nan),
        (nan, nan),
    ],
    "erf": [(0, 0), (-0.0, -0.0), (inf, 1), (-inf, -1), (nan, nan), (7, 1), (-7, -1)],
    "erfinv": [
        (0, 0),
        (-0.0, -0.0),
        (1, inf),
        (-1, -inf),
        (2, nan),
        (-2, nan),
        (inf, nan),
        (nan, nan),
    ],
}


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", SPECIAL_VALUES)
def test_special_values_are_exact(name: str, type: Type) -> None:
    arguments, expected = np.array(SPECIAL_VALUES[name], type).T
    found = compile_function(getattr(mathlib, name), DTYPES[type])(arguments)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[numbers].all()


IDENTITIES_NEAR_0 = "expm1 log1p sin tan arcsin arctan sinh tanh arcsinh arctanh".split()


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", IDENTITIES_NEAR_0)
def test_tiny_numbers_are_kept(name: str, type: Type) -> None:
    limits = np.finfo(type)
    magnitudes = [limits.smallest_subnormal, limits.smallest_subnormal * 3, limits.smallest_normal]
    x = np.array([sign * value for value in magnitudes for sign in (1, -1)], type)
    np.testing.assert_array_equal(compile_function(getattr(mathlib, name), DTYPES[type])(x), x)


# The arguments nearest to multiples of pi / 2 among all floats and doubles, and other large ones.
LARGE_ANGLES = {
    np.float32: [16367173 * 2.0**72, 1e30, 3.4e38, 2.0**127, 1.5e9, 2.0**31, 710.0, 51819.74],
    np.float64: [6381956970095103 * 2.0**797, 1e300, 1.7e308, 2.0**1023, 1e22, 2.0**63, 710.0],
}


def hard_angles(type: Type) -> list[float]:
    """Numbers m 2^e next to multiples of pi / 2, for many e.

    m is the denominator of a convergent of the continued fraction of 2^e / (pi / 2).
    """
    limits = np.finfo(type)
    found = []
    with mpmath.workprec(2400):
        scaled = int(mpmath.floor(mpmath.ldexp(2 / mpmath.pi, 2300)))
    for exponent in range(-limits.nmant, limits.maxexp - limits.nmant - 1, 5):
        above, below = scaled << (exponent + 60), 1 << 2360
        before, denominator = 1, 0
        while below:
            quotient, rest = divmod(above, below)
            before, denominator = denominator, quotient * denominator + before
            above, below = below, rest
            if denominator >= 2 ** (limits.nmant + 1):
                break
            if denominator > 2 ** (limits.nmant - 8):
                found.append(float(np.ldexp(float(denominator), exponent)))
    return found


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(name: str, type: Type) -> None:
    x = np.array(LARGE_ANGLES[type] + hard_angles(type), type)
    found = compile_function(getattr(mathlib, name), DTYPES[type])(x)
    expected = with_mpmath(getattr(mpmath, name), digits=360)(x)
    check(name, 4.0 if name == "tan" and type is np.float32 else 2.0, found, expected, x)


# Functions of two values

CORNERS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, -1.5, inf, -inf, nan]
CORNERS += [1e300, -1e300, 1e-310, -1e-310, 1e-40, 1e38, -1e38, 7.0, 16777217.0, 2.0**53 + 2, 0.1]


def pairs(type: Type, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Corners, all magnitudes, moderate numbers, whole numbers, and bases near 1."""
    mixed = np.random.default_rng(2).permutation(count)
    corners = [grid.ravel() for grid in np.meshgrid(CORNERS, CORNERS)]
    between = sampled_between
    first = [
        corners[0],
        sampled_bits(type, count),
        between(type, -4, 4, count),
        between(type, 0, 4, count),
        between(type, 0, 1e6, count),
        np.round(between(type, -50, 50, count)),
        np.exp(between(type, -0.01, 0.01, count)),
    ]
    second = [
        corners[1],
        sampled_bits(type, count, 3)[mixed],
        between(type, -4, 4, count, 4),
        between(type, -100, 100, count, 5),
        between(type, -4, 4, count, 6),
        np.round(between(type, -10, 10, count, 7)),
        between(type, -3e4, 3e4, count, 8),
    ]
    with np.errstate(over="ignore"):
        return np.concatenate(first).astype(type), np.concatenate(second).astype(type)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["power", "arctan2"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_of_functions_of_two_values(name: str, type: Type) -> None:
    a, b = pairs(type, SAMPLES // 8)
    found = compile_function(getattr(mathlib, name), DTYPES[type], 2)(a, b)
    expected = getattr(np, name)(a.astype(wide(type)), b.astype(wide(type)))
    bound = 4.0 if name == "power" and type is np.float32 else 2.0
    check(name, bound, found, expected, a, b)


@pytest.mark.parametrize("type", TYPES)
def test_powers_with_large_and_denormal_results(type: Type) -> None:
    exponent = 120 if type is np.float32 else 1000
    base = np.exp2(sampled_between(np.float64, -exponent, exponent, SAMPLES // 8)).astype(type)
    target = sampled_between(np.float64, -1.08 * exponent, 1.03 * exponent, SAMPLES // 8, 2)
    power = (target / np.log2(base.astype(np.float64))).astype(type)
    found = compile_function(mathlib.power, DTYPES[type], 2)(base, power)
    with np.errstate(all="ignore"):
        expected = np.power(base.astype(wide(type)), power.astype(wide(type)))
    check("power", 4.0 if type is np.float32 else 2.0, found, expected, base, power)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_remainders_are_exact(type: Type) -> None:
    a, b = pairs(type, SAMPLES // 8)
    found = compile_function(mathlib.remainder, DTYPES[type], 2)(a, b)
    expected = np.remainder(a, b)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    signs = np.where(expected == 0, np.signbit(a), np.signbit(expected))  # zeros as in MLX
    assert (np.signbit(found) == signs)[numbers].all()


INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_powers(name: str) -> None:
    limits = np.iinfo(name)
    generator = np.random.default_rng(0)
    a = generator.integers(limits.min, limits.max, 3000, name, endpoint=True)
    b = generator.integers(limits.min, limits.max, 3000, name, endpoint=True)
    b[:2000] = generator.integers(0, 20, 2000)
    a[-100:] = generator.integers(0, 3, 100)
    found = compile_word("power", getattr(dtypes, name), arity=2)(a, b)
    expected = np.where(b < 0, 0, np.power(a, np.where(b < 0, 0, b))).astype(name)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="it has the bits of the GNU C library"
)
def test_c_log_has_the_bits_of_the_c_library() -> None:
    every = np.arange(0, 1 << 32, 1013, np.uint32).view(np.float32)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, 1e-45, 2.0**-126, 3e38], np.float32)
    given = np.concatenate([special, every[~np.isnan(every)]])
    found = compile_function(c_log, dtypes.float32)(given)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, c_function("log")(given))


# The code

ARITIES = {
    name: 2 if name in ("arctan2", "power", "remainder") else 1
    for name in WORDS
    if hasattr(mathlib, name)
}


@pytest.mark.skipif("+fma" not in machine_description(), reason="fma is a call without that")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the assembly of x86")
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ARITIES)
def test_code_is_vectorised_and_calls_nothing(name: str, type: Type) -> None:
    require_vectors(compile_function(getattr(mathlib, name), DTYPES[type], ARITIES[name]))


@pytest.mark.skipif("+fma" not in machine_description(), reason="fma is a call without that")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the assembly of x86")
def test_code_of_c_log_is_vectorised() -> None:
    require_vectors(compile_function(c_log, dtypes.float32))


def require_vectors(loop: CompiledLoop) -> None:
    text = loop.assembly()
    features = machine_description()
    register = "zmm" if "+avx512f" in features else "ymm" if "+avx2" in features else "xmm"
    assert register in text
    # what remains of a vectorised loop may call the function itself, which is in the same module
    assert not re.search(r"\bcallq?\s+(?!\.Lingot_)", text)


def test_coefficients_are_those_of_the_tool_that_fits_them() -> None:
    path = Path(__file__).parents[3] / "tools/fit_polynomials.py"
    with mpmath.workdps(60):
        tool = runpy.run_path(str(path))
        fit = tool["exponential"](24, 4)
        coefficients, error = tool["fitted"](fit)
    assert tuple(map(float, coefficients)) == EXPONENTIAL.single
    assert error < 2.0**-28


def test_the_table_is_that_of_the_tool_that_fits_it() -> None:
    path = Path(__file__).parents[3] / "tools/fit_polynomials.py"
    with mpmath.workdps(60):
        tool = runpy.run_path(str(path))
        coefficients, _ = tool["fitted"](tool["error_function_near"](mpmath.mpf("0.75")))
    assert tuple(map(np.float32, coefficients)) == tuple(map(np.float32, ERROR_FUNCTION_TABLE[3]))
