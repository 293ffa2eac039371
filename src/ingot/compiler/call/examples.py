"""Graphs that differ only in numbers, as one symbolic tape.

An uncompiled graph has numbers where a trace for all shapes has dimensions: lengths of axes, and
ints in the parameters of ops. Graphs with the same skeleton (everything but the ints: ops,
connections, dtypes) are examples of one function of some lengths. Which numbers vary, and how they
depend on each other, is inferred from the examples: a number that was equal in all of them is a
constant; one that was always an earlier one plus, or times, a constant is expressed by that; any
other is a dimension. A graph that contradicts this becomes one more example.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ingot._native import Node
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import (
    Step,
    Tape,
    add_steps,
    composed_step,
    only_carries_rules,
    passed_input,
)
from ingot.graph.op import parameters
from ingot.graph.roles import Composite

__all__ = ["Dimensions", "Numbers", "generalised", "skeleton"]

Numbers = tuple[int, ...]
Dimensions = Callable[[Numbers], list[int] | None]  # the dimensions of a graph with some numbers
_NUMBER = object()  # stands for an int in a skeleton


def skeleton(
    nodes: Sequence[Node], wanted: Sequence[int], leaves: Sequence[Node]
) -> tuple[Hashable, Numbers]:
    """The skeleton that graphs of one kind share, and the numbers in which they differ."""
    numbers: list[int] = []
    number_of = {leaf: -1 - index for index, leaf in enumerate(leaves)}
    parts: list[Any] = [tuple(wanted)]
    for leaf in leaves:
        parts.append(leaf.dtype)
        parts.append(_without_numbers(leaf.shape, numbers))
    for node in nodes:
        passed = passed_input(node)
        if passed is not None:
            number_of[node] = number_of[passed]
            continue
        sources = tuple([number_of[source] for source in node.inputs])
        number_of[node] = len(number_of)
        if only_carries_rules(node):
            continue
        parts.append(type(node.op))
        parts.append(sources)
        parts.append(node.dtype)
        parts.append(_without_numbers(tuple(parameters(node.op).values()), numbers))
        parts.append(_without_numbers(node.shape, numbers))
    return tuple(parts), tuple(numbers)


def _without_numbers(value: Any, numbers: list[int]) -> Any:
    if type(value) is int:
        numbers.append(value)
        return _NUMBER
    if type(value) is tuple:
        return tuple([_without_numbers(item, numbers) for item in value])
    return (type(value), value) if type(value) is float else value


def _with_numbers(value: Any, numbers: Iterator[Any]) -> Any:
    if type(value) is int:
        return next(numbers)
    if type(value) is tuple:
        return tuple([_with_numbers(item, numbers) for item in value])
    return value


class _Relations:
    """How the numbers of some examples depend on each other."""

    def __init__(self, examples: Sequence[Numbers]) -> None:
        self.dimensions: list[int] = []  # the independent numbers
        # for each number: the dimension it is a multiple of, the factor, and the constant term
        self.terms: list[tuple[int | None, int, int]] = []
        self._known: dict[Numbers, tuple[int | None, int, int]] = {}
        self._columns: list[Numbers] = []
        for index, column in enumerate(zip(*examples, strict=True)):
            found = self._known.get(column)
            if found is None:
                found = self._known[column] = self._term(index, column)
            self.terms.append(found)

    def _term(self, index: int, column: Numbers) -> tuple[int | None, int, int]:
        if len(set(column)) == 1:
            return None, 0, column[0]
        for number, other in enumerate(self._columns):
            added = column[0] - other[0]
            if all(a - b == added for a, b in zip(column, other, strict=True)):
                return number, 1, added
            factor = column[0] // other[0] if other[0] else 0
            if factor > 1 and all(a == b * factor for a, b in zip(column, other, strict=True)):
                return number, factor, 0
        self.dimensions.append(index)
        self._columns.append(column)
        return len(self.dimensions) - 1, 1, 0

    def dimensions_of(self) -> Dimensions:
        """A function from the numbers of a graph to its dimensions; None for numbers that violate
        the relations.
        """
        lines = ["def found(n):"]
        lines += [f" d{number} = n[{index}]" for number, index in enumerate(self.dimensions)]
        conditions = []
        for index, (number, factor, added) in enumerate(self.terms):
            value = str(added) if number is None else f"d{number}*{factor}+{added}"
            if number is None or self.dimensions[number] != index:
                conditions.append(f"n[{index}] == {value}")
        if conditions:
            lines.append(f" if not ({' and '.join(conditions)}): return None")
        lines.append(f" return [{', '.join(f'd{k}' for k in range(len(self.dimensions)))}]")
        names: dict[str, Any] = {}
        exec(compile("\n".join(lines), "<examples>", "exec"), names)
        found: Dimensions = names["found"]
        return found

    def sizes_of(self, values: Sequence[int]) -> tuple[Sizes, list[Any]]:
        """The numbers as sizes, with `values` of the dimensions as hints."""
        sizes = Sizes()
        dimensions: list[Any] = []
        for number, hint in enumerate(values):
            size: Any = sizes.dimension(number, hint)
            if hint < 2:  # an axis without a loop, or not a length at all
                sizes.is_zero(size - hint)
                size = hint
            else:
                sizes.is_not_negative(size - 2)
            dimensions.append(size)
        return sizes, [
            added if number is None else dimensions[number] * factor + added
            for number, factor, added in self.terms
        ]


def generalised(
    examples: Sequence[Numbers],
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: Sequence[Node],
) -> tuple[Dimensions, Sizes, Tape]:
    """The function from a graph's numbers to its dimensions, and the symbolic tape of all graphs
    like the examples, with the last one as the hint.
    """
    relations = _Relations(examples)
    dimensions_of = relations.dimensions_of()
    values = dimensions_of(examples[-1])
    assert values is not None, "an example is like itself"
    sizes, found = relations.sizes_of(values)
    numbers = iter(found)
    made: dict[Node, Step] = {}
    for leaf in leaves:
        made[leaf] = Step(None, (), _with_numbers(leaf.shape, numbers), leaf.dtype)
    inputs = list(made.values())

    def step_of(position: int, node: Node) -> Step:
        fields = parameters(node.op)
        filled = _with_numbers(tuple(fields.values()), numbers)
        shape = _with_numbers(node.shape, numbers)
        changed = {
            name: new
            for (name, old), new in zip(fields.items(), filled, strict=True)
            if _holds_size(new)
        }
        op = replace(node.op, **changed) if changed else node.op
        sources = [made[source] for source in node.inputs]
        if isinstance(op, Composite):
            return composed_step(made, op, sources, position)
        return Step(op, sources, shape, node.dtype, node.stream, position)

    add_steps(made, nodes, step_of)
    steps = list(dict.fromkeys(made.values()))
    return dimensions_of, sizes, Tape(inputs, [made[nodes[index]] for index in wanted], steps)


def _holds_size(value: Any) -> bool:
    return any(map(_holds_size, value)) if type(value) is tuple else is_symbolic(value)
