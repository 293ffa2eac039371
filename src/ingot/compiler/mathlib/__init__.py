"""The math library of generated code. For now the functions of libm, one call an element."""

from __future__ import annotations

from collections.abc import Callable

from ingot.compiler.code import Code, Register, literal
from ingot.compiler.mathlib import error_function, exponential, logarithm
from ingot.compiler.mathlib.integers import integer_power
from ingot.compiler.mathlib.number import Number


def _exported(function: Callable[..., Number]) -> Callable[..., Register]:
    def exported(code: Code, *arguments: Register) -> Register:
        return function(*(Number(code, argument) for argument in arguments)).register

    exported.__name__ = function.__name__
    exported.__doc__ = function.__doc__
    return exported


def _libm(name: str) -> Callable[..., Register]:
    def function(code: Code, *arguments: Register) -> Register:
        type = arguments[0].type
        return code.call(type, name + "f" if type == "float" else name, *arguments)

    return function


exp = _exported(exponential.exp)
expm1 = _exported(exponential.expm1)
sinh = _exported(exponential.sinh)
cosh = _exported(exponential.cosh)
tanh = _exported(exponential.tanh)
log = _exported(logarithm.log)
log2 = _exported(logarithm.log2)
log10 = _exported(logarithm.log10)
log1p = _exported(logarithm.log1p)
erf = _exported(error_function.erf)
erfinv = _exported(error_function.erfinv)
sin = _libm("sin")
cos = _libm("cos")
tan = _libm("tan")
arcsin = _libm("asin")
arccos = _libm("acos")
arctan = _libm("atan")
arcsinh = _libm("asinh")
arccosh = _libm("acosh")
arctanh = _libm("atanh")
arctan2 = _libm("atan2")
power = _libm("pow")


def rsqrt(code: Code, x: Register) -> Register:
    """1 / sqrt(x)."""
    return code.binary("fdiv", literal(x.type, 1.0), code.intrinsic("sqrt", x))


def remainder(code: Code, a: Register, b: Register) -> Register:
    """The remainder with the sign of b."""
    rest = _libm("fmod")(code, a, b)
    zero = literal(a.type, 0.0)
    product = code.compare("fcmp one", rest, zero)
    other = code.binary(
        "xor", code.compare("fcmp olt", rest, zero), code.compare("fcmp olt", b, zero)
    )
    moved = code.select(code.binary("and", product, other), code.binary("fadd", rest, b), rest)
    is_zero = code.compare("fcmp oeq", rest, zero)
    return code.select(is_zero, code.intrinsic("copysign", zero, b), moved)
