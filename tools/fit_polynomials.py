"""Fits the polynomials of the math library and writes ingot/compiler/llvm/mathlib/coefficients.py.

    python tools/fit_polynomials.py [name ...]     # fit and write all, or fit and show some

Each fit is the polynomial P that minimises the largest error |weight(t) (P(t) - target(t))| on an
interval (Remez's exchange algorithm, in 60 digits). Coefficients are then rounded to float or
double one by one from the lowest power, and the rest is fitted again to make up for each rounding.
The error that is printed and written is that of the rounded polynomial.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mpmath import (
    asin,
    atan,
    cos,
    erf,
    erfc,
    erfinv,
    exp,
    expm1,
    log,
    lu_solve,
    matrix,
    mp,
    mpf,
    pi,
    sin,
    sinh,
    sqrt,
    tanh,
)
from mpmath import cos as cosine

mp.dps = 60

OUTPUT = Path(__file__).parent.parent / "src/ingot/compiler/llvm/mathlib/coefficients.py"

Function = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """What to fit: `comment` says how P is used; `digits` is 24 for float, 53 for double."""

    name: str
    comment: str
    target: Function
    weight: Function
    begin: mpf
    end: mpf
    degree: int
    digits: int = 53


def rounded(value: mpf, digits: int) -> mpf:
    """The nearest float or double."""
    if digits == 53:
        return mpf(float(value))
    return mpf(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def evaluated(coefficients: list[mpf], t: mpf) -> mpf:
    """The polynomial at t."""
    total = mpf(0)
    for coefficient in reversed(coefficients):
        total = total * t + coefficient
    return total


class Remez:
    """The exchange algorithm for one fit; the first `fixed` coefficients are given."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        count = 40 * (fit.degree + 3)
        middle, half = (fit.begin + fit.end) / 2, (fit.end - fit.begin) / 2
        # Denser toward the ends, where extremes crowd.
        self.grid = [middle - half * cosine(pi * k / count) for k in range(count + 1)]
        self.targets = [fit.target(t) for t in self.grid]
        self.weights = [abs(fit.weight(t)) for t in self.grid]

    def errors(self, coefficients: list[mpf]) -> list[mpf]:
        """Weighted errors on the grid."""
        return [
            weight * (evaluated(coefficients, t) - target)
            for t, target, weight in zip(self.grid, self.targets, self.weights, strict=True)
        ]

    def solve(self) -> list[mpf]:
        """The coefficients with the least largest error."""
        free, size = self.fit.degree + 1, len(self.grid) - 1
        # The grid is cosine-spaced: evenly spread indices are Chebyshev's points.
        points = [min(max(round(mpf(size) * k / free), 1), size - 1) for k in range(free + 1)]
        best, least = [], mpf("inf")
        for _ in range(40):
            coefficients, level = self._levelled(points)
            errors = self.errors(coefficients)
            largest = max(map(abs, errors))
            if largest < least:
                best, least = coefficients, largest
            if largest <= abs(level) * mpf("1.001"):
                break
            exchanged = self._extremes(errors, free + 1)
            if exchanged is None:
                break
            points = exchanged
        return best

    def _levelled(self, points: list[int]) -> tuple[list[mpf], mpf]:
        size = len(points)
        system, right = matrix(size, size), matrix(size, 1)
        for row, point in enumerate(points):
            t, weight = self.grid[point], self.weights[point]
            for column in range(size - 1):
                system[row, column] = weight * t**column
            system[row, size - 1] = mpf(-1) ** row
            right[row] = weight * self.targets[point]
        found = lu_solve(system, right)
        return [found[i] for i in range(size - 1)], found[size - 1]

    def adjusted(self, fixed: list[mpf], best: list[mpf]) -> list[mpf]:
        """The other coefficients changed by least squares to make up for the fixed ones."""
        first, count = len(fixed), len(best)
        moved = [new - old for new, old in zip(fixed, best[:first], strict=True)]
        system, right = matrix(count - first, count - first), matrix(count - first, 1)
        for t, weight in zip(self.grid[::4], self.weights[::4], strict=True):
            error = weight * evaluated(moved, t)
            row = [weight * t**power for power in range(first, count)]
            for i, left in enumerate(row):
                right[i] -= left * error
                for j, other in enumerate(row):
                    system[i, j] += left * other
        found = lu_solve(system, right)
        return fixed + [best[first + i] + found[i] for i in range(count - first)]

    @staticmethod
    def _extremes(errors: list[mpf], wanted: int) -> list[int] | None:
        """Positions of alternating extremes, as many as wanted; None if there are fewer."""
        chosen: list[int] = []
        for position, error in enumerate(errors):
            if error == 0:
                continue
            if chosen and (errors[chosen[-1]] > 0) == (error > 0):
                if abs(error) > abs(errors[chosen[-1]]):
                    chosen[-1] = position
            else:
                chosen.append(position)
        while len(chosen) > wanted:
            # Drop the smaller end, which keeps the signs alternating.
            if abs(errors[chosen[0]]) < abs(errors[chosen[-1]]):
                chosen.pop(0)
            else:
                chosen.pop()
        return chosen if len(chosen) == wanted else None


def fitted(fit: Fit) -> tuple[list[mpf], mpf]:
    """Rounded coefficients, lowest power first, and their largest weighted error."""
    remez = Remez(fit)
    best = remez.solve()
    current, fixed = best, [rounded(best[0], fit.digits)]
    while len(fixed) < len(best):
        current = remez.adjusted(fixed, best)
        fixed = [*fixed, rounded(current[len(fixed)], fit.digits)]
    return fixed, max(map(abs, remez.errors(fixed)))


# What is fitted. Where a target is 0 / 0, a point nearby will do: 60 digits allow the cancellation.

TINY = mpf(10) ** -20


def near(t: mpf) -> mpf:
    """t, or a small number if it is 0 but for rounding."""
    return t if abs(t) > TINY else TINY


def odd(
    name: str, function: Function, symbol: str, end: mpf, degree: int, digits: int, slope: int = 1
) -> Fit:
    """f(x) = x + x^3 P(x^2) on |x| <= end, with the least relative error."""

    def target(t: mpf) -> mpf:
        x = sqrt(near(t))
        return (function(x) - slope * x) / x**3

    def weight(t: mpf) -> mpf:
        x = sqrt(near(t))
        return x**3 / function(x)

    first = "x" if slope == 1 else f"{slope} x"
    comment = f"{symbol} = {first} + x^3 P(x^2) for |x| <= {float(end):.4g}"
    return Fit(name, comment, target, weight, mpf(0), mpf(end) ** 2, degree, digits)


HALF_LOG_2 = log(2) / 2 * mpf("1.0001")


def exponential(digits: int, degree: int, suffix: str = "") -> Fit:
    """exp(r) with the least relative error."""

    def target(r: mpf) -> mpf:
        return (expm1(near(r)) - near(r)) / near(r) ** 2

    comment = "exp(r) = 1 + r + r^2 P(r) for |r| <= log(2) / 2"
    ends, name = (-HALF_LOG_2, HALF_LOG_2), f"EXPONENTIAL{suffix}"
    return Fit(name, comment, target, lambda r: r**2 / exp(r), *ends, degree, digits)


def exponential_minus_one(digits: int, degree: int) -> Fit:
    """expm1(r) with the least relative error."""

    def target(r: mpf) -> mpf:
        return (expm1(near(r)) - near(r)) / near(r) ** 2

    def weight(r: mpf) -> mpf:
        return near(r) ** 2 / expm1(near(r))

    comment = "expm1(r) = r + r^2 P(r) for |r| <= log(2) / 2"
    ends = -HALF_LOG_2, HALF_LOG_2
    return Fit("EXPONENTIAL_MINUS_ONE", comment, target, weight, *ends, degree, digits)


def logarithm(degree: int) -> Fit:
    """log(1 + f) on |f| <= 1/3."""

    def target(f: mpf) -> mpf:
        f = near(f)
        return (log(1 + f) - f + f**2 / 2) / f**3

    def weight(f: mpf) -> mpf:
        return near(f) ** 3 / log(1 + near(f))

    comment = "log(1 + f) = f - f^2 / 2 + f^3 P(f) for |f| <= 1/3"
    return Fit("LOGARITHM", comment, target, weight, mpf(-1) / 3, mpf(1) / 3, degree, 24)


def logarithm_of_ratio(name: str, degree: int) -> Fit:
    """log((1 + s) / (1 - s)) for ratios between sqrt(1/2) and sqrt(2)."""
    end = (sqrt(2) - 1) / (sqrt(2) + 1) * mpf("1.0001")
    symbol = "log((1 + x) / (1 - x))"
    return odd(name, lambda s: log((1 + s) / (1 - s)), symbol, end, degree, 53, slope=2)


def power_logarithm(degree: int) -> Fit:
    """As logarithm_of_ratio, with one more term taken out."""
    end = (sqrt(2) - 1) / (sqrt(2) + 1) * mpf("1.0001")

    def target(t: mpf) -> mpf:
        s = sqrt(near(t))
        return (log((1 + s) / (1 - s)) - 2 * s - 2 * s**3 / 3) / s**5

    def weight(t: mpf) -> mpf:
        s = sqrt(near(t))
        return s**5 / log((1 + s) / (1 - s))

    comment = "log((1 + x) / (1 - x)) = 2 x + 2/3 x^3 + x^5 P(x^2) for |x| <= 0.1716"
    return Fit("POWER_LOGARITHM", comment, target, weight, mpf(0), end**2, degree, 53)


def cosine_rest(end: mpf, degree: int, digits: int) -> Fit:
    """cos(x) with the least relative error."""

    def target(t: mpf) -> mpf:
        x = sqrt(near(t))
        return (cos(x) - 1 + x**2 / 2) / x**4

    comment = f"cos(x) = 1 - x^2 / 2 + x^4 P(x^2) for |x| <= {float(end):.4g}"
    weight: Function = lambda t: t**2 / cos(sqrt(t))  # noqa: E731
    return Fit("COSINE", comment, target, weight, mpf(0), mpf(end) ** 2, degree, digits)


def error_function(end: mpf, degree: int, digits: int) -> Fit:
    """erf(x) near 0 with the least relative error."""

    def target(t: mpf) -> mpf:
        x = sqrt(near(t))
        return (erf(x) - x) / x

    def weight(t: mpf) -> mpf:
        x = sqrt(near(t))
        return x / erf(x)

    comment = f"erf(x) = x + x P(x^2) for |x| <= {float(end):.4g}"
    return Fit("ERROR_FUNCTION", comment, target, weight, mpf(0), mpf(end) ** 2, degree, digits)


def error_function_short(end: mpf, degree: int) -> Fit:
    """erf(x) up to where it rounds to 1 in half types, with the least relative error."""

    def target(t: mpf) -> mpf:
        x = sqrt(near(t))
        return erf(x) / x

    comment = f"erf(x) = x P(x^2) for |x| <= {float(end):.4g}"
    square = mpf(end) ** 2
    return Fit(
        "ERROR_FUNCTION_SHORT", comment, target, lambda t: 1 / target(t), mpf(0), square, degree, 24
    )


def error_function_far(begin: mpf, middle: mpf, end: mpf, degree: int, digits: int) -> Fit:
    """A root of erfc(x), up to where erf(x) rounds to 1."""
    power = 4 if digits == 24 else 8

    def target(t: mpf) -> mpf:
        return erfc(t + middle) ** (mpf(1) / power)

    def weight(t: mpf) -> mpf:
        return power * erfc(t + middle) ** (mpf(power - 1) / power)

    limits = f"{float(begin):.4g} <= x <= {float(end):.4g}"
    comment = f"erf(x) = 1 - P(x - {float(middle)})^{power} for {limits}"
    ends = begin - middle, end - middle
    return Fit("ERROR_FUNCTION_FAR", comment, target, weight, *ends, degree, digits)


def error_function_near(centre: mpf) -> Fit:
    """erf(x) around a multiple of 1/4, less the distance t from it. Around 0, divided by t.

    What is added around the last one makes the end of the table round to 1.
    """
    name, half = "ERROR_FUNCTION_TABLE", mpf("0.125")
    if centre == 0:
        rest: Function = lambda t: erf(near(t)) / near(t) - 1  # noqa: E731
        weight: Function = lambda t: near(t) / erf(near(t))  # noqa: E731
        return Fit(name, "", rest, weight, mpf(0), half, TABLE_DEGREE - 1, 24)
    added = mpf("2.4e-8") if centre == mpf("3.75") else 0
    return Fit(
        name,
        "",
        lambda t: erf(centre + t) - t + added,
        lambda t: mpf(1),
        -half,
        half,
        TABLE_DEGREE,
        24,
    )


def inverse_error_function(
    suffix: str, whole: int, begin: float, end: float, degree: int, digits: int
) -> Fit:
    """erfinv(x) / x less a whole number, as a function of w = -log(1 - x^2)."""
    middle = mpf(begin + end) / 2

    def ratio(t: mpf) -> mpf:
        w = t + middle
        if w == 0:
            return sqrt(pi) / 2
        x = sqrt(-expm1(-w))
        return inverse_erf(x, exp(-w) / (1 + x)) / x

    limits = f"{begin} <= w <= {end}"
    comment = f"erfinv(x) = x ({whole} + P(w - {float(middle)})), w = -log(1 - x^2), {limits}"
    return Fit(
        "INVERSE_ERROR_FUNCTION" + suffix,
        comment,
        lambda t: ratio(t) - whole,
        lambda t: 1 / ratio(t),
        begin - middle,
        end - middle,
        degree,
        digits,
    )


def inverse_erf(x: mpf, rest: mpf) -> mpf:
    """erfinv(x), where rest is 1 - x: Newton's method on log(erfc(y))."""
    y = sqrt(-log(rest)) if x > 0.9 else erfinv(mpf(float(x)))
    for _ in range(20):
        value = erfc(y)
        step = value * log(value / rest) * sqrt(pi) / 2 * exp(y * y)
        y += step
        if abs(step) < mpf(10) ** -50:
            break
    return y


QUARTER = pi / 4 * mpf("1.0001")
TABLE_DEGREE = 5

FITS: list[Fit] = [
    exponential(24, 4),
    exponential(53, 9),
    exponential(24, 3, "_SHORT"),
    exponential_minus_one(24, 5),
    exponential_minus_one(53, 10),
    logarithm(7),
    logarithm_of_ratio("LOGARITHM_OF_RATIO", 6),
    logarithm_of_ratio("LOGARITHM_OF_RATIO_SHORT", 3),
    power_logarithm(6),
    odd("SINE", sin, "sin(x)", mpf(1), 3, 24),
    odd("SINE", sin, "sin(x)", QUARTER, 5, 53),
    cosine_rest(mpf(1), 2, 24),
    cosine_rest(QUARTER, 5, 53),
    odd("ARCSINE", asin, "arcsin(x)", mpf("0.5"), 4, 24),
    odd("ARCSINE", asin, "arcsin(x)", mpf("0.5"), 12, 53),
    odd("ARCTANGENT", atan, "arctan(x)", mpf(1), 8, 24),
    odd("ARCTANGENT", atan, "arctan(x)", mpf(1), 19, 53),
    odd("HYPERBOLIC_SINE", sinh, "sinh(x)", mpf(1), 3, 24),
    odd("HYPERBOLIC_SINE", sinh, "sinh(x)", mpf(1), 6, 53),
    odd("HYPERBOLIC_TANGENT", tanh, "tanh(x)", mpf("0.625"), 4, 24),
    error_function(mpf("1.125"), 6, 24),
    error_function(mpf("1.25"), 14, 53),
    error_function_short(mpf("2.65"), 9),
    error_function_far(mpf("1.125"), mpf("2.5"), mpf(4), 7, 24),
    error_function_far(mpf("1.25"), mpf("3.5"), mpf(6), 18, 53),
    inverse_error_function("", 1, 0, 5, 9, 24),
    inverse_error_function("", 1, 0, 6, 24, 53),
    inverse_error_function("_FAR", 2, 5, 16, 12, 24),
    inverse_error_function("_FAR", 2, 6, 16, 26, 53),
    inverse_error_function("_FARTHEST", 4, 16, 36.5, 22, 53),
]

TABLE = [error_function_near(mpf(quarters) / 4) for quarters in range(16)]

HEADER = '''"""Coefficients of the math library's polynomials: written by tools/fit_polynomials.py.

Each is given lowest power first, with the largest error that it leaves when it is used as its
comment says, computed without rounding: relative to the function, or to 1 where that is larger.
"""

from __future__ import annotations

from ingot.compiler.llvm.mathlib.polynomial import Polynomial
'''


def table_source(rows: list[list[mpf]]) -> str:
    """The text of the table of erf; floats have at most nine digits."""
    lines = [
        "# erf(x) = t + P(t) with t = x - c for c = 0, 1/4 ... 15/4 and |t| <= 1/8",
        "ERROR_FUNCTION_TABLE = (",
    ]
    for row in rows:
        numbers = [f"{float(value):.9g}" for value in row]
        assert [rounded(mpf(text), 24) for text in numbers] == row
        lines.append(
            f"    ({', '.join(text if '.' in text else text + '.0' for text in numbers)}),"
        )
    return "\n".join([*lines, ")"]) + "\n"


def source(results: list[tuple[Fit, list[mpf], mpf]], rows: list[list[mpf]]) -> str:
    """The text of coefficients.py."""
    parts = [HEADER, table_source(rows)]
    for name in dict.fromkeys(fit.name for fit, _, _ in results):
        lines = [f"{name} = Polynomial("]
        for fit, coefficients, error in results:
            if fit.name != name:
                continue
            kind = "single" if fit.digits == 24 else "double"
            lines.append(f"    # {fit.comment}: error 2^{float(log(error, 2)):.1f}")
            lines.append(f"    {kind}=(")
            lines += [f"        {float(value)!r}," for value in coefficients]
            lines.append("    ),")
        lines.append(")")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main(names: list[str]) -> None:
    """Fits what is named, or everything."""
    results = []
    for fit in FITS:
        if names and fit.name not in names:
            continue
        coefficients, error = fitted(fit)
        kind = "float" if fit.digits == 24 else "double"
        print(fit.name, kind, f"degree {fit.degree}", f"2^{float(log(error, 2)):.1f}", flush=True)
        results.append((fit, coefficients, error))
    if not names:
        rows = [fitted(fit)[0] for fit in TABLE]
        rows[0].insert(0, mpf(0))
        OUTPUT.write_text(source(results, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
