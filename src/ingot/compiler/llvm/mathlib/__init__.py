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
from ingot.compiler.llvm.mathlib.number import Number
from ingot.compiler.llvm.mathlib.powers import integer_power
from ingot.graph.kernel import WORDS


def _exported(function: Callable[..., Number]) -> Callable[..., Register]:
    """Wraps a function of numbers as a function of code and registers."""

    def exported(code: Code, *arguments: Register) -> Register:
        return function(*(Number(code, argument) for argument in arguments)).register

    exported.__name__ = function.__name__
    exported.__doc__ = function.__doc__
    return exported


# Functions exported under the names of the kernel vocabulary.
FUNCTIONS: dict[str, Callable[..., Register]] = {
    name: _exported(getattr(module, name))
    for module in (
        error_function,
        exponential,
        inverse,
        logarithm,
        powers,
        remainders,
        trigonometric,
    )
    for name in module.__all__
    if name in WORDS
}

# The same for operands of half types.
HALF_FUNCTIONS = FUNCTIONS | {
    "erf": _exported(error_function.half_erf),
    "exp": _exported(exponential.half_exp),
}

__all__ = ["c_log", "integer_power", *sorted(FUNCTIONS)]


def __getattr__(name: str) -> Callable[..., Register]:
    found = FUNCTIONS.get(name)
    if found is None:
        raise AttributeError(f"the math library has no function {name}")
    return found
