"""What the groups of a schedule read and write, and an order in which they can run."""

from __future__ import annotations

import heapq
from typing import Any

from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step, Tape
from ingot.graph.communication.order import Begin, Finish

__all__ = ["connect", "in_order"]


def connect(tape: Tape, groups: list[Group], group_of: dict[Step, Group]) -> None:
    """Fills in which values each group reads from memory and writes to it."""
    written: dict[Step, None] = dict.fromkeys(step for step in tape.outputs if step in group_of)
    for group in groups:
        inputs: dict[Step, None] = {}
        for step in group.steps:
            for source in step.inputs:
                if group_of.get(source) is not group:
                    inputs[source] = None
                    if source in group_of:
                        written[source] = None
        group.inputs = list(inputs)
    for step in written:
        group_of[step].outputs.append(step)


def in_order(
    groups: list[Group], group_of: dict[Step, Group], position: dict[Step, int]
) -> list[Group]:
    """The groups in topological order, otherwise in the order of the tape; those that communication
    waits for come first, and what waits for communication comes last.
    """
    phase = _phases(groups, group_of, position)
    last = {id(group): (phase[id(group)], position[group.steps[-1]]) for group in groups}
    users: dict[int, list[Group]] = {id(group): [] for group in groups}
    waiting: dict[int, int] = {}
    for group in groups:
        needed = {id(group_of[step]): group_of[step] for step in group.inputs if step in group_of}
        waiting[id(group)] = len(needed)
        for other in needed.values():
            users[id(other)].append(group)
    ready: list[tuple[tuple[int, int], int, Any]] = [
        (last[id(group)], number, group)
        for number, group in enumerate(groups)
        if waiting[id(group)] == 0
    ]
    heapq.heapify(ready)
    ordered: list[Group] = []
    number = len(groups)
    while ready:
        _, _, group = heapq.heappop(ready)
        ordered.append(group)
        for user in users[id(group)]:
            waiting[id(user)] -= 1
            if waiting[id(user)] == 0:
                number += 1
                heapq.heappush(ready, (last[id(user)], number, user))
    assert len(ordered) == len(groups), "groups depend on each other in a circle"
    return ordered


def _phases(
    groups: list[Group], group_of: dict[Step, Group], position: dict[Step, int]
) -> dict[int, int]:
    """When groups should run, beside communication that others overlap with: 0 for what the first
    one to begin needs, 1 for the second and so on, then what none needs, and their ends last.

    The backward pass of a model, whose gradients are summed over processes in several buckets, is
    thus computed up to the first bucket, and goes on while that is summed.
    """
    begins = [step for step in group_of if isinstance(step.op, Begin)]
    begins.sort(key=position.__getitem__)
    phase: dict[int, int] = {}
    for number, begin in enumerate(begins):
        needed = [group_of[begin]]
        while needed:
            group = needed.pop()
            if id(group) not in phase:
                phase[id(group)] = number
                needed += [group_of[source] for source in group.inputs if source in group_of]
    for group in groups:
        waits = any(isinstance(step.op, Finish) for step in group.steps)
        phase.setdefault(id(group), len(begins) + waits)
    return phase
