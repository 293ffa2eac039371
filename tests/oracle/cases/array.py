"""Methods, properties and operators of arrays.

A method that has a function of the same name gets that function's cases, its first argument
becoming the receiver. Operators get every dtype with arrays and with Python scalars.
"""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.oracle.cases.case import CASES, Case, add
from tests.oracle.harness.compare import Close
from tests.oracle.harness.inputs import DTYPES, INTEGERS, Array, Dtype, Given, varied

# array.rst names them; the cases are those of the functions.
METHODS = """
    abs all any argmax argmin astype conj cos cummax cummin cumprod cumsum diag diagonal exp flatten
    log log10 log1p log2 logcumsumexp logsumexp max mean min moveaxis prod reciprocal reshape round
    rsqrt sin split sqrt square squeeze std sum swapaxes transpose var view
""".split()
PROPERTIES = "shape dtype ndim size itemsize nbytes T mT real imag".split()
# Every third case of a function is enough for the method.
STRIDE = 3
# Arguments of functions that MLX's methods do not take.
FUNCTIONS_ONLY = {"cumsum": "dtype", "cumprod": "dtype"}


def _methods() -> Iterator[Case]:
    for name in METHODS:
        for case in CASES[name][::STRIDE]:
            if case.run is not None or not isinstance(case.args[0], Array):
                continue
            if FUNCTIONS_ONLY.get(name) not in case.kwargs:
                yield replace(case, op=f"array.{name}")
    for dtype in DTYPES:
        array = Array(dtype, (2, 3, 4))
        yield Case("array.reshape", (array, 4, 6))
        yield Case("array.reshape", (array, -1))
        yield Case("array.reshape", (array, [3, 8]))
        yield Case("array.transpose", (array, 2, 0, 1))
        yield Case("array.transpose", (array, [1, 0, 2]))
        yield Case("array.transpose", (array, (1, 0, 2)))


def _properties() -> Iterator[Case]:
    for dtype in DTYPES:
        for array in varied(dtype):
            for name in PROPERTIES:
                yield Case(f"array.{name}", (array,))


def _item(mx: Any, array: Any) -> Any:
    return array.item()


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """A case that calls a Python function on the array."""
    return lambda mx, array: function(array)


def _round_trip(mx: Any, array: Any) -> Any:
    return pickle.loads(pickle.dumps(array))


def _hash_is_identity(mx: Any, array: Any) -> Any:
    return hash(array) == hash(array), len({array, array})


CONVERSIONS: dict[str, Callable[..., Any]] = {
    "item": _item,
    "tolist": _unary(lambda array: array.tolist()),
    "__bool__": _unary(bool),
    "__int__": _unary(int),
    "__float__": _unary(float),
    "__complex__": _unary(complex),
    "__index__": _unary(operator.index),
    "__len__": _unary(len),
    "__iter__": _unary(list),
    "__repr__": _unary(repr),
    "__str__": _unary(str),
    "__copy__": _unary(copy.copy),
    "__deepcopy__": _unary(copy.deepcopy),
    "__reduce__": _round_trip,
    "__hash__": _hash_is_identity,
    "__format__": _unary(lambda array: f"{array}"),
    "__abs__": _unary(abs),
    "__neg__": _unary(operator.neg),
    "__pos__": _unary(operator.pos),
    "__invert__": _unary(operator.invert),
    "__dlpack_device__": _unary(lambda array: array.__dlpack_device__()),
}


def _conversions() -> Iterator[Case]:
    for dtype in DTYPES:
        for array in varied(dtype, "finite", small=True):
            for name, run in CONVERSIONS.items():
                close = Close(2, 1) if name == "__abs__" else Close(0, 0)
                yield Case(f"array.{name}", (array,), run=run, close=close)
        # A wrong specification, as "d" for floats, crashes MLX.
        for spec in (".2f", ">10", "d" if dtype in INTEGERS else "e"):
            run = _unary(lambda array, spec=spec: format(array, spec))
            yield Case("array.__format__", (Array(dtype, (), values="positive"),), run=run)
        special = Array(dtype, (3, 5), values="any")
        for name in ("tolist", "__repr__", "__str__"):
            yield Case(f"array.{name}", (special,), run=CONVERSIONS[name])
    for shape in ((1000,), (2001,), (40, 40), (11, 11, 11), (7, 1), (2, 2, 2, 2)):
        large = Array("float32", shape, values="finite")
        yield Case("array.__repr__", (large,), run=CONVERSIONS["__repr__"])
    for value in (1e-5, 1e10, 0.1, 123456.789, float("nan"), float("-inf"), -0.0, 1e-40):
        given = Given([value, 1.0], "float32")
        yield Case("array.__repr__", (given,), run=CONVERSIONS["__repr__"])
        yield Case("array.tolist", (given,), run=CONVERSIONS["tolist"])


BINARY: dict[str, tuple[Callable[[Any, Any], Any], str, Close]] = {
    "__add__": (operator.add, "any", Close(0, 0)),
    "__sub__": (operator.sub, "any", Close(0, 0)),
    "__mul__": (operator.mul, "any", Close(4, 0, 10)),
    "__truediv__": (operator.truediv, "any", Close(4, 0, 1)),
    "__floordiv__": (operator.floordiv, "positive", Close(8, 0)),
    "__mod__": (operator.mod, "positive", Close(0, 0)),
    "__pow__": (operator.pow, "positive", Close(32, 1)),
    "__and__": (operator.and_, "any", Close(0, 0)),
    "__or__": (operator.or_, "any", Close(0, 0)),
    "__xor__": (operator.xor, "any", Close(0, 0)),
    "__lshift__": (operator.lshift, "shift", Close(0, 0)),
    "__rshift__": (operator.rshift, "shift", Close(0, 0)),
    "__eq__": (operator.eq, "ties", Close(0, 0)),
    "__ne__": (operator.ne, "ties", Close(0, 0)),
    "__lt__": (operator.lt, "ties", Close(0, 0)),
    "__le__": (operator.le, "ties", Close(0, 0)),
    "__gt__": (operator.gt, "ties", Close(0, 0)),
    "__ge__": (operator.ge, "ties", Close(0, 0)),
}
IN_PLACE: dict[str, tuple[Callable[[Any, Any], Any], str, Close]] = {
    "__iadd__": (operator.iadd, "any", Close(0, 0)),
    "__isub__": (operator.isub, "any", Close(0, 0)),
    "__imul__": (operator.imul, "any", Close(4, 0, 10)),
    "__itruediv__": (operator.itruediv, "any", Close(4, 0, 1)),
    "__ifloordiv__": (operator.ifloordiv, "positive", Close(8, 0)),
    "__imod__": (operator.imod, "positive", Close(0, 0)),
    "__ipow__": (operator.ipow, "positive", Close(32, 1)),
    "__iand__": (operator.iand, "any", Close(0, 0)),
    "__ior__": (operator.ior, "any", Close(0, 0)),
    "__ixor__": (operator.ixor, "any", Close(0, 0)),
    "__ilshift__": (operator.ilshift, "shift", Close(0, 0)),
    "__irshift__": (operator.irshift, "shift", Close(0, 0)),
}
# What may stand beside an array; the last three are refused.
OTHERS: list[Any] = [True, 2, -2, 1.5, 2j, None, "text", [1, 2]]


def _infix(function: Callable[[Any, Any], Any], reflected: bool) -> Callable[..., Any]:
    def run(mx: Any, a: Any, b: Any) -> Any:
        return function(b, a) if reflected else function(a, b)

    return run


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The new value, whether the same object was returned, and an alias taken before."""

    def run(mx: Any, a: Any, b: Any) -> Any:
        before, alias = a, a + 0
        a = function(a, b)
        return a, before, alias

    return run


def _operators() -> Iterator[Case]:
    for name, (function, values, close) in BINARY.items():
        left = "finite" if values in ("shift", "positive") else values
        for dtype in DTYPES:
            a = Array(dtype, (3, 4), "transposed", left)
            b = Array(dtype, (4,), "stepped", values, 1)
            yield Case(f"array.{name}", (a, b), run=_infix(function, False), close=close)
            for other in OTHERS:
                array = a.but(values="positive")
                reflected = "__r" + name[2:]
                run = _infix(function, False)
                yield Case(f"array.{name}", (array, other), run=run, close=close)
                run = _infix(function, True)
                yield Case(f"array.{reflected}", (array, other), run=run, close=close)
    for name, (function, values, close) in IN_PLACE.items():
        left = "finite" if values in ("shift", "positive") else values
        for dtype in DTYPES:
            a = Array(dtype, (3, 4), "transposed", left)
            run = _in_place(function)
            yield Case(
                f"array.{name}", (a, Array(dtype, (4,), values=values)), run=run, close=close
            )
            for other in OTHERS[:-1]:
                yield Case(f"array.{name}", (a.but(values="positive"), other), run=run, close=close)
            for other in ("float32", "int32", "uint8"):
                right = Array(other, (), values="positive")
                yield Case(f"array.{name}", (a.but(values="positive"), right), run=run, close=close)
            wide = Array(dtype, (2, 3, 4), values=values)
            yield Case(f"array.{name}", (a, wide), run=run, close=close)


def _matmul_in_place(mx: Any, a: Any, b: Any) -> Any:
    before = a
    a @= b
    return a, before


def _others() -> Iterator[Case]:
    for dtype in DTYPES:
        a = Array(dtype, (2, 3), values="unit")
        b = Array(dtype, (3, 3), values="unit", seed=1)
        yield Case("array.__imatmul__", (a, b), run=_matmul_in_place, close=Close(4, 2, 10))
        for other in DTYPES:
            yield Case("array.astype", (a, Dtype(other)))
    for dtype in INTEGERS:
        yield Case("array.__index__", ([0, 10, 20], Given(1, dtype)), run=lambda mx, a, i: a[i])


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_methods, _properties, _conversions, _operators, _others):
        for case in generate():
            add(case)
