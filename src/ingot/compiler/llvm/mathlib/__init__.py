"""The math library of generated code: functions written as LLVM instructions, without branches.

Each takes the code to write into and registers of type float or double, and returns the register
of the result. There are no loops and no calls, so that LLVM turns a loop around them into code of
the full vector width. Errors are at most 2 units in the last place; for floats 4 of tan, power and
the inverse hyperbolic functions. Tests hold all of them to that, for special values, denormals and
the largest arguments too.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib import (
    error_function,
    exponential,
    inverse,
    logarithm,
    powers,
    remainders,
    trigonometric,
)
from ingot.compiler.llvm.mathlib.c_logarithm import c_log
from ingot.compiler.llvm.mathlib.integers import integer_power
from ingot.compiler.llvm.mathlib.number import Number, square_root

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "c_log",
    "cos",
    "cosh",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "integer_power",
    "log",
    "log1p",
    "log2",
    "log10",
    "power",
    "remainder",
    "rsqrt",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


def _exported(function: Callable[..., Number]) -> Callable[..., Register]:
    """A function of numbers as one of code and registers."""

    def exported(code: Code, *arguments: Register) -> Register:
        return function(*(Number(code, argument) for argument in arguments)).register

    exported.__name__ = function.__name__
    exported.__doc__ = function.__doc__
    return exported


def _reciprocal_root(x: Number) -> Number:
    """1 / sqrt(x). Both operations are correctly rounded: 1.5 ulp together."""
    return 1.0 / square_root(x)


arccos = _exported(inverse.arccos)
arccosh = _exported(inverse.arccosh)
arcsin = _exported(inverse.arcsin)
arcsinh = _exported(inverse.arcsinh)
arctan = _exported(inverse.arctan)
arctan2 = _exported(inverse.arctan2)
arctanh = _exported(inverse.arctanh)
cos = _exported(trigonometric.cos)
cosh = _exported(exponential.cosh)
erf = _exported(error_function.erf)
erfinv = _exported(error_function.erfinv)
exp = _exported(exponential.exp)
expm1 = _exported(exponential.expm1)
log = _exported(logarithm.log)
log1p = _exported(logarithm.log1p)
log2 = _exported(logarithm.log2)
log10 = _exported(logarithm.log10)
power = _exported(powers.power)
remainder = _exported(remainders.remainder)
rsqrt = _exported(_reciprocal_root)
sin = _exported(trigonometric.sin)
sinh = _exported(exponential.sinh)
tan = _exported(trigonometric.tan)
tanh = _exported(exponential.tanh)
