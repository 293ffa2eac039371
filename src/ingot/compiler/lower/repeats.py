"""Repeats: groups that differ only in their operands are lowered once.

The layers of a network and the steps of an unrolled recurrence become many groups with the same
ops, shapes and layouts. Input: a group, and the strides of what it reads and writes. Output: the
kernels of the first equal group, with the steps of this group as operands. Groups share loop nests
and everything derived from them: text, machine code and proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from typing import Any

from ingot.compiler.forms.identity import OpIdentities
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import immediate_value
from ingot.compiler.lower.kernel import Kernel, Lowered
from ingot.compiler.lower.layout import layout_of_view
from ingot.graph.outputs import Output
from ingot.graph.roles import Iota

__all__ = ["Repeats", "Signature"]

Strides = dict[Step, tuple[int, ...]]


class Signature:
    """A group in canonical form: its steps and operands, numbered in order of first use, and a key
    that is equal for groups that differ only in which steps have these numbers.
    """

    __slots__ = ("key", "steps")

    def __init__(
        self, group: Group, strides_of: Strides, ops: OpIdentities, fixed: Collection[Step] = ()
    ) -> None:
        numbers: dict[Step, int] = {}
        described: list[Hashable] = []
        for step in group.steps:
            for source in step.inputs:
                if source not in numbers:
                    numbers[source] = len(numbers)
                    described.append(_outside(source, numbers, strides_of, ops))
            numbers[step] = len(numbers)
            described += (
                ops.of(step.op),  # type: ignore[arg-type]
                step.shape,
                step.dtype,
                strides_of.get(step),
                len(step.inputs),
                *map(numbers.__getitem__, step.inputs),
            )
        for step in strides_of:
            if step not in numbers:
                numbers[step] = len(numbers)
                described.append(_outside(step, numbers, strides_of, ops))
        same = tuple([step in fixed for step in numbers]) if fixed else ()
        self.key = (_layout(group, numbers), tuple(described), same)
        self.steps = list(numbers)


def _outside(step: Step, numbers: dict[Step, int], strides_of: Strides, ops: OpIdentities) -> Any:
    """An operand of the group, or one of the several outputs of a step. Nests contain the values of
    one-element constants and compute iotas; everything else is memory to them.
    """
    what: Hashable = None
    if step.op is None or not isinstance(step.op, (Iota, Output)):
        constant = immediate_value(step)
        what = None if constant is None else constant.tobytes()
    elif isinstance(step.op, Iota):
        what = ops.of(step.op)
    elif step.inputs[0] in numbers:
        what = (ops.of(step.op), numbers[step.inputs[0]])
    return (what, step.shape, step.dtype, strides_of.get(step))


def _layout(group: Group, numbers: dict[Step, int]) -> Hashable:
    """The properties of a group other than its steps."""
    return (
        group.kind,
        group.domain,
        group.reduced,
        group.by_rows,
        group.scanned,
        group.excess_precision,
        tuple([numbers[step] for step in group.inputs if step in numbers]),
        tuple([numbers[step] for step in group.outputs if step in numbers]),
        tuple([(len(part.steps), _layout(part, numbers)) for part in group.parts]),
    )


class Repeats:
    """The kernels of the groups of one schedule, by signature, and the layouts of its views."""

    def __init__(self) -> None:
        self._ops = OpIdentities()
        self._layouts: dict[Hashable, tuple[int, tuple[int, ...]] | None] = {}
        self._made: dict[Hashable, tuple[list[Step], Any]] = {}

    def layout(self, step: Step, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        """The layout of a view of a value with these strides, worked out once for equal views."""
        key = (self._ops.of(step.op), step.inputs[0].shape, step.dtype, strides)  # type: ignore[arg-type]
        if key not in self._layouts:
            self._layouts[key] = layout_of_view(step, strides)
        return self._layouts[key]

    def signature(
        self, group: Group, strides_of: Strides, fixed: Collection[Step] = ()
    ) -> Signature:
        """The canonical form of a group; `fixed` are values that are the same in every run."""
        return Signature(group, strides_of, self._ops, fixed)

    def lowered(self, signature: Signature, build: Callable[[], Lowered | None]) -> Lowered | None:
        """The kernels of a group, which are built if no equal group was lowered before."""
        known = self._made.get(signature.key)
        if known is None:
            found = build()
            self._made[signature.key] = (signature.steps, found)
            return found
        steps, made = known
        if made is None:
            return None
        here: dict[Step | None, Step] = dict(zip(steps, signature.steps, strict=True))
        return replace(made, kernels=[_with_steps(each, here) for each in made.kernels])

    def chosen(self, signature: Signature, choose: Callable[[], Iterable[Step]]) -> list[Step]:
        """Some of the steps of a group, which are chosen if no equal group was looked at before."""
        key = ("chosen", signature.key)
        known = self._made.get(key)
        if known is None:
            found = list(choose())
            self._made[key] = (signature.steps, found)
            return found
        steps, made = known
        if not made:
            return []
        here = dict(zip(steps, signature.steps, strict=True))
        return [here[step] for step in made]


def _with_steps(kernel: Kernel, here: dict[Step | None, Step]) -> Kernel:
    """A kernel with other steps as its operands. What its nest says about steps stays behind."""
    operands = tuple([here[x] if isinstance(x, Step) else x for x in kernel.operands])
    return Kernel(kernel.nest, operands, kernel.code_key, here)
