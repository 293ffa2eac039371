"""Dimensions: lengths of axes that remember where they came from.

While `compile(..., shapeless=True)` traces, the shapes of its inputs consist of `Dimension`s. Arithmetic on them stays
symbolic, so `x.reshape(x.shape[0] * x.shape[1], -1)` is recorded as such and holds for every shape. Wherever a length is used
as a plain number (a comparison, a loop over it, an index), what was found is recorded as a guard: a later call whose shapes
break a guard is traced again. A dimension is never silently a number, so a replay is never wrong.

`Dimension` is no subclass of int, because CPython reads the value of a subclass without asking; it only says it is one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Dimension", "Guards", "resolve", "symbolic_shape"]

Bindings = Sequence[Sequence[int]]  # the shapes of the inputs of a call

_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "max": "max",
    "min": "min",
}

_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class Guards:
    """What a trace found out about its dimensions by using them as numbers."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], tuple[str, Any, Any, bool]] = {}

    def record(self, name: str, left: Any, right: Any, outcome: bool) -> None:
        """Notes that `left name right` was found to be `outcome`."""
        self._found[name, _key(left), _key(right)] = (name, left, right, outcome)

    def broken_by(self, shapes: Bindings) -> str | None:
        """The first guard that does not hold for inputs of these shapes, in words; None if all hold."""
        for name, left, right, outcome in self._found.values():
            if _FUNCTIONS[name](resolve(left, shapes), resolve(right, shapes)) != outcome:
                negation = "" if outcome else "not "
                return f"{negation}{_text(left)} {_SYMBOLS[name]} {_text(right)}"
        return None

    def __len__(self) -> int:
        return len(self._found)

    def lines(self) -> list[str]:
        """Every guard in words."""
        return [
            f"{'' if outcome else 'not '}{_text(left)} {_SYMBOLS[name]} {_text(right)}"
            for name, left, right, outcome in self._found.values()
        ]


def _key(value: Any) -> Any:
    return value.key if type(value) is Dimension else value


def _text(value: Any) -> str:
    return value.text() if type(value) is Dimension else str(value)


class Dimension:
    """A length with the expression that it comes from: an axis of an input, or arithmetic on others."""

    __slots__ = ("expression", "guards", "key", "value")

    def __init__(self, value: int, expression: tuple[Any, ...], guards: Guards) -> None:
        self.value = value
        self.expression = expression  # ("axis", input, axis) or (operation, left, right)
        self.guards = guards
        self.key = (expression[0], *map(_key, expression[1:]))

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(x.shape[0], int) holds, as it does outside of compile
        return int

    def text(self) -> str:
        """The expression as explanations show it."""
        name, left, right = self.expression
        if name == "axis":
            return f"input {left}.shape[{right}]"
        return f"({_text(left)} {_SYMBOLS[name]} {_text(right)})"

    def __repr__(self) -> str:
        return str(self.value)

    def __format__(self, specification: str) -> str:
        return format(self._number(), specification)

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (self._number(),)

    # Where the number itself is used: it becomes a guard.

    def _number(self) -> int:
        self.guards.record("eq", self, self.value, True)
        return self.value

    def __index__(self) -> int:
        return self._number()

    __int__ = __index__

    def __float__(self) -> float:
        return float(self._number())

    def __hash__(self) -> int:
        return hash(self._number())

    def __bool__(self) -> bool:
        return self._compared("ne", 0)

    def _compared(self, name: str, other: Any) -> Any:
        plain = other.value if type(other) is Dimension else other
        if type(plain) is not int:
            return NotImplemented if not isinstance(plain, (int, float)) else _FUNCTIONS[name](self._number(), plain)
        outcome: bool = _FUNCTIONS[name](self.value, plain)
        if type(other) is Dimension and other.key == self.key:
            return outcome  # the same expression: it holds for every shape
        self.guards.record(name, self, other, outcome)
        return outcome

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

    def _combined(self, name: str, left: Any, right: Any) -> Any:
        a = left.value if type(left) is Dimension else left
        b = right.value if type(right) is Dimension else right
        if type(a) is not int or type(b) is not int:
            other = b if type(left) is Dimension else a
            if not isinstance(other, (int, float, complex)):
                return NotImplemented
            return _FUNCTIONS[name](
                left._number() if type(left) is Dimension else a,
                right._number() if type(right) is Dimension else b,
            )
        if name in ("floordiv", "mod") and b == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        if name == "mul" and a == 1 and type(left) is int:
            return right
        if (name in ("mul", "floordiv") and b == 1 or name in ("add", "sub") and b == 0) and type(right) is int:
            return left
        return Dimension(_FUNCTIONS[name](a, b), (name, left, right), self.guards)

    def __add__(self, other: Any) -> Any:
        return self._combined("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._combined("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._combined("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._combined("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple, str)):
            return other * self._number()
        return self._combined("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple, str)):
            return other * self._number()
        return self._combined("mul", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._combined("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._combined("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._combined("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._combined("mod", other, self)

    def __neg__(self) -> Any:
        return self._combined("sub", 0, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> int:
        return abs(self._number())

    def __truediv__(self, other: Any) -> Any:
        return self._number() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._number()

    def __pow__(self, other: Any) -> Any:
        return self._number() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self._number()

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other


def symbolic_shape(position: int, shape: Sequence[int], guards: Guards) -> tuple[Any, ...]:
    """The shape of input number `position` with every length symbolic."""
    return tuple(
        Dimension(length, ("axis", position, axis), guards) for axis, length in enumerate(shape)
    )


def resolve(value: Any, shapes: Bindings) -> Any:
    """`value` with every dimension in it (also inside tuples) replaced by its number for inputs of these shapes."""
    if type(value) is Dimension:
        name, left, right = value.expression
        if name == "axis":
            return shapes[left][right]
        return _FUNCTIONS[name](resolve(left, shapes), resolve(right, shapes))
    if type(value) is tuple:
        return tuple(resolve(item, shapes) for item in value)
    return value
