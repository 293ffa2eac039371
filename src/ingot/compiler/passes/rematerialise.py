"""Rematerialise: lets groups compute values from others in memory instead of reading them there.

The fuser adds a step to the group that has its inputs. The gradient of an activation is a product
with a derivative, whose factors depend on values of the forward pass alone: so the group of the
forward pass computes them and writes them to memory, beside the values that they are computed from.
The same holds for the parts of a normalised row, and for the statistics of rows, which the fuser
broadcasts before they are written.

Here, a value that other groups read is no longer written if they can compute it by a few
arithmetic operations from what is in memory anyway, and without reading more of it. Math functions
move to the group that reads their results, but are never computed twice. Broadcasts of rows become
views of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.compiler.forms.schedule import Group, elementwise_inputs, without_ones
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.passes.group_order import connect, in_order
from ingot.graph.roles import Elementwise, Map, Product, View
from ingot.graph.roles.view import behind_views
from ingot.tuning import (
    MAX_GROUP_STEPS,
    MAX_REMATERIALISED_STEPS,
    MIN_REMATERIALISED_BYTES,
    SMALL_SOURCE_RATIO,
)

__all__ = ["rematerialise"]


def rematerialise(tape: Tape, groups: list[Group]) -> tuple[Tape, list[Group]]:
    """The tape and its groups with fewer values in memory between groups."""
    choice = _Choice(tape, groups)
    if not (choice.repeated or choice.spread):
        return tape, groups
    return _Rebuilding(choice).rebuilt()


class _Choice:
    """Which values are no longer written, and what their readers compute instead. Earlier values
    are considered first, so that it is known of each whether those it depends on are in memory.
    """

    def __init__(self, tape: Tape, groups: list[Group]) -> None:
        self.tape = tape
        self.groups = groups
        self.users = tape.users
        self.position = tape.numbers()
        self.live_out = set(tape.outputs)
        self.group_of = {step: group for group in groups for step in group.steps}
        self.reads = {id(group): {*group.inputs} for group in groups}
        self.added: dict[int, dict[Step, None]] = {id(group): {} for group in groups}
        self.repeated: set[Step] = set()  # values that their readers compute
        self.spread: set[Step] = set()  # broadcasts of rows that become views of these
        for group in groups:
            if group.kind == "fused":
                for value in sorted(group.outputs, key=self.position.__getitem__):
                    if value not in self.live_out and value.nbytes >= MIN_REMATERIALISED_BYTES:
                        self._consider(value, group)

    def _consider(self, value: Step, group: Group) -> None:
        if self._is_row_broadcast(value, group):
            self.spread.add(value)
            return
        readers = self._readers(value, group)
        if not readers or not _is_repeatable(value) or without_ones(value.shape) != group.domain:
            return
        steps = self._steps(value, group, can_move=len(readers) == 1)
        if not steps:
            return
        sources = {source for step in steps for source in step.inputs if source not in steps}
        if not all(self._gains(value, steps, sources, reader) for reader in readers):
            return
        self.repeated.add(value)
        self.spread |= {source for source in sources if self._is_row_broadcast(source, group)}
        for reader in readers:
            self.added[id(reader)].update(dict.fromkeys(steps))
            self.reads[id(reader)] |= sources
            self.reads[id(reader)].discard(value)

    def _is_row_broadcast(self, value: Step, group: Group) -> bool:
        """Whether a value repeats the elements that a group computes for rows."""
        if not isinstance(value.op, View) or not value.op.broadcasts:
            return False
        source = value.inputs[0]
        return self.group_of.get(source) is group and source.nbytes < value.nbytes

    def _readers(self, value: Step, group: Group) -> list[Group]:
        """The other groups that read a value; none unless all read it element by element."""
        found: dict[int, Group] = {}
        for user in self.users[value]:
            reader = self.group_of[user]
            if reader is group:
                continue
            if reader.kind != "fused" or reader.domain != group.domain:
                return []
            if value not in elementwise_inputs(user):
                return []
            found[id(reader)] = reader
        return list(found.values())

    def _steps(self, value: Step, group: Group, can_move: bool) -> dict[Step, None]:
        """The steps that compute a value from others in memory, in order; none if they are too many
        or would compute math functions twice.
        """
        found = {value}
        waiting = [value]
        while waiting:
            for source in waiting.pop().inputs:
                if source in found or self._is_in_memory(source, group):
                    continue
                if not _is_repeatable(source) or len(found) == MAX_REMATERIALISED_STEPS:
                    return {}
                found.add(source)
                waiting.append(source)
        steps = sorted(found, key=self.position.__getitem__)
        moved: set[Step] = set()  # no longer computed by the group itself
        for step in reversed(steps):
            is_unread = step is value or step not in group.outputs
            inside = [user for user in self.users[step] if self.group_of[user] is group]
            if is_unread and moved.issuperset(inside):
                moved.add(step)
            elif _is_math_function(step):
                return {}
        if not can_move and any(map(_is_math_function, steps)):
            return {}
        return dict.fromkeys(steps)

    def _is_in_memory(self, source: Step, group: Group) -> bool:
        """Whether the readers of a group can read a value that the group reads or computes."""
        if self.group_of.get(source) is not group:
            return True
        if self._is_row_broadcast(source, group):
            return True  # as a view of rows
        return source in group.outputs and source not in self.repeated

    def _gains(
        self, value: Step, steps: dict[Step, None], sources: set[Step], reader: Group
    ) -> bool:
        """Whether a group does not read more than now. What a matrix product becomes the epilogue
        of must stay the only one to read it.
        """
        if len(reader.steps) + len(self.added[id(reader)]) + len(steps) > MAX_GROUP_STEPS:
            return False
        large = [
            source
            for source in sources - self.reads[id(reader)]
            if behind_views(source).nbytes * SMALL_SOURCE_RATIO > value.nbytes
        ]
        if any(isinstance(behind_views(source).op, Product) for source in large):
            return False
        return sum(source.nbytes for source in large) <= value.nbytes


def _is_repeatable(step: Step) -> bool:
    """Whether a step is arithmetic of corresponding elements."""
    op = step.op
    return isinstance(op, Elementwise) or (isinstance(op, Map) and op.upcasts(*step.inputs))


def _is_math_function(step: Step) -> bool:
    return step.op is not None and bool(step.op.approximate)


class _Rebuilding:
    """The tape and the groups after a choice."""

    def __init__(self, choice: _Choice) -> None:
        self.choice = choice
        self.replaced: dict[Step, Step] = {}
        self.views: dict[Step, Step] = {}  # of rows, by the broadcasts that they replace
        self.copies: dict[tuple[int, Step], Step] = {}  # of steps, by the group that repeats them
        self.steps: list[Step] = []
        self.group_of: dict[Step, Group] = {}

    def rebuilt(self) -> tuple[Tape, list[Group]]:
        """The new tape, without the steps that nothing needs, and its groups in order."""
        tape = self.choice.tape
        groups = {id(group): replace(group, steps=[], outputs=[]) for group in self.choice.groups}
        for step in tape.steps:
            group = self.choice.group_of.get(step)
            if group is None:
                self.replaced[step] = self._kept(step.with_inputs(self._inputs(step, None)))
                continue
            for source in step.inputs:
                self._repeat(source, group, groups)
            made = self._kept(step.with_inputs(self._inputs(step, group)))
            self.replaced[step] = made
            self.group_of[made] = groups[id(group)]
        outputs = [self.replaced[step] for step in tape.outputs]
        changed = tape.with_steps(self.steps, outputs)
        group_of = {step: self.group_of[step] for step in changed.steps if step in self.group_of}
        for step, group in group_of.items():
            group.steps.append(step)
        found = list({id(group): group for group in group_of.values()}.values())
        connect(changed, found, group_of)
        return changed, in_order(changed, found, group_of)

    def _kept(self, step: Step) -> Step:
        self.steps.append(step)
        return step

    def _inputs(self, step: Step, group: Group | None) -> Sequence[Step]:
        """The inputs of a step of a group, as the group has them now."""
        choice = self.choice
        found = []
        for source in step.inputs:
            is_elsewhere = group is not None and choice.group_of.get(source) is not group
            if is_elsewhere and (id(group), source) in self.copies:
                found.append(self.copies[id(group), source])
            elif is_elsewhere and source in self.views:
                found.append(self.views[source])
            else:
                found.append(self.replaced[source])
        return found

    def _repeat(self, source: Step, group: Group, groups: dict[int, Group]) -> None:
        """Makes what stands for an input of a step of a group, if something does."""
        choice = self.choice
        if choice.group_of.get(source) is group or (id(group), source) in self.copies:
            return
        if source in choice.spread:
            if source not in self.views:
                row = self.replaced[source.inputs[0]]
                view = self._kept(_copied(source, [row]))
                self.views[source] = view
                self.group_of[view] = Group("view", [])
            return
        if source in choice.added[id(group)]:
            for each in source.inputs:
                self._repeat(each, group, groups)
            inputs = self._inputs(source, group)
            copy = self._kept(_copied(source, inputs))
            self.copies[id(group), source] = copy
            self.group_of[copy] = groups[id(group)]


def _copied(step: Step, inputs: Sequence[Step]) -> Step:
    """Another step that computes the same."""
    copy = Step(step.op, inputs, step.shape, step.dtype, step.stream, step.source)
    copy.expanded_from = step.expanded_from
    return copy
