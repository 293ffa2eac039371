"""The math library of generated code: functions written as LLVM instructions, without branches.

Each takes the code to write into and registers of type float or double, and returns the register
of the result. There are no loops and no calls, so that LLVM turns a loop around them into code of
the full vector width. Errors are at most 2 units in the last place; for floats 4 of tan, power and
the inverse hyperbolic functions. Tests hold all of them to that, for special values, denormals and
the largest arguments too. A module is imported when one of its functions, or of those before it, is
first written into code.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib.number import Number
from ingot.graph.kernel import WORDS

# Those that take the least time to import first.
_MODULES = (
    "error_function",
    "exponential",
    "powers",
    "logarithm",
    "trigonometric",
    "inverse",
    "remainders",
)
# Functions that are implemented differently for operands of half types.
_OF_HALVES = {"erf": "half_erf", "exp": "half_exp"}

__all__ = ["function"]


@cache
def function(name: str, is_half: bool = False) -> Callable[..., Register]:
    """The function of that name of the kernel vocabulary, for operands of half types or others."""
    if name in WORDS:
        wanted = _OF_HALVES.get(name, name) if is_half else name
        for module in _MODULES:
            found = importlib.import_module(f"{__name__}.{module}")
            if wanted in found.__all__:
                return _exported(getattr(found, wanted))
    raise AttributeError(f"the math library has no function {name}")


def _exported(function: Callable[..., Number]) -> Callable[..., Register]:
    """Wraps a function of numbers as a function of code and registers."""

    def exported(code: Code, *arguments: Register) -> Register:
        return function(*(Number(code, argument) for argument in arguments)).register

    exported.__name__ = function.__name__
    exported.__doc__ = function.__doc__
    return exported


def __getattr__(name: str) -> Callable[..., Register]:
    return function(name)
