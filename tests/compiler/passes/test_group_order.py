"""What groups read and write, and in which order they run."""

from __future__ import annotations

from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.passes.group_order import connect, in_order
from ingot.graph.dtype import float32
from ingot.ops.elementwise.arithmetic import Add
from ingot.ops.elementwise.exponential import Exp


def test_groups_follow_what_they_read() -> None:
    x = Step(None, (), (3,), float32)
    first = Step(Exp(), (x,), (3,), float32)
    second = Step(Exp(), (first,), (3,), float32)
    third = Step(Add(), (second, x), (3,), float32)
    tape = Tape([x], [third], [x, first, second, third], {})
    groups = [Group("fused", [third]), Group("fused", [first, second])]
    group_of = {step: group for group in groups for step in group.steps}
    connect(tape, groups, group_of)
    assert groups[0].inputs == [second, x]
    assert groups[1].outputs == [second]  # not the first, which nothing else reads
    assert in_order(tape, groups, group_of) == [groups[1], groups[0]]
