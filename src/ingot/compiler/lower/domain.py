"""Iteration domains of fused groups, and the strides of their operands along them.

Input: a group, and the strides of what it reads and writes. Output: a `Domain`, whose axes become
loops, and `Operand`s with one stride per axis.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ingot._native import Dtype
from ingot.compiler.forms.schedule import Group, elementwise_inputs
from ingot.compiler.forms.size import is_symbolic, provably_equal
from ingot.compiler.forms.tape import Step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.reduction_order import LANES, inner_axes
from ingot.graph.roles import Gather, Iota, Reduce, View
from ingot.graph.shape import size_of
from ingot.tuning import CACHE_LINE, MIN_INNER_COLUMNS

__all__ = [
    "Domain",
    "Operand",
    "Operands",
    "depends_on_order",
    "immediate_value",
    "is_immediate",
    "operands_of",
    "reads_rows_again",
]


@dataclass(frozen=True)
class Operand:
    """A value in memory that a kernel reads or writes: its position among the arguments and its
    strides in bytes. An iota is not in memory: it has no argument, and its strides are the
    increments of its value.

    `strides` has an entry for each axis of the group's domain; values with one element per row have
    stride 0 along the reduced axes. Where a reduction traverses an axis backwards, `offset` is that
    of its last element, and the stride is negated.
    """

    step: Step
    argument: int | None
    dtype: Dtype
    strides: tuple[int, ...]
    offset: int = 0  # of the first element that the loops read or write


@dataclass(frozen=True)
class Domain:
    """The axes of a group's elements, outermost first, without axes of length 1. `inner` are the
    innermost reduced axes as `graph/numerics/reduction_order.py` defines them. `axes` lists, for
    each axis, the axes of the group that were joined into it.
    """

    lengths: tuple[int, ...]
    reduced: tuple[int, ...]
    inner: tuple[int, ...] = ()
    axes: tuple[tuple[int, ...], ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:
        """The positions of the axes that are not reduced."""
        return tuple(axis for axis in range(len(self.lengths)) if axis not in self.reduced)

    def size(self, axes: Sequence[int]) -> int:
        """The number of elements along some of the axes."""
        return size_of(self.lengths[axis] for axis in axes)


class Operands(NamedTuple):
    """The operands of a kernel: what it reads and writes, its iotas, and what it gathers."""

    reads: list[Operand]
    gathers: dict[Step, Operand]  # by the step that reads it
    writes: list[Operand]
    iotas: list[Operand]


def operands_of(
    group: Group,
    strides_of: dict[Step, tuple[int, ...]],
    boundaries: Collection[int] = (),
    apart: Collection[int] = (),
) -> tuple[Domain, Operands]:
    """The collapsed domain of a group and its operands; constant scalars are immediates, not
    operands. Axes at `boundaries` are not joined with the axis before them, and axes of the group
    in `apart` are not joined with others.
    """
    taken = {source for step in group.steps for source in elementwise_inputs(step)}
    plain = [step for step in group.inputs if step in taken and not is_immediate(step)]
    reads = [step for step in plain if not isinstance(step.op, Iota)]
    iotas = [step for step in plain if isinstance(step.op, Iota)]
    gathers = [step for step in group.steps if isinstance(step.op, Gather)]
    # the step that owns the memory, the shape that is traversed, the strides along that shape
    rows: list[tuple[Step, tuple[int, ...], tuple[int, ...]]] = [
        *((step, step.shape, strides_of[step]) for step in reads),
        *((step.inputs[0], step.shape, _gathered_strides(step, strides_of)) for step in gathers),
        *((step, step.shape, strides_of[step]) for step in group.outputs),
        *((step, step.shape, _iota_strides(step)) for step in iotas),
    ]
    spread = [_over_domain(shape, strides, group) for _, shape, strides in rows]
    in_memory = len(rows) - len(iotas)
    jumps = [_over_domain(step.shape, _jumps(step, strides_of), group) for step in gathers]
    runs = [] if gathers or iotas else spread[: len(reads)]
    order = _natural_order(group, [*spread[:in_memory], *jumps], runs)
    domain, collapsed, offsets = _collapsed(group, order, spread, in_memory, boundaries, apart)
    operands = iter(
        Operand(step, argument if argument < in_memory else None, step.dtype, strides, offset)
        for argument, ((step, _, _), strides, offset) in enumerate(
            zip(rows, collapsed, offsets, strict=True)
        )
    )
    found = Operands(
        [next(operands) for _ in reads],
        {step: next(operands) for step in gathers},
        [next(operands) for _ in group.outputs],
        [next(operands) for _ in iotas],
    )
    return domain, found


def _collapsed(
    group: Group,
    order: list[int],
    spread: list[tuple[int, ...]],
    in_memory: int,
    boundaries: Collection[int],
    apart: Collection[int],
) -> tuple[Domain, list[tuple[int, ...]], list[int]]:
    """Joins the axes of a group in an order, given the strides of its operands along them, of which
    the first `in_memory` are in memory. Returns the domain, the strides along its axes, and the
    offset of each operand's first element.
    """
    reduced = group.reduced or ()
    in_order = depends_on_order(group)
    if in_order:
        order = _with_sorted(order, reduced)
    spread = [tuple(strides[axis] for axis in order) for strides in spread]
    ordered = tuple(group.domain[axis] for axis in order)
    offsets = [0] * len(spread)
    if reduced:
        fixed = [in_order and axis in reduced for axis in order]
        offsets, spread = _forward(ordered, spread, in_memory, fixed)
    inner = inner_axes(group.domain, reduced) if in_order else ()
    kinds = [_kind(axis, reduced, inner, apart) for axis in order]
    joined = _joined(ordered, kinds, spread, boundaries)
    collapsed = [tuple(each[axes[-1]] for axes in joined) for each in spread]
    domain = _domain(
        tuple(size_of(ordered[axis] for axis in axes) for axes in joined),
        [kinds[axes[0]] for axes in joined],
        tuple(tuple(order[axis] for axis in axes) for axes in joined),
    )
    return domain, collapsed, offsets


def depends_on_order(group: Group) -> bool:
    """Whether the order in which a group combines elements can change its results."""
    return any(isinstance(step.op, Reduce) and step.op.depends_on_order() for step in group.steps)


def _with_sorted(order: list[int], reduced: tuple[int, ...]) -> list[int]:
    """An order of axes in which the reduced axes keep their slots, but are sorted by number."""
    remaining = iter(sorted(reduced))
    return [next(remaining) if axis in reduced else axis for axis in order]


def _kind(axis: int, reduced: Sequence[int], inner: Sequence[int], apart: Collection[int]) -> int:
    """The kind of an axis: kept (0), reduced (1), an inner one of the reduced (2), or kept and not
    to be joined (3).
    """
    if axis in reduced:
        return 2 if axis in inner else 1
    return 3 if axis in apart else 0


def _domain(
    lengths: tuple[int, ...], kinds: list[int], axes: tuple[tuple[int, ...], ...]
) -> Domain:
    """The domain of axes of these kinds. Where the order is free no axis is of the inner kind; the
    last reduced axis then counts as inner.
    """
    reduced = tuple(axis for axis, kind in enumerate(kinds) if kind in (1, 2))
    inner = tuple(axis for axis, kind in enumerate(kinds) if kind == 2)
    return Domain(lengths, reduced, inner or reduced[-1:], axes)


def _gathered_strides(step: Step, strides_of: dict[Step, tuple[int, ...]]) -> tuple[int, ...]:
    assert isinstance(step.op, Gather)
    return step.op.moved_strides(strides_of[step.inputs[0]])


def _jumps(step: Step, strides_of: dict[Step, tuple[int, ...]]) -> tuple[int, ...]:
    """How far apart in memory a gather reads, at least, along the axes along which its indices
    vary; 0 along the others.
    """
    assert isinstance(step.op, Gather)
    source, *indices = step.inputs
    jumps = [0] * len(step.shape)
    for axis, index in zip(step.op.axes, indices, strict=True):
        varies = strides_of.get(index, (1,) * len(jumps))  # unknown for one that the group computes
        for position, stride in enumerate(varies):
            if stride:
                jumps[position] += abs(strides_of[source][axis])
    return tuple(jumps)


def _iota_strides(step: Step) -> tuple[int, ...]:
    assert isinstance(step.op, Iota)
    return step.op.steps


def is_immediate(step: Step) -> bool:
    """Whether a step is a single constant number, whatever its shape."""
    return immediate_value(step) is not None


def immediate_value(step: Step) -> np.ndarray | None:
    """The element of a constant that has only one, also through views; None otherwise."""
    while isinstance(step.op, View):
        step = step.inputs[0]
    if step.value is None or step.value.size != 1:
        return None
    return step.value.reshape(-1)


def _over_domain(shape: tuple[int, ...], strides: tuple[int, ...], group: Group) -> tuple[int, ...]:
    """Strides along the axes of the domain; 0 along the reduced axes for a value with one element
    per row.
    """
    longer = [stride for length, stride in zip(shape, strides, strict=True) if length != 1]
    if len(longer) == len(group.domain):
        return tuple(longer)
    kept = iter(longer)
    reduced = group.reduced or ()
    return tuple(0 if axis in reduced else next(kept) for axis in range(len(group.domain)))


def _natural_order(
    group: Group, strides: list[tuple[int, ...]], runs: list[tuple[int, ...]]
) -> list[int]:
    """The axes of a group's domain in the order in which reductions traverse them: by decreasing
    stride. The reduced axes stay innermost where rows are traversed a second time with their
    results, and where the kept axes are too short for vectors, unless operands, with strides
    `runs`, have whole rows of them next to each other. Maps keep their order, which is that of
    their outputs.
    """
    axes = list(range(len(group.domain)))
    if group.reduced is None:
        return axes
    reduced = group.reduced

    def distance(axis: int) -> int:
        return -sum(abs(each[axis]) for each in strides)

    if reads_rows_again(group):
        kept = [axis for axis in axes if axis not in reduced]
        return [*sorted(kept, key=distance), *sorted(reduced, key=distance)]
    order = sorted(axes, key=distance)
    while (
        order[-1] not in reduced
        and group.domain[order[-1]] < MIN_INNER_COLUMNS
        and not _are_runs(group, order, runs)
        and all(abs(each[order[-2]]) < CACHE_LINE for each in strides)
    ):
        first = next(position for position, axis in enumerate(order) if axis in reduced)
        order.insert(first, order.pop())
    return order


def _are_runs(group: Group, order: list[int], runs: list[tuple[int, ...]]) -> bool:
    """Whether the last axis and the one before it, which is reduced, are a single axis of what is
    read, except for rows that are all the same, and nothing but the results of reductions is
    written.
    """
    row, column = order[-2:]
    size = size_of(group.domain)
    return (
        any(each[row] for each in runs)
        and row in (group.reduced or ())
        and not is_symbolic(size)
        and group.domain[row] >= LANES
        and all(each[row] in (0, each[column] * group.domain[column]) for each in runs)
        and all(size_of(step.shape) != size for step in group.outputs)
    )


def _forward(
    lengths: tuple[int, ...], strides: list[tuple[int, ...]], in_memory: int, fixed: list[bool]
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Reverses the axes along which most operands in memory run backwards, except fixed ones.
    Returns where each operand then begins, and its strides.
    """
    flipped = [
        not fixed[axis]
        and sum((each[axis] > 0) - (each[axis] < 0) for each in strides[:in_memory]) < 0
        for axis in range(len(lengths))
    ]
    offsets = [
        sum(
            stride * (length - 1)
            for length, stride, flip in zip(lengths, each, flipped, strict=True)
            if flip
        )
        for each in strides
    ]
    forward = [
        tuple(-stride if flip else stride for stride, flip in zip(each, flipped, strict=True))
        for each in strides
    ]
    return offsets, forward


def reads_rows_again(group: Group) -> bool:
    """Whether some element of a row depends on a reduction of that row."""
    if not group.by_rows:
        return False
    later: set[Step] = set()
    for step in group.steps:
        if isinstance(step.op, Reduce) or not later.isdisjoint(step.inputs):
            later.add(step)
    return any(size_of(step.shape) == size_of(group.domain) for step in later)


def _joined(
    lengths: tuple[int, ...],
    kinds: list[int],
    strides: list[tuple[int, ...]],
    boundaries: Collection[int],
) -> list[list[int]]:
    """Groups of neighbouring axes of one kind that every operand traverses as a single axis."""
    groups: list[list[int]] = []
    for axis in range(len(lengths)):
        joins = (
            axis > 0
            and axis not in boundaries
            and kinds[axis] == kinds[axis - 1]
            and all(provably_equal(each[axis - 1], each[axis] * lengths[axis]) for each in strides)
        )
        if joins:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups
