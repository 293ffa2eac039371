"""Sparse updates: tables of which only the rows that a gradient touches are updated.

The gradient of a lookup in a table is zero except in the rows that were looked up (`SparseSum`).
Some updates leave all other rows as they are: those of plain gradient descent, Adagrad and RMSprop,
not those of Adam, of momentum or of weight decay. They are computed for the rows that were looked
up, which then replace those of the table, in place if the caller donates it. The results have the
same bits, except that the sign of a zero may differ, and that a learning rate or an accumulator
which is not finite reaches only these rows.

What depends on such a gradient must be maps of the table's shape. Each is zero where the gradient
is zero, or equals the table there, or is anything else that only the former two read. What the
program returns must equal the table there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.lower.domain import immediate_value
from ingot.compiler.options import Options, SparseUpdate
from ingot.graph.dtype import int32
from ingot.graph.op import Op
from ingot.graph.roles import Map, SparseSum
from ingot.tuning_rows import MIN_SPARSE_ROW, MIN_SPARSE_SHARE, MIN_SPARSE_TABLE

__all__ = ["sparse_updates"]


def sparse_updates(tape: Tape, options: Options) -> Tape:
    """The tape with sparse updates where they pay."""
    if options.sizes is not None or not any(issubclass(kind, SparseSum) for kind in tape.kinds):
        return tape
    for gradient in tape.steps:
        if not _is_sparse(gradient):
            continue
        update = _Update(tape, gradient)
        if update.is_sparse():
            tape = update.rewritten()
            options.report.sparse += update.described()
    return tape


def _is_sparse(step: Step) -> bool:
    """Whether a step is a gradient of zeros but for few rows, of those of a large table."""
    if not isinstance(step.op, SparseSum):
        return False
    base, _, *indices = step.inputs
    value = immediate_value(base)
    found = step.op.selects(step.shape, indices[0].shape)
    if found is None or value is None or value[0] != 0:
        return False
    selected, rows, width = found
    return (
        0 < selected * MIN_SPARSE_SHARE <= rows
        and width >= MIN_SPARSE_ROW
        and rows * width >= MIN_SPARSE_TABLE
    )


class _Update:
    """What depends on one gradient."""

    def __init__(self, tape: Tape, gradient: Step) -> None:
        self.tape = tape
        self.gradient = gradient
        assert isinstance(gradient.op, SparseSum)
        self.op = gradient.op
        _, self.updates, *self.indices = gradient.inputs
        self.live_out = set(tape.outputs)
        self.dependents: list[Step] = []
        self.table_of: dict[Step, Step] = {}  # what a dependent equals where the gradient is zero
        self.steps: list[Step] = []  # new ones
        self.made: dict[Any, Step] = {}

    def is_sparse(self) -> bool:
        """Whether all outputs that depend on the gradient equal tables where it is zero."""
        found = self._depending()
        if not found:
            return False
        self.dependents = found
        zero, dropped = {self.gradient}, {self.gradient, *found}
        for step in found:
            are_zero = [source in zero for source in step.inputs]
            assert isinstance(step.op, Map)
            if step.op.is_zero(are_zero, *step.inputs):
                zero.add(step)
                continue
            for number in step.op.neutral_at:
                other = step.inputs[1 - number]
                if are_zero[number] and (other not in dropped or other in self.table_of):
                    self.table_of[step] = self.table_of.get(other, other)
        outputs = self.live_out.intersection(found)
        return self.gradient not in self.live_out and outputs <= self.table_of.keys()

    def _depending(self) -> list[Step]:
        """The steps that depend on the gradient, in order; none if some are not maps of its
        shape.
        """
        found: set[Step] = set()
        pending = [self.gradient]
        while pending:
            for user in self.tape.users[pending.pop()]:
                if not isinstance(user.op, Map) or user.shape != self.gradient.shape:
                    return []
                if user not in found:
                    found.add(user)
                    pending.append(user)
        numbers = self.tape.numbers()
        return sorted(found, key=numbers.__getitem__)

    def rewritten(self) -> Tape:
        """The tape with rows of the dependents instead of these."""
        numbers = self.tape.numbers()
        for step in self.tape.steps[: numbers[self.dependents[-1]]]:
            if step.inputs[1:] == tuple(self.indices):  # perhaps the lookup of the same rows
                self.made[repr(step.op), step.inputs] = step
        row_of = {self.gradient: self._sums()}
        replaced: dict[Step, Step] = {}
        for step in self.dependents:
            for source in step.inputs:
                if source not in row_of:
                    row_of[source] = self.op.selected(self._build, source, *self.indices)
            inputs = [row_of[source] for source in step.inputs]
            assert step.op is not None
            row_of[step] = self._build(step.op, *inputs)
            if step in self.live_out:
                table = self.table_of[step]
                replaced[step] = self.op.replaced(self._build, table, row_of[step], *self.indices)
        dropped = {self.gradient, *self.dependents}
        steps: list[Step] = []
        for step in self.tape.steps:
            if step is self.dependents[-1]:  # all inputs of the new steps precede it
                steps += self.steps
            if step not in dropped:
                steps.append(step)
        outputs = [replaced.get(step, step) for step in self.tape.outputs]
        return self.tape.with_steps(steps, outputs)

    def _sums(self) -> Step:
        zeros = (self._zero(self.updates.dtype), self._zero(int32))
        shape = self.gradient.shape
        return self.op.selected_sums(self._build, zeros, shape, self.updates, *self.indices)

    def _zero(self, dtype: Any) -> Step:
        zero = Step(None, (), (), dtype, value=np.zeros((), dtype.numpy))
        self.steps.append(zero)
        return zero

    def _build(self, op: Op, *inputs: Step) -> Step:
        identity = (repr(op), inputs)
        found = self.made.get(identity)
        if found is None:
            if op.is_no_op(*inputs):
                return inputs[0]
            shape, dtype = op.infer(*inputs)
            stream, source = self.gradient.stream, self.gradient.source
            found = self.made[identity] = Step(op, inputs, shape, dtype, stream, source)
            self.steps.append(found)
        return found

    def described(self) -> list[SparseUpdate]:
        """What `explain` says about it."""
        found = self.op.selects(self.gradient.shape, self.indices[0].shape)
        assert found is not None
        return [
            SparseUpdate(self.gradient.source, *found[:2])
            for step in self.dependents
            if step in self.live_out
        ]
