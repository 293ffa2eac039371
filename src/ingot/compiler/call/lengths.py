"""Lengths that vary: axes of a function's inputs that came with many lengths.

A function is compiled for the shapes of its arguments. If it misses again and again because an axis
has another length, as the cache of a decoder has for each token, that length becomes a symbol: the
function is traced once more with a dimension in its place, as all lengths are with `shapeless`, and
all other lengths stay numbers. Results are the same, because a trace never uses a dimension as a
number without a guard. If the function needs the number, its lengths remain numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ingot.compiler.trace.trace import Axes
from ingot.graph.dimension import Dimension, Guards
from ingot.tuning import MAX_FIXED_LENGTHS, MAX_LENGTH_CLASSES, MAX_REFUSED_TRACES

__all__ = ["NO_AXES", "Lengths", "all_axes", "pinned"]

MAX_FAMILIES = 256  # as many as a function has signatures
_INVERTIBLE = ("add", "sub", "mul", "truediv", "pow", "neg")  # with a constant

NO_AXES: Axes = frozenset()


class _Family:
    """Calls that differ in lengths alone."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self._first = shapes
        self._others: dict[tuple[int, int], set[int]] = {}  # lengths of axes that varied
        self.axes = NO_AXES
        self.traces = 0
        self.refusals = 0

    def note(self, shapes: Sequence[Sequence[int]]) -> None:
        """Adds the shapes of a call that missed."""
        for position, (first, shape) in enumerate(zip(self._first, shapes, strict=True)):
            if first == shape:
                continue
            for axis, (before, length) in enumerate(zip(first, shape, strict=True)):
                if before != length:
                    self._others.setdefault((position, axis), {before}).add(length)
        found = [axis for axis, known in self._others.items() if len(known) > MAX_FIXED_LENGTHS]
        self.axes = frozenset(found)

    @property
    def is_fixed(self) -> bool:
        """Whether compiling for all lengths was tried and failed."""
        return self.refusals >= MAX_REFUSED_TRACES or self.traces >= MAX_LENGTH_CLASSES


class Lengths:
    """Which lengths of a function's inputs vary, by signatures without lengths. Changes require the
    lock of the cache that it belongs to.
    """

    def __init__(self) -> None:
        self._families: dict[Hashable, _Family] = {}
        self.has_symbols = False  # for any signature

    def noted(self, key: Hashable, shapes: Sequence[Sequence[int]]) -> Axes:
        """The axes whose lengths should be symbols in a trace for these shapes, which missed."""
        family = self._families.get(key)
        if family is None:
            if len(self._families) >= MAX_FAMILIES:
                del self._families[next(iter(self._families))]
            family = self._families[key] = _Family(shapes)
        family.note(shapes)
        return NO_AXES if family.is_fixed else family.axes

    def symbolic_axes(self, key: Hashable) -> Axes:
        """The axes whose lengths are symbols by now."""
        family = self._families.get(key)
        return NO_AXES if family is None or family.traces == 0 else family.axes

    def add_trace(self, key: Hashable) -> None:
        """Records that there is one more trace with symbols."""
        self._families[key].traces += 1
        self.has_symbols = True

    def refuse(self, key: Hashable) -> None:
        """Records that a trace with symbols served one length only."""
        self._families[key].refusals += 1


def all_axes(shapes: Sequence[Sequence[int]]) -> Axes:
    """Every axis of inputs of these shapes."""
    return frozenset(
        (position, axis) for position, shape in enumerate(shapes) for axis in range(len(shape))
    )


def pinned(guards: Guards, axes: Axes) -> str | None:
    """The first guard that holds for a single length of one of these axes, as text; None if there
    is none.
    """
    for number, (name, left, right, outcome) in enumerate(guards.found):
        if (name, outcome) not in (("eq", True), ("ne", False)):
            continue
        sides = [side for side in (left, right) if type(side) is Dimension]
        if len(sides) == 1 and _axis_behind(sides[0]) in axes:
            return guards.lines()[number]
    return None


def _axis_behind(dimension: Dimension) -> tuple[int, int] | None:
    """The axis whose length follows from the value of a dimension; None if there are several or
    more than one length has it.
    """
    while dimension.name in _INVERTIBLE:
        operands = [operand for operand in dimension.operands if type(operand) is Dimension]
        if len(operands) != 1:
            return None
        dimension = operands[0]
    return dimension.operands if dimension.name == "axis" else None
