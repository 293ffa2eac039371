"""Structures with symbolic sizes in them as Python functions of the dimensions of a trace.

Comes in: `Sizes` with conditions, and a structure of tuples, lists and `Made`s with sizes in it.
Goes out: a function that takes the dimensions' values, and gives the structure with numbers in
place of sizes, or None for shapes that do not meet the conditions. It is written once as source
code, so that each new shape takes microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot.compiler.forms.size import Size
from ingot.compiler.forms.sizes import Range, Sizes
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Given", "Made", "compiled", "depends_on_shapes", "made"]


@dataclass(frozen=True)
class Made:
    """What `function` makes of arguments, which may hold sizes: made for each shape."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Given:
    """The value of the dimension with this number, whatever it is."""

    number: int


def made(structure: Any) -> Any:
    """A structure without sizes, everything in it made."""
    if type(structure) is Made:
        return structure.function(*map(made, structure.arguments))
    if type(structure) in (tuple, list):
        return type(structure)(map(made, structure))
    return structure


def compiled(sizes: Sizes, structure: Any) -> Callable[[Sequence[Any]], Any]:
    """The function of the dimensions' values that makes the structure, or gives None."""
    return _Writer(sizes).function(structure)


class _Writer:
    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}  # of polynomials
        self.atoms: set[int] = set()  # that have their numbers
        self.constants: dict[str, Any] = {}
        self.constant_names: dict[int, str] = {}

    def function(self, structure: Any) -> Callable[[Sequence[Any]], Any]:
        """The whole function."""
        for number, value in self.sizes.numbers.items():
            self.lines.append(f"if v[{number}] != {self._constant(value)}: return None")
        for form, known in list(self.sizes.ranges.items()):
            if known.is_condition:
                self._condition(form, known)
        result = self._text(structure)
        source = "\n    ".join(["def make(v):", *self.lines, f"return {result}"])
        namespace = dict(self.constants)
        exec(compile(source, "<sizes>", "exec"), namespace)
        found: Callable[[Sequence[Any]], Any] = namespace["make"]
        return found

    def _condition(self, form: Any, known: Range) -> None:
        value = self._sum(form, 0)
        low = "" if known.low is None else f"{known.low} <= "
        high = "" if known.high is None else f" <= {known.high}"
        if known.low == known.high and known.low is not None:
            self.lines.append(f"if {value} != {known.low}: return None")
            return
        if low or high:
            self.lines.append(f"if not {low}{value}{high}: return None")
        for excluded in sorted(known.excluded):
            self.lines.append(f"if {value} == {excluded}: return None")

    # Numbers

    def _sum(self, terms: Any, constant: int) -> str:
        """A polynomial."""
        parts = []
        for monomial, factor in terms:
            for number in monomial:
                self._atom(number)
            atoms = "*".join(f"a{number}" for number in monomial)
            parts.append(atoms if factor == 1 else f"{factor}*{atoms}")
        if constant:
            parts.append(str(constant))
        return parts[0] if len(parts) == 1 else f"({'+'.join(parts)})"

    def _size(self, size: Size) -> str:
        name = self.names.get(size.key)
        if name is None:
            text = self._sum(size.terms.items(), size.constant)
            if text.isidentifier():
                name = text
            else:
                name = f"n{len(self.names)}"
                self.lines.append(f"{name} = {text}")
            self.names[size.key] = name
        return name

    def _atom(self, number: int) -> None:
        if number in self.atoms:
            return
        self.atoms.add(number)
        atom = self.sizes.atoms[number]
        if atom.kind == "dimension":
            text = f"v[{atom.operands[0]}]"
        else:
            operands = [self._text(operand) for operand in atom.operands]
            if atom.kind == "later":
                text = operands[0]
            elif atom.kind == "max":
                text = f"max({', '.join(operands)})"
            else:
                sign = {"floordiv": "//", "mod": "%"}[atom.kind]
                text = f"{operands[0]} {sign} {operands[1]}"
        self.lines.append(f"a{number} = {text}")

    # Structures

    def _text(self, value: Any) -> str:
        if type(value) is int:
            return str(value) if value >= 0 else f"({value})"
        if type(value) is Size:
            return self._size(value)
        if type(value) is Given:
            return f"v[{value.number}]"
        if not depends_on_shapes(value):
            return self._constant(made(value))
        if type(value) is Made:
            arguments = [self._text(argument) for argument in value.arguments]
            return f"{self._constant(value.function)}({', '.join(arguments)})"
        items = "".join(f"{self._text(item)}, " for item in value)
        return f"({items})" if type(value) is tuple else f"[{items}]"

    def _constant(self, value: Any) -> str:
        name = self.constant_names.get(id(value))
        if name is None:
            name = self.constant_names[id(value)] = f"c{len(self.constants)}"
            self.constants[name] = value
        return name


def depends_on_shapes(value: Any) -> bool:
    """Whether something is another for each shape."""
    if type(value) in (tuple, list):
        return any(map(depends_on_shapes, value))
    if type(value) is Made:
        return any(map(depends_on_shapes, value.arguments))
    return type(value) is Size or type(value) is Given
