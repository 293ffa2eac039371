"""Structures that contain symbolic sizes, as functions of the dimensions of a trace.

Input: `Sizes` with conditions, and a structure of tuples, lists and `DeferredCall`s that
contains sizes.
Output: a function from the values of dimensions to the structure with numbers for sizes, or None
for shapes that violate the conditions. Native code computes the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from ingot._native import SizeCode
from ingot.compiler.forms.size import Form, Monomial, Size
from ingot.compiler.forms.sizes import Range, Sizes
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.size_writer import SizeWriter

__all__ = [
    "DeferredCall",
    "DimensionValue",
    "SizeFunction",
    "compiled",
    "depends_on_shapes",
    "evaluated",
]


@dataclass(frozen=True)
class DeferredCall:
    """A call of `function` whose arguments may contain sizes, evaluated for each shape."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


_COMPOUND = (tuple, list, DeferredCall)


@dataclass(frozen=True)
class DimensionValue:
    """The value of the dimension with this number, whatever it is."""

    number: int


def evaluated(structure: Any) -> Any:
    """A structure without sizes, with every `DeferredCall` evaluated."""
    if type(structure) is DeferredCall:
        return structure.function(*map(evaluated, structure.arguments))
    if type(structure) in (tuple, list):
        parts = [evaluated(each) if type(each) in _COMPOUND else each for each in structure]
        return parts if type(structure) is list else tuple(parts)
    return structure


def compiled(
    sizes: Sizes, structure: Any, example: Sequence[Any] = ()
) -> Callable[[Sequence[Any]], Any]:
    """The function from the values of dimensions to the structure, or None. Values are ints, or of
    the types of those in the `example`.
    """
    return SizeFunction(sizes, structure, example)


class SizeFunction:
    """A structure as a function of the values of dimensions. `code` computes its numbers and checks
    the conditions; `registers` locates each size among them.
    """

    def __init__(self, sizes: Sizes, structure: Any, example: Sequence[Any] = ()) -> None:
        self.sizes = sizes
        self.structure = structure
        writer = _Writer(sizes, example)
        writer.write(structure)
        self.inputs = len(writer.inputs)
        self.code, self.registers = writer.finished()

    def __call__(self, values: Sequence[Any]) -> Any:
        """The structure, or None if the values violate the conditions."""
        if self.code is not None:
            try:
                found = self.code.run(values[: self.inputs])
            except OverflowError:
                pass  # Python's integers are unbounded
            else:
                return None if found is None else self._filler.function(found)
        if not self.sizes.allow(values):
            return None
        numbers = {
            register: self.sizes.number(x, values) for register, x in self._filler.sizes.items()
        }
        return self._filler.function(dict(enumerate(values)) | numbers)

    def part(self, structure: Any) -> Callable[[Sequence[Any]], Any]:
        """The function from all registers to a structure that is part of this one."""
        return _Filler(structure, self.registers, self.inputs).function

    @cached_property
    def _filler(self) -> _Filler:
        """Written when it is first needed: most programs are made by templates."""
        return _Filler(self.structure, self.registers, self.inputs)


class _Filler:
    """A structure as one function of registers, the values of dimensions first. It is
    written as source: a call for each part of the structure would take several times as long.
    """

    def __init__(self, structure: Any, registers: dict[Form, int], inputs: int) -> None:
        self.sizes: dict[int, Size] = {}  # by register
        self._registers = registers
        self._inputs = inputs
        self._names: dict[str, Any] = {}
        source = f"lambda found: {self._text(structure)}"
        self.function: Callable[[Any], Any] = eval(source, self._names)

    def _text(self, structure: Any) -> str:
        if type(structure) is Size:
            # without code, sizes are numbered after the inputs
            register = self._registers.get(structure.key, self._inputs + len(self.sizes))
            self.sizes[register] = structure
            return f"found[{register}]"
        if type(structure) is DimensionValue:
            return f"found[{structure.number}]"
        if not depends_on_shapes(structure):
            return self._name(evaluated(structure))
        if type(structure) is DeferredCall:
            arguments = ", ".join(map(self._text, structure.arguments))
            return f"{self._name(structure.function)}({arguments})"
        items = "".join(f"{self._text(item)}, " for item in structure)
        return f"({items})" if type(structure) is tuple else f"[{items}]"

    def _name(self, value: Any) -> str:
        name = f"x{len(self._names)}"
        self._names[name] = value
        return name


class _Writer:
    """Writes the size code of all sizes in a structure."""

    def __init__(self, sizes: Sizes, example: Sequence[Any]) -> None:
        self.sizes = sizes
        dimensions = [atom.operands[0] for atom in sizes.atoms if atom.kind == "dimension"]
        count = max(len(example), 1 + max((*dimensions, *sizes.numbers), default=-1))
        kinds = {number: type(value) for number, value in enumerate(example)}
        kinds |= {number: type(value) for number, value in sizes.numbers.items()}
        self.inputs = "".join("f" if kinds.get(n) is float else "i" for n in range(count))
        self.code = SizeWriter(self.inputs)
        self.atoms: dict[int, int] = {}
        self.registers: dict[Form, int] = {}  # of sizes, by their keys

    def write(self, structure: Any) -> None:
        """Conditions come first, so that nothing is computed for shapes that violate them."""
        for number, value in self.sizes.numbers.items():
            self.code.require("eq", number, self.code.constant(value))
        for form, known in list(self.sizes.ranges.items()):
            if known.is_condition:
                self._condition(form, known)
        self._sizes_in(structure)

    def finished(self) -> tuple[SizeCode | None, dict[Form, int]]:
        """The code, if its constants fit into 64 bits, and the registers of sizes."""
        try:
            code, final = self.code.code()
        except OverflowError:
            return None, {}
        return code, {key: final[register] for key, register in self.registers.items()}

    def _condition(self, form: Form, known: Range) -> None:
        value = self._sum(form, 0)
        if known.low == known.high and known.low is not None:
            self.code.require("eq", value, self.code.constant(known.low))
            return
        if known.low is not None:
            self.code.require("ge", value, self.code.constant(known.low))
        if known.high is not None:
            self.code.require("le", value, self.code.constant(known.high))
        for excluded in sorted(known.excluded):
            self.code.require("ne", value, self.code.constant(excluded))

    def _sizes_in(self, structure: Any) -> None:
        if type(structure) is Size:
            self._size(structure)
        elif type(structure) is DeferredCall:
            self._sizes_in(structure.arguments)
        elif type(structure) in (tuple, list):
            for item in structure:
                self._sizes_in(item)

    def _size(self, size: Any) -> int:
        if type(size) is not Size:
            return self.code.constant(size)
        if size.key not in self.registers:
            self.registers[size.key] = self._sum(size.terms.items(), size.constant)
        return self.registers[size.key]

    def _sum(self, terms: Iterable[tuple[Monomial, int]], constant: int) -> int:
        """A polynomial."""
        total: int | None = self.code.constant(constant) if constant else None
        for monomial, factor in terms:
            product: int | None = None if factor == 1 else self.code.constant(factor)
            for number in monomial:
                atom = self._atom(number)
                product = atom if product is None else self.code.result("mul", product, atom)
            assert product is not None, "a term has atoms"
            total = product if total is None else self.code.result("add", total, product)
        assert total is not None, "a size has terms"
        return total

    def _atom(self, number: int) -> int:
        if number not in self.atoms:
            atom = self.sizes.atoms[number]
            if atom.kind == "dimension":
                self.atoms[number] = atom.operands[0]
            else:
                first, *others = [self._size(operand) for operand in atom.operands]
                for other in others:
                    first = self.code.result(atom.kind, first, other)
                self.atoms[number] = first
        return self.atoms[number]


def depends_on_shapes(value: Any) -> bool:
    """Whether a value contains sizes."""
    if type(value) in (tuple, list):
        return any(map(depends_on_shapes, value))
    if type(value) is DeferredCall:
        return any(map(depends_on_shapes, value.arguments))
    return type(value) is Size or type(value) is DimensionValue
