"""Primitives that compute each element on its own, and those that only pass arrays on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot._native import array
from ingot.export.format import Primitive
from ingot.ops.dependencies import depends
from ingot.ops.elementwise.arithmetic import (
    abs,
    add,
    divide,
    divmod,
    floor_divide,
    multiply,
    negative,
    remainder,
    sign,
    subtract,
)
from ingot.ops.elementwise.bitwise import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    left_shift,
    right_shift,
)
from ingot.ops.elementwise.casting import astype, view
from ingot.ops.elementwise.comparison import (
    equal,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    where,
)
from ingot.ops.elementwise.complex_numbers import conj, imag, real
from ingot.ops.elementwise.exponential import (
    erf,
    erfinv,
    exp,
    expm1,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    sigmoid,
)
from ingot.ops.elementwise.extremes import maximum, minimum
from ingot.ops.elementwise.powers import power, rsqrt, sqrt, square
from ingot.ops.elementwise.rounding import ceil, floor, round
from ingot.ops.elementwise.trigonometry import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)

__all__ = ["ELEMENTWISE", "Build"]

Build = Callable[..., Any]  # (primitive, *inputs) -> an array, or a sequence of them

_UNARY: dict[str, Callable[[array], array]] = {
    "ArcCos": arccos,
    "ArcCosh": arccosh,
    "ArcSin": arcsin,
    "ArcSinh": arcsinh,
    "ArcTan": arctan,
    "ArcTanh": arctanh,
    "Ceil": ceil,
    "Conjugate": conj,
    "Cos": cos,
    "Cosh": cosh,
    "Erf": erf,
    "ErfInv": erfinv,
    "Exp": exp,
    "Expm1": expm1,
    "Floor": floor,
    "Imag": imag,
    "Log1p": log1p,
    "LogicalNot": logical_not,
    "Negative": negative,
    "Real": real,
    "Round": round,
    "Sigmoid": sigmoid,
    "Sign": sign,
    "Sin": sin,
    "Sinh": sinh,
    "Square": square,
    "Tan": tan,
    "Tanh": tanh,
}
_BINARY: dict[str, Callable[[array, array], Any]] = {
    "Add": add,
    "ArcTan2": arctan2,
    "DivMod": divmod,
    "Divide": divide,
    "FloorDivide": floor_divide,
    "Greater": greater,
    "GreaterEqual": greater_equal,
    "Less": less,
    "LessEqual": less_equal,
    "LogAddExp": logaddexp,
    "LogicalAnd": logical_and,
    "LogicalOr": logical_or,
    "Maximum": maximum,
    "Minimum": minimum,
    "Multiply": multiply,
    "NotEqual": not_equal,
    "Power": power,
    "Remainder": remainder,
    "Subtract": subtract,
}
_BITWISE = (bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift)
_LOGARITHMS = (log2, log10, log)


def chosen(primitive: Primitive, functions: tuple[Any, ...], number: int) -> Any:
    """The function with a number; ValueError if there is none."""
    if not 0 <= number < len(functions):
        raise ValueError(f"there is no {primitive.name} number {number}")
    return functions[number]


def _unary(function: Callable[[array], array]) -> Build:
    def build(primitive: Primitive, x: array) -> array:
        return function(x)

    return build


def _binary(function: Callable[[array, array], Any]) -> Build:
    def build(primitive: Primitive, x: array, y: array) -> Any:
        return function(x, y)

    return build


def _abs(primitive: Primitive, x: array) -> array:
    return astype(abs(x), x.dtype)  # MLX's is complex for complex numbers, and then cast


def _same(primitive: Primitive, x: array) -> array:
    return x


def _as_type(primitive: Primitive, x: array) -> array:
    return astype(x, primitive.state[0])


def _view(primitive: Primitive, x: array) -> array:
    return view(x, primitive.state[0])


def _bitwise(primitive: Primitive, x: array, y: array) -> Any:
    return chosen(primitive, _BITWISE, primitive.state[0])(x, y)


def _logarithm(primitive: Primitive, x: array) -> Any:
    return chosen(primitive, _LOGARITHMS, primitive.state[0])(x)


def _root(primitive: Primitive, x: array) -> array:
    return rsqrt(x) if primitive.state[0] else sqrt(x)


def _equal(primitive: Primitive, x: array, y: array) -> array:
    same = equal(x, y)
    return logical_or(same, logical_and(isnan(x), isnan(y))) if primitive.state[0] else same


def _select(primitive: Primitive, condition: array, x: array, y: array) -> array:
    return where(condition, x, y)


def _depends(primitive: Primitive, *inputs: array) -> list[array]:
    count = len(primitive.outputs)
    found: list[array] = depends(list(inputs[:count]), list(inputs[count:]))
    return found


ELEMENTWISE: dict[str, Build] = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    "Abs": _abs,
    "AsType": _as_type,
    "BitwiseBinary": _bitwise,
    "Depends": _depends,
    "Equal": _equal,
    "Full": _same,
    "Log": _logarithm,
    "Select": _select,
    "Sqrt": _root,
    "View": _view,
}
