"""Domains: which elements a fused group has, and where its operands have theirs in memory.

Comes in: a group, and the strides of what it reads and writes. Goes out: a `Domain`, the axes that
loops go along, and `Operand`s with a stride for each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ingot._native import Dtype
from ingot.compiler.forms.schedule import Group, inputs_at_place
from ingot.compiler.forms.size import surely_equal
from ingot.compiler.forms.tape import Step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.reduction_order import inner_axes
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
    strides in bytes. For positions, which are not in memory, there is no argument, and the strides
    are by how much they grow.

    `strides` has an entry for each axis of the group's domain; for values with one element a row,
    those of the reduced axes are 0. Where a reduction begins at the end of an axis, `offset` leads
    there, and the strides lead back.
    """

    step: Step
    argument: int | None
    dtype: Dtype
    strides: tuple[int, ...]
    offset: int = 0  # of the element at which the loops begin


@dataclass(frozen=True)
class Domain:
    """The axes of a group's elements, outermost first, without those of length 1. The `inner` ones
    of the reduced axes are what `graph/numerics/reduction_order.py` calls so. `axes` says which of
    the group's own axes each one joins.
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
    """What a kernel reads from and writes to memory, the positions that it counts, and what it
    reads by index.
    """

    reads: list[Operand]
    gathers: dict[Step, Operand]  # by the step that reads it
    writes: list[Operand]
    counts: list[Operand]


def operands_of(
    group: Group,
    strides_of: dict[Step, tuple[int, ...]],
    boundaries: Collection[int] = (),
    apart: Collection[int] = (),
) -> tuple[Domain, Operands]:
    """The collapsed domain of a group with its operands. Scalars that are constants are none. Axes
    at `boundaries` are not joined with those before them, nor axes of the group that are in `apart`
    with others.
    """
    taken = {source for step in group.steps for source in inputs_at_place(step)}
    plain = [step for step in group.inputs if step in taken and not is_immediate(step)]
    reads = [step for step in plain if not isinstance(step.op, Iota)]
    counts = [step for step in plain if isinstance(step.op, Iota)]
    gathers = [step for step in group.steps if isinstance(step.op, Gather)]
    # the step whose memory it is, the shape that is traversed, the strides along that
    rows: list[tuple[Step, tuple[int, ...], tuple[int, ...]]] = [
        *((step, step.shape, strides_of[step]) for step in reads),
        *((step.inputs[0], step.shape, _gathered_strides(step, strides_of)) for step in gathers),
        *((step, step.shape, strides_of[step]) for step in group.outputs),
        *((step, step.shape, _count_steps(step)) for step in counts),
    ]
    spread = [_over_domain(shape, strides, group) for _, shape, strides in rows]
    in_memory = len(rows) - len(counts)
    order = _natural_order(group, spread[:in_memory])
    reduced = group.reduced or ()
    in_order = depends_on_order(group)
    if in_order:
        order = _with_sorted(order, reduced)
    spread = [tuple(strides[axis] for axis in order) for strides in spread]
    ordered = tuple(group.domain[axis] for axis in order)
    offsets = [0] * len(rows)
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
        [next(operands) for _ in counts],
    )
    return domain, found


def depends_on_order(group: Group) -> bool:
    """Whether it shows in the results in which order a group combines elements."""
    return any(isinstance(step.op, Reduce) and step.op.depends_on_order() for step in group.steps)


def _with_sorted(order: list[int], reduced: tuple[int, ...]) -> list[int]:
    """An order of axes in which the reduced ones take their own positions by their numbers."""
    remaining = iter(sorted(reduced))
    return [next(remaining) if axis in reduced else axis for axis in order]


def _kind(axis: int, reduced: Sequence[int], inner: Sequence[int], apart: Collection[int]) -> int:
    """Whether an axis is kept (0), kept and apart (3), reduced (1), or an inner one of the reduced
    (2).
    """
    if axis in reduced:
        return 2 if axis in inner else 1
    return 3 if axis in apart else 0


def _domain(
    lengths: tuple[int, ...], kinds: list[int], axes: tuple[tuple[int, ...], ...]
) -> Domain:
    """The domain of axes of these kinds. Where the order is free there are no inner ones; then the
    last reduced one is.
    """
    reduced = tuple(axis for axis, kind in enumerate(kinds) if kind in (1, 2))
    inner = tuple(axis for axis, kind in enumerate(kinds) if kind == 2)
    return Domain(lengths, reduced, inner or reduced[-1:], axes)


def _gathered_strides(step: Step, strides_of: dict[Step, tuple[int, ...]]) -> tuple[int, ...]:
    assert isinstance(step.op, Gather)
    return step.op.moved_strides(strides_of[step.inputs[0]])


def _count_steps(step: Step) -> tuple[int, ...]:
    assert isinstance(step.op, Iota)
    return step.op.steps


def is_immediate(step: Step) -> bool:
    """Whether a step is one constant number, whatever its shape."""
    return immediate_value(step) is not None


def immediate_value(step: Step) -> np.ndarray | None:
    """The one element of a constant, also seen through views; None if there are several, or it is
    no constant.
    """
    while isinstance(step.op, View):
        step = step.inputs[0]
    if step.value is None or step.value.size != 1:
        return None
    return step.value.reshape(-1)


def _over_domain(shape: tuple[int, ...], strides: tuple[int, ...], group: Group) -> tuple[int, ...]:
    """Strides along the axes of the domain: a value of one element a row does not move along the
    reduced ones.
    """
    longer = [stride for length, stride in zip(shape, strides, strict=True) if length != 1]
    if len(longer) == len(group.domain):
        return tuple(longer)
    kept = iter(longer)
    reduced = group.reduced or ()
    return tuple(0 if axis in reduced else next(kept) for axis in range(len(group.domain)))


def _natural_order(group: Group, strides: list[tuple[int, ...]]) -> list[int]:
    """The axes of a group's domain in the order of its reductions' loops: as they lie in memory,
    the longest strides first. Where rows are traversed again with what they were reduced to, the
    reduced axes stay last; so they do where what is kept of each is too short for vectors.
    Maps keep their order, which is that of what they write.
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
        and all(abs(each[order[-2]]) < CACHE_LINE for each in strides)
    ):
        first = next(position for position, axis in enumerate(order) if axis in reduced)
        order.insert(first, order.pop())
    return order


def _forward(
    lengths: tuple[int, ...], strides: list[tuple[int, ...]], in_memory: int, fixed: list[bool]
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Turns the axes round, but for fixed ones, along which most operands in memory run backwards:
    where each operand then begins, and its strides.
    """
    turned = [
        not fixed[axis]
        and sum((each[axis] > 0) - (each[axis] < 0) for each in strides[:in_memory]) < 0
        for axis in range(len(lengths))
    ]
    offsets = [
        sum(
            stride * (length - 1)
            for length, stride, turn in zip(lengths, each, turned, strict=True)
            if turn
        )
        for each in strides
    ]
    forward = [
        tuple(-stride if turn else stride for stride, turn in zip(each, turned, strict=True))
        for each in strides
    ]
    return offsets, forward


def reads_rows_again(group: Group) -> bool:
    """Whether some element of a row needs what the row was reduced to."""
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
    """Neighbouring axes of one kind that every operand traverses as one, together."""
    groups: list[list[int]] = []
    for axis in range(len(lengths)):
        joins = (
            axis > 0
            and axis not in boundaries
            and kinds[axis] == kinds[axis - 1]
            and all(surely_equal(each[axis - 1], each[axis] * lengths[axis]) for each in strides)
        )
        if joins:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups
