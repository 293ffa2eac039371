"""The math library of generated code. For now the functions of libm, one call an element."""

from __future__ import annotations

from collections.abc import Callable

from ingot.compiler.code import Code, Register, literal
from ingot.compiler.mathlib.integers import integer_power


def _libm(name: str) -> Callable[..., Register]:
    def function(code: Code, *arguments: Register) -> Register:
        type = arguments[0].type
        return code.call(type, name + "f" if type == "float" else name, *arguments)

    return function


exp = _libm("exp")
expm1 = _libm("expm1")
log = _libm("log")
log2 = _libm("log2")
log10 = _libm("log10")
log1p = _libm("log1p")
sin = _libm("sin")
cos = _libm("cos")
tan = _libm("tan")
arcsin = _libm("asin")
arccos = _libm("acos")
arctan = _libm("atan")
sinh = _libm("sinh")
cosh = _libm("cosh")
tanh = _libm("tanh")
arcsinh = _libm("asinh")
arccosh = _libm("acosh")
arctanh = _libm("atanh")
erf = _libm("erf")
arctan2 = _libm("atan2")
power = _libm("pow")


def rsqrt(code: Code, x: Register) -> Register:
    """1 / sqrt(x)."""
    return code.binary("fdiv", literal(x.type, 1.0), code.intrinsic("sqrt", x))


def erfinv(code: Code, x: Register) -> Register:
    """The inverse of the error function, by Newton's method from a crude start."""
    wide = code.convert("fpext", x, "double")
    a = literal("double", 0.147)
    one = literal("double", 1.0)
    half = literal("double", 0.5)
    rest = code.intrinsic("fma", code.fneg(wide), wide, one)
    logarithm = code.call("double", "log", rest)
    b = code.binary(
        "fadd", literal("double", 4.330746750799873), code.binary("fmul", half, logarithm)
    )
    square = code.binary("fmul", b, b)
    inner = code.binary("fsub", square, code.binary("fdiv", logarithm, a))
    root = code.intrinsic("sqrt", code.binary("fsub", code.intrinsic("sqrt", inner), b))
    y = code.intrinsic("copysign", root, wide)
    for _ in range(4):
        error = code.binary("fsub", code.call("double", "erf", y), wide)
        slope = code.call("double", "exp", code.binary("fmul", y, y))
        step = code.binary(
            "fmul", literal("double", 0.8862269254527580), code.binary("fmul", error, slope)
        )
        y = code.binary("fsub", y, step)
    edge = code.compare("fcmp oeq", code.intrinsic("fabs", wide), one)
    infinite = code.intrinsic("copysign", literal("double", float("inf")), wide)
    return code.convert("fptrunc", code.select(edge, infinite, y), x.type)


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
