"""Dimensions: symbolic lengths of axes.

While `compile(..., shapeless=True)` traces, the shapes of its inputs consist of `Dimension`s.
Arithmetic on them stays symbolic, so `x.reshape(x.shape[0] * x.shape[1], -1)` is recorded as such
and holds for every shape. Wherever a length is used as a plain number (a comparison, a loop bound,
an index), the outcome is recorded as a guard: a later call whose shapes violate a guard is traced
again. A dimension never decays to a number silently, so a replay is never wrong.

`Dimension` is not a subclass of int, because CPython reads the value of a subclass directly; it
only claims to be one through `__class__`. Quotients are dimensions too, which claim to be floats.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from ingot._native import SizeCode
from ingot.graph.size_writer import SizeWriter

__all__ = ["Dimension", "Guards", "Parametric", "holds_dimensions", "resolve", "symbolic_shape"]

Shapes = Sequence[Sequence[int]]  # of the inputs of a call

_ARITHMETIC: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", operator.add),
    "sub": ("-", operator.sub),
    "mul": ("*", operator.mul),
    "floordiv": ("//", operator.floordiv),
    "truediv": ("/", operator.truediv),
    "mod": ("%", operator.mod),
    "pow": ("**", operator.pow),
    "lshift": ("<<", operator.lshift),
    "rshift": (">>", operator.rshift),
    "and": ("&", operator.and_),
    "or": ("|", operator.or_),
    "xor": ("^", operator.xor),
}
_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "eq": ("==", operator.eq),
    "ne": ("!=", operator.ne),
    "lt": ("<", operator.lt),
    "le": ("<=", operator.le),
    "gt": (">", operator.gt),
    "ge": (">=", operator.ge),
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg,
    "abs": abs,
    "invert": operator.invert,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
}
_NEUTRAL_RIGHT = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1}  # of ints
_NEUTRAL_LEFT = {"add": 0, "mul": 1}
_GROWING = ("add", "mul", "floordiv", "truediv", "mod")  # nonnegative if both operands are
_DEEPEST_TEXT = 6


class Guards:
    """The dimensions of a trace, and the guards recorded by using them as numbers."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names  # of the inputs, for messages
        self._dimensions: list[Dimension] = []  # operands before results
        self._interned: dict[tuple[Any, ...], Dimension] = {}
        self._found: dict[tuple[Any, ...], tuple[str, Any, Any, bool]] = {}
        self._closed = False
        self._code: tuple[SizeCode, tuple[int, ...]] | None = None
        self._is_written = False

    def dimension(self, value: Any, name: str, *operands: Any) -> Dimension:
        """The dimension with this expression; equal expressions share one object."""
        key = (name, *map(_key, operands))
        found = self._interned.get(key)
        if found is None:
            found = Dimension(value, len(self._dimensions), name, operands, self)
            self._interned[key] = found
            self._dimensions.append(found)
        return found

    def record(self, name: str, left: Any, right: Any, outcome: bool) -> None:
        """Record the guard that `left name right` is `outcome`."""
        if not self._closed:
            self._found[name, _key(left), _key(right)] = (name, left, right, outcome)

    def close(self) -> None:
        """End the trace: uses of its dimensions from now on are not the function's and record no
        guards.
        """
        self._closed = True

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """All dimensions of the trace, operands before results."""
        return self._dimensions

    @property
    def found(self) -> list[tuple[str, Any, Any, bool]]:
        """The recorded guards: comparisons, by name, with their operands and outcomes."""
        return list(self._found.values())

    def values(self, shapes: Shapes) -> list[Any] | None:
        """The values of all dimensions for inputs of these shapes; None on division by 0 or the
        like.
        """
        values: list[Any] = []
        try:
            for dimension in self._dimensions:
                values.append(dimension.computed(values, shapes))
        except (ArithmeticError, ValueError):
            return None
        return values

    @property
    def code(self) -> tuple[SizeCode, tuple[int, ...]] | None:
        """Size code that maps the lengths of all inputs' axes to dimensions and checks the guards,
        and the registers of the dimensions; None if that needs more than 64 bits.
        """
        if not self._is_written:
            assert self._closed, "guards are checked once the trace is over"
            self._code = _written(self._dimensions, self.found)
            self._is_written = True
        return self._code

    def checked(self, shapes: Shapes) -> list[Any] | None:
        """The values of all dimensions for inputs of these shapes; None if they violate a guard."""
        if self.code is not None:
            code, registers = self.code
            try:
                found = code.run([length for shape in shapes for length in shape])
            except OverflowError:
                pass  # more than 64 bits: fall through to Python's ints
            else:
                return None if found is None else [found[register] for register in registers]
        values = self.values(shapes)
        return values if self.broken_by(values) is None else None

    def broken_by(self, values: list[Any] | None) -> str | None:
        """The first guard that `values` of the dimensions violate, as text, or None."""
        if values is None:
            return "an expression of sizes that cannot be computed for the new ones"
        for guard in self._found.values():
            name, left, right, outcome = guard
            if _COMPARISONS[name][1](resolve(left, values), resolve(right, values)) != outcome:
                return _guard_text(*guard)
        return None

    def name_of(self, position: int) -> str:
        """The name of an input in messages."""
        if position >= len(self._names):
            return f"input {position}"
        return self._names[position].removeprefix("argument ")

    def __len__(self) -> int:
        return len(self._found)

    def lines(self) -> list[str]:
        """All guards as text."""
        return [_guard_text(*guard) for guard in self._found.values()]


def _guard_text(name: str, left: Any, right: Any, outcome: bool) -> str:
    text = f"{_text(left)} {_COMPARISONS[name][0]} {_text(right)}"
    return text if outcome else f"not {text}"


def _written(
    dimensions: Sequence[Dimension], found: Sequence[tuple[str, Any, Any, bool]]
) -> tuple[SizeCode, tuple[int, ...]] | None:
    """Code that computes dimensions from the lengths of all axes and compares them, and the
    registers of the dimensions; None if a number needs more than 64 bits.
    """
    axes = [dimension for dimension in dimensions if dimension.name == "axis"]
    writer = SizeWriter("i" * len(axes))
    registers: list[int] = []

    def register(operand: Any) -> int:
        if type(operand) is Dimension:
            return registers[operand.number]
        return writer.constant(operand)

    for number, dimension in enumerate(dimensions):
        if dimension.name == "axis":
            assert number < len(axes), "the axes of inputs are the first dimensions of a trace"
            registers.append(number)
            continue
        operands = [register(operand) for operand in dimension.operands]
        if dimension.name == "pow" and type(dimension.value) is float:
            registers.append(writer.float_power(*operands))
        else:
            registers.append(writer.result(dimension.name, *operands))
    for name, a, b, outcome in found:
        writer.require(name, register(a), register(b), outcome)
    try:
        code, final = writer.code()
    except OverflowError:
        return None
    return code, tuple([final[register] for register in registers])


def _key(operand: Any) -> tuple[Any, ...]:
    if type(operand) is Dimension:
        return ("dimension", operand.number)
    return (type(operand), operand)


def _text(value: Any, depth: int = 0) -> str:
    if type(value) is not Dimension:
        return str(value)
    if depth == _DEEPEST_TEXT:
        return "…"
    if value.name == "axis":
        position, axis = value.operands
        return f"{value.guards.name_of(position)}.shape[{axis}]"
    texts = [_text(operand, depth + 1) for operand in value.operands]
    if len(texts) == 1:
        return f"{value.name}({texts[0]})"
    return f"({texts[0]} {_ARITHMETIC[value.name][0]} {texts[1]})"


def _is_plain(value: Any) -> bool:
    return type(value) in (int, float, bool)


class Dimension:
    """A length with the expression that computes it: an axis of an input, or arithmetic
    on others.
    """

    __slots__ = ("guards", "name", "nonnegative", "number", "operands", "value")

    __array_ufunc__ = None  # so that NumPy scalars defer to our operators

    def __init__(
        self, value: Any, number: int, name: str, operands: tuple[Any, ...], guards: Guards
    ) -> None:
        self.value = value
        self.number = number  # index among the dimensions of the trace
        self.name = name  # "axis", with an input and an axis as operands, or the operation
        self.operands = operands
        self.guards = guards
        self.nonnegative = name == "axis" or (
            name in _GROWING and all(map(_is_nonnegative, operands))
        )

    def computed(self, values: Sequence[Any], shapes: Shapes) -> Any:
        """The value for inputs of these shapes, given the values of earlier dimensions."""
        if self.name == "axis":
            position, axis = self.operands
            return shapes[position][axis]
        return self.applied([resolve(operand, values) for operand in self.operands])

    def applied(self, operands: Sequence[Any]) -> Any:
        """Apply the operation of a dimension that is not an axis to other operands."""
        if len(operands) == 1:
            return _FUNCTIONS[self.name](operands[0])
        return _ARITHMETIC[self.name][1](*operands)

    def text(self) -> str:
        """The expression as text, for explanations."""
        return _text(self)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(x.shape[0], int) holds, as it does outside compile
        return type(self.value)

    # Uses of the number itself, which record a guard.

    def plain(self) -> Any:
        """The number, with a guard: from now on the trace depends on it."""
        self.guards.record("eq", self, self.value, True)
        return self.value

    def __index__(self) -> int:
        if type(self.value) is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return int(self.plain())

    def __int__(self) -> int:
        return int(self.plain() if type(self.value) is int else self.__trunc__().plain())

    def __float__(self) -> float:
        return float(self.plain())

    def __complex__(self) -> complex:
        return complex(self.plain())

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

    def __format__(self, specification: str) -> str:
        return format(self.plain(), specification)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.plain(), dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.value), (self.plain(),)

    def __copy__(self) -> Dimension:
        return self

    def __deepcopy__(self, memo: Any) -> Dimension:
        return self

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self.value), name):
            raise AttributeError(f"'{type(self.value).__name__}' object has no attribute '{name}'")
        return getattr(self.plain(), name)

    def __bool__(self) -> bool:
        return bool(self._compared("ne", 0))

    def _compared(self, name: str, other: Any) -> Any:
        if type(other) is not Dimension and not _is_plain(other):
            if not isinstance(other, (Number, np.ndarray)):
                return NotImplemented
            return _COMPARISONS[name][1](self.plain(), other)
        outcome = _COMPARISONS[name][1](
            self.value, other.value if type(other) is Dimension else other
        )
        if not self._is_certain(name, other):
            self.guards.record(name, self, other, outcome)
        return outcome

    def _is_certain(self, name: str, other: Any) -> bool:
        """Whether a comparison has the same outcome for all shapes."""
        if type(other) is Dimension:
            return other is self
        return self.nonnegative and (other < 0 or (other == 0 and name in ("lt", "ge")))

    def __eq__(self, other: object) -> Any:
        return self._compared("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("ne", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared("ge", other)

    # Arithmetic stays symbolic.

    def _applied(self, name: str) -> Any:
        return self.guards.dimension(_FUNCTIONS[name](self.value), name, self)

    def __neg__(self) -> Any:
        return self._applied("neg")

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self.nonnegative else self._applied("abs")

    def __invert__(self) -> Any:
        return self._applied("invert")

    def __floor__(self) -> Any:
        return self if type(self.value) is int else self._applied("floor")

    def __ceil__(self) -> Any:
        return self if type(self.value) is int else self._applied("ceil")

    def __trunc__(self) -> Any:
        return self if type(self.value) is int else self._applied("trunc")

    def __round__(self, digits: int | None = None) -> Any:
        if digits is not None:
            return round(self.plain(), digits)
        return self if type(self.value) is int else self._applied("round")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def _is_nonnegative(operand: Any) -> bool:
    return operand.nonnegative if type(operand) is Dimension else operand >= 0


def _combined(guards: Guards, name: str, left: Any, right: Any) -> Any:
    for operand in (left, right):
        if type(operand) is not Dimension and not _is_plain(operand):
            return (
                _combined_as_number(name, left, right)
                if isinstance(operand, (Number, np.ndarray))
                else NotImplemented
            )
    a = left.value if type(left) is Dimension else left
    b = right.value if type(right) is Dimension else right
    if name in ("floordiv", "truediv", "mod") and b == 0:
        guards.record("eq", right, 0, True)
    value = _ARITHMETIC[name][1](a, b)
    if type(value) not in (int, float):  # a power of a negative number is complex
        return _combined_as_number(name, left, right)
    if type(a) is int and type(b) is int:
        if type(right) is int and right == _NEUTRAL_RIGHT.get(name):
            return left
        if type(left) is int and left == _NEUTRAL_LEFT.get(name):
            return right
    return guards.dimension(value, name, left, right)


def _combined_as_number(name: str, left: Any, right: Any) -> Any:
    """Arithmetic whose result is not an int or float: with NumPy scalars, complex numbers and the
    like.
    """
    a, b = (x.plain() if type(x) is Dimension else x for x in (left, right))
    return _ARITHMETIC[name][1](a, b)


def _operator(name: str) -> Callable[[Dimension, Any], Any]:
    return lambda self, other: _combined(self.guards, name, self, other)


def _reflected(name: str) -> Callable[[Dimension, Any], Any]:
    return lambda self, other: _combined(self.guards, name, other, self)


for _name in _ARITHMETIC:
    setattr(Dimension, f"__{_name}__", _operator(_name))
    setattr(Dimension, f"__r{_name}__", _reflected(_name))


def symbolic_shape(position: int, shape: Sequence[int], guards: Guards) -> tuple[Any, ...]:
    """The shape of input number `position` with every length symbolic."""
    return tuple(
        guards.dimension(length, "axis", position, axis) for axis, length in enumerate(shape)
    )


class Parametric(ABC):
    """A field of an op that may contain dimensions of a trace, as the body of a loop does."""

    @property
    @abstractmethod
    def guards(self) -> Guards | None:
        """The guards of its dimensions; None if it has no dimensions."""

    @abstractmethod
    def resolved(self, values: Sequence[Any]) -> Any:
        """The same for these values of the trace's dimensions."""


def holds_dimensions(value: Any) -> bool:
    """Whether the field of an op, or a shape, contains dimensions."""
    if type(value) is tuple:
        return any(map(holds_dimensions, value))
    if type(value) is Dimension:
        return True
    return isinstance(value, Parametric) and value.guards is not None


def resolve(value: Any, values: Sequence[Any]) -> Any:
    """`value` with each dimension in it (also inside tuples) replaced by its value."""
    if type(value) is Dimension:
        return values[value.number]
    if isinstance(value, Parametric) and value.guards is not None:
        return value.resolved(values)
    if type(value) is tuple:
        return tuple([resolve(item, values) for item in value])
    return value
