"""What the groups of a schedule read and write, and an order in which they can run."""

from __future__ import annotations

import heapq

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
                writer = group_of.get(source)
                if writer is not group:
                    inputs[source] = None
                    if writer is not None:
                        written[source] = None
        group.inputs = list(inputs)
    for step in written:
        group_of[step].outputs.append(step)


def in_order(tape: Tape, groups: list[Group], group_of: dict[Step, Group]) -> list[Group]:
    """The groups in topological order, otherwise in the order of the tape; those that communication
    waits for come first, and what waits for communication comes last.
    """
    position = tape.numbers()
    rank = {group: position[group.steps[-1]] for group in groups}
    if any(issubclass(kind, (Begin, Finish)) for kind in tape.kinds):
        for group, phase in _phases(groups, group_of, position).items():
            rank[group] += phase * len(position)
    at_rank = {number: group for group, number in rank.items()}
    users: dict[Group, list[Group]] = {group: [] for group in groups}
    waiting: dict[Group, int] = {}
    ready: list[int] = []
    for group in groups:
        needed = {group_of[step] for step in group.inputs if step in group_of}
        waiting[group] = len(needed)
        for other in needed:
            users[other].append(group)
        if not needed:
            ready.append(rank[group])
    heapq.heapify(ready)
    ordered: list[Group] = []
    while ready:
        group = at_rank[heapq.heappop(ready)]
        ordered.append(group)
        for user in users[group]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, rank[user])
    assert len(ordered) == len(groups), "groups depend on each other in a circle"
    return ordered


def _phases(
    groups: list[Group], group_of: dict[Step, Group], position: dict[Step, int]
) -> dict[Group, int]:
    """When groups should run, beside communication that others overlap with: 0 for what the first
    one to begin needs, 1 for the second and so on, then what none needs, and their ends last.

    The backward pass of a model, whose gradients are summed over processes in several buckets, is
    thus computed up to the first bucket, and goes on while that is summed.
    """
    begins = [step for step in group_of if isinstance(step.op, Begin)]
    begins.sort(key=position.__getitem__)
    phase: dict[Group, int] = {}
    for number, begin in enumerate(begins):
        needed = [group_of[begin]]
        while needed:
            group = needed.pop()
            if group not in phase:
                phase[group] = number
                needed += [group_of[source] for source in group.inputs if source in group_of]
    for group in groups:
        waits = any(isinstance(step.op, Finish) for step in group.steps)
        phase.setdefault(group, len(begins) + waits)
    return phase
