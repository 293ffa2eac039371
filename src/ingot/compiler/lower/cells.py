"""Cells: maps that read assembled values (concatenations, rolls, updated slices) in their parts.

Input: a group of maps with `Assemble` ops among its steps. Output: one group for each cell of the
domain, cut where parts meet. Inside a cell each assembled value is a box of one input, a view, so
that a cell is an ordinary map over views of the operands and nothing has to be assembled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from ingot.compiler.forms.nests import Location
from ingot.compiler.forms.schedule import Group, Schedule, without_ones
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import is_immediate
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Assemble, Gather, Iota, PairedMap, View
from ingot.graph.roles.view import behind_views
from ingot.graph.shape import Shape, size_of

__all__ = [
    "Cell",
    "Cut",
    "assembled_steps",
    "cell_group",
    "cells_of",
    "with_assembled_read",
    "written_parts",
]


@dataclass(frozen=True)
class Cut(View):
    """The box of a value that one cell reads or writes."""

    start: Shape
    shape: Shape

    def infer(self, x: Any) -> Any:
        return self.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return x[tuple(map(slice, self.start, np.add(self.start, self.shape)))]

    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape]:
        return sum(map(int.__mul__, self.start, strides)), strides

    vjp = no_rule("only lowered programs hold it")
    jvp = no_rule("only lowered programs hold it")
    vmap = no_rule("only lowered programs hold it")


class Cell(NamedTuple):
    """A box of a group's domain: its first index along each axis, and its lengths."""

    start: Shape
    lengths: Shape


class _Part(NamedTuple):
    """An input of an assembled value, by its box in the domain."""

    source: Step
    start: Shape
    stop: Shape


def assembled_steps(group: Group) -> list[Step]:
    """The assembled values that a group computes."""
    return [step for step in group.steps if isinstance(step.op, Assemble)]


def with_assembled_read(group: Group) -> Group:
    """The group with its assembled values as inputs, which other kernels have to write before."""
    assembled = assembled_steps(group)
    steps = [step for step in group.steps if step not in assembled]
    read = {source for step in steps for source in step.inputs}
    inputs = [step for step in (*group.inputs, *assembled) if step in read]
    return Group(
        group.kind,
        steps,
        inputs,
        group.outputs,
        group.domain,
        group.reduced,
        group.by_rows,
        group.scanned,
        excess_precision=group.excess_precision,
    )


def cells_of(group: Group) -> list[Cell] | None:
    """The cells of a group of maps; None if it reads positions or elements elsewhere, or if there
    would be more cells than copies of parts.
    """
    ops = [step.op for step in group.steps]
    if group.reduced or group.scanned or any(isinstance(op, (Gather, PairedMap)) for op in ops):
        return None
    members = set(group.steps)
    for step in group.steps:
        for source in step.inputs:
            if source not in members and isinstance(behind_views(source).op, Iota):
                return None
    cuts: list[set[int]] = [{0, length} for length in group.domain]
    parts = 0
    for step in assembled_steps(group):
        for part in _parts(step):
            parts += 1
            for axis, ends in enumerate(zip(part.start, part.stop, strict=True)):
                cuts[axis].update(ends)
    axes = [list(pairwise(sorted(each))) for each in cuts]
    cells = [
        Cell(tuple(begin for begin, _ in box), tuple(end - begin for begin, end in box))
        for box in product(*axes)
    ]
    return cells if len(cells) <= parts + 1 else None


def cell_group(
    group: Group, cell: Cell, locations: dict[Step, Location]
) -> tuple[Group, dict[Step, Location]]:
    """The group that computes a cell, and the locations of what it reads and writes."""
    made = _CellGroup(cell, locations)
    steps: list[Step] = []
    for step in group.steps:
        if isinstance(step.op, Assemble):
            made.assembled(step)
        else:
            steps.append(made.step(step))
    outputs = [made.cut(made.found[step], step, cell.start) for step in group.outputs]
    inside = set(steps)
    inputs = dict.fromkeys(
        source for step in steps for source in step.inputs if source not in inside
    )
    found = Group("fused", steps, list(inputs), outputs, without_ones(cell.lengths))
    found.excess_precision = group.excess_precision
    return found, made.locations


class _CellGroup:
    """The steps of a group at one cell."""

    def __init__(self, cell: Cell, locations: dict[Step, Location]) -> None:
        self.cell = cell
        self.everywhere = locations
        self.locations: dict[Step, Location] = {}
        self.found: dict[
            Step, Step
        ] = {}  # steps of the group and their inputs -> those of the cell

    def assembled(self, step: Step) -> None:
        """Replaces an assembled value by the part that it is in this cell."""
        start, lengths = self.cell
        part = next(
            part
            for part in reversed(_parts(step))
            if all(map(int.__le__, part.start, start))
            and all(map(int.__le__, map(int.__add__, start, lengths), part.stop))
        )
        shift = tuple(map(int.__sub__, start, part.start))
        self.found[step] = self._outside(part.source, step.shape, shift)

    def step(self, step: Step) -> Step:
        """A step of the group, over the elements of the cell."""
        inputs = [
            self.found.get(source) or self._outside(source, source.shape, self.cell.start)
            for source in step.inputs
        ]
        shape = tuple(self._along(step.shape, self.cell.lengths, 1))
        found = Step(step.op, inputs, shape, step.dtype, step.stream, step.source)
        found.expanded_from = step
        self.found[step] = found
        return found

    def _outside(self, source: Step, shape: Shape, start: Shape) -> Step:
        """The box of a value in memory that has the elements of the cell, from `start` on. `shape`
        says which axes of the domain it has.
        """
        if is_immediate(source):
            return source
        first = tuple(self._along(shape, start, 0))
        lengths = tuple(self._along(shape, self.cell.lengths, 1))
        found = Step(Cut(first, lengths), [source], lengths, source.dtype, source=source.source)
        found.expanded_from = source
        return self.cut(found, source, start, shape)

    def cut(self, found: Step, whole: Step, start: Shape, shape: Shape | None = None) -> Step:
        """Locates the box of a value that begins at `start`."""
        block, offset, strides = self.everywhere[whole]
        first = self._along(whole.shape if shape is None else shape, start, 0)
        begin = offset + sum(map(int.__mul__, first, strides))
        self.locations[found] = Location(block, begin, strides)
        return found

    def _along(self, shape: Shape, numbers: Sequence[int], otherwise: int) -> Iterator[int]:
        """One number for each axis of a shape from those along the domain, which has no axes of
        length 1.
        """
        remaining = iter(numbers)
        return (otherwise if length == 1 else next(remaining) for length in shape)


def _parts(step: Step) -> list[_Part]:
    """The parts of an assembled value that are not empty, as boxes of the domain."""
    assert isinstance(step.op, Assemble)
    boxes = step.op.boxes(*step.inputs)
    assert boxes is not None
    axes = [axis for axis, length in enumerate(step.shape) if length != 1]
    found = []
    for number, first in boxes:
        source = step.inputs[number]
        if 0 not in source.shape:
            start = tuple(first[axis] for axis in axes)
            stop = tuple(first[axis] + source.shape[axis] for axis in axes)
            found.append(_Part(source, start, stop))
    return found


def written_parts(schedule: Schedule) -> dict[Step, tuple[Step, View]]:
    """The values that maps write to their slices of an assembled value, with these slices."""
    computed = {
        step
        for group in schedule.groups
        if group.kind == "fused" and not group.reduced
        for step in group.outputs
    }
    computed.difference_update(schedule.tape.outputs)
    found: dict[Step, tuple[Step, View]] = {}
    for group in schedule.groups:
        whole = group.steps[0]
        if group.kind == "assemble" and isinstance(whole.op, Assemble) and whole.op.disjoint:
            for number, part in whole.op.slices(*whole.inputs):
                source = whole.inputs[number]
                if source in computed and size_of(source.shape):
                    found.setdefault(source, (whole, part))
    return found
