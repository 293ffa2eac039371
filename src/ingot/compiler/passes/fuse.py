"""Fusion: partitions the steps of a tape into groups, each of which becomes one kernel.

All steps of a group iterate over one domain, a shape. Maps compute an element for each point of it,
or one for each row; a reduction along rows turns the former into the latter, and a broadcast back,
so that softmax and layer norm are one group each. Reductions over other axes end a group. Views
(transposes, slices, broadcasts of values in memory) cost nothing: their readers compute addresses.
All other steps (matrix products, sorting) stay on their own.

Groups must not depend on each other in a cycle. So each group has a level: a value that is written
at level n can be read by other groups from level n + 1 on, and a step joins a group of its inputs
only at the highest of their levels, to which groups that nothing outside reads yet are raised. A
path that leaves a group therefore leads to higher levels and never back. One pass over the tape
suffices.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.schedule import (
    Group,
    Scanned,
    Schedule,
    elementwise_inputs,
    gathers,
    without_ones,
)
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options
from ingot.compiler.passes.columns_apart import columns_apart
from ingot.compiler.passes.fuse_products import with_epilogues
from ingot.compiler.passes.group_order import connect, in_order
from ingot.compiler.passes.late_casts import single_reader
from ingot.compiler.passes.open_group import OpenGroup
from ingot.compiler.passes.rematerialise import rematerialise
from ingot.graph.roles import (
    Assemble,
    Check,
    Gather,
    Host,
    Iota,
    Map,
    Product,
    Reduce,
    Scan,
    Scatter,
    View,
)
from ingot.graph.roles.view import behind_views
from ingot.graph.shape import size_of
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import product_engine
from ingot.runtime.progress import working
from ingot.tuning import (
    MAX_PARTS,
    MAX_ROW_ELEMENTS,
    MIN_ROWS,
)
from ingot.tuning_rows import (
    MAX_SCAN_ALONE,
    MIN_SCANNED_COLUMNS,
    MIN_SCANNED_ROWS,
    SCAN_CHUNK,
)

__all__ = ["fuse", "runs_by_rows"]


class _Fuser:
    def __init__(self, tape: Tape, symbolic: bool) -> None:
        self.tape = tape
        self.symbolic = symbolic  # comparing symbolic sizes would add conditions on shapes
        self.group_of: dict[Step, OpenGroup] = {}
        self.available: dict[Step, int] = {}  # the first level that can read a step
        self.singles: dict[Step, Group] = {}
        self.readers: dict[tuple[Step, int], list[OpenGroup]] = {}  # of large values, by level
        # casts and assembled values that are to join the group of their only reader
        self.waiting: set[Step] = set()
        self.users = tape.users
        self.live_out = set(tape.outputs)

    def run(self) -> list[Group]:
        for step in self.tape.steps:
            match step.op:
                case None:
                    self.available[step] = 0
                case Map():
                    self._map(step)
                case View() as op:
                    self._view(step, op)
                case Reduce() as op:
                    self._reduce(step, op)
                case Scan() as op:
                    self._scan(step, op)
                case Gather():
                    self._join(step, without_ones(step.shape))
                case Scatter():
                    self._single(step, kind="scatter")
                case Assemble() as op:
                    self._assemble(step, op)
                case Iota():
                    self._iota(step)
                case Check():
                    self._check(step)
                case Host() as op:
                    self._single(step, op.why_host)
        return self._groups()

    # How steps join groups, by role

    def _map(self, step: Step) -> None:
        if step not in self.live_out and single_reader(step, self.users[step]):
            self.waiting.add(step)
        else:
            self._join(step, without_ones(step.shape))

    def _reduce(self, step: Step, op: Reduce) -> None:
        source = step.inputs[0]
        domain = without_ones(source.shape)
        positions = _positions(source.shape, op.axes)
        if not positions or size_of(domain) == 0:
            self._single(step, "there is nothing to reduce")
            return
        self._join(step, domain, positions)

    def _scan(self, step: Step, op: Scan) -> None:
        """Scans join the maps before them. Another scan that depends on one in the group does not
        join, because its elements would have to wait for whole rows of the first.
        """
        if self.symbolic or not scans_in_kernels(step, op):
            self._single(step, op.why_host)
            return
        domain = without_ones(step.shape)
        (axis,) = _positions(step.shape, (op.axis,))
        self._join(step, domain, scanned=Scanned(axis, op.reverse))

    def _view(self, step: Step, op: View) -> None:
        source = step.inputs[0]
        group = self.group_of.get(source)
        if group is not None:
            is_row, is_finished = source in group.row_steps, source in group.finished
            if op.keeps_order and without_ones(step.shape) == without_ones(source.shape):
                self._add(group, step, is_row, is_finished)
                return
            if is_row and op.broadcasts and _spreads(step, group):
                self._add(group, step)
                return
        self._read(source)
        self.singles[step] = Group("view", [step])
        self.available[step] = self._readable(source)

    def _assemble(self, step: Step, op: Assemble) -> None:
        if self._is_read_in_parts(step, op):
            for source in step.inputs:
                self._settle(source)
                self._read(source)
            self.waiting.add(step)
            return
        if op.disjoint and not self.symbolic and len(step.inputs) <= MAX_PARTS:
            self._unite_writers(step)
        self._single(step, kind="assemble")

    def _is_read_in_parts(self, step: Step, op: Assemble) -> bool:
        """Whether the one map that reads an assembled value should read its parts instead: those
        that are in memory already would have to be copied, and they are at least half of it.
        """
        users = set(self.users[step])
        if self.symbolic or step in self.live_out or len(users) != 1:
            return False
        if len(step.inputs) > MAX_PARTS or op.boxes(*step.inputs) is None:
            return False
        copied = sum(x.nbytes for x in set(step.inputs) if not self._is_written_there(x, op))
        return isinstance(users.pop().op, Map) and 2 * copied >= step.nbytes

    def _is_written_there(self, source: Step, op: Assemble) -> bool:
        """Whether a map computes an input of an assembled value, and can write it there."""
        group = self.group_of.get(source)
        if not op.disjoint or group is None:
            return False
        return group.reduced is None and group.scanned is None

    def _unite_writers(self, step: Step) -> None:
        """Merges groups that write parts of one value, which often read the same values."""
        merged: OpenGroup | None = None
        for group in map(self.group_of.get, step.inputs):
            if group is None or group is merged:
                continue
            if group.reduced is not None or group.scanned is not None:
                continue
            if merged is None:
                merged = group
                continue
            level = max(merged.level, group.level)
            fixed = [each.level for each in (merged, group) if each.is_read]
            if fixed.count(level) == len(fixed) and merged.can_absorb(group):
                merged.level = group.level = level
                merged = self._united(merged, group)

    def _check(self, step: Step) -> None:
        for source in step.inputs:
            self._read(source)
        self.available[step] = max(map(self._readable, step.inputs))
        self.singles[step] = Group("check", [step])

    def _iota(self, step: Step) -> None:
        self.singles[step] = Group("iota", [step])
        self.available[step] = 0

    def _single(self, step: Step, reason: str = "", kind: str = "single") -> None:
        for source in step.inputs:
            self._settle(source)
            self._read(source)
        level = max((self._readable(source) for source in step.inputs), default=0)
        self.available[step] = level + 1
        self.singles[step] = Group(kind, [step], reason=reason)

    def _join(
        self,
        step: Step,
        domain: tuple[int, ...],
        reduced: tuple[int, ...] | None = None,
        scanned: Scanned | None = None,
    ) -> None:
        """Adds a map, reduction or scan to the group of its inputs if possible, else to another
        one.
        """
        direct: Sequence[Step] = elementwise_inputs(step)
        pending: Sequence[Step] = ()
        elsewhere = list(step.inputs[:1]) if gathers(step) else []
        if self.waiting:
            direct, pending = self._behind_pending(direct)
            for each in pending:
                if isinstance(each.op, Assemble):
                    elsewhere += each.inputs
        products = self._products(direct)
        joinable: list[OpenGroup] = []
        for source in direct:
            group = self.group_of.get(source)
            if group is None or group in joinable or not group.can_read(products):
                continue
            if self._fits(source, group, domain, reduced, scanned):
                joinable.append(group)
        level = self._level(direct, elsewhere, joinable)
        merged = self._merged(joinable, level)
        large = _large(direct, domain)
        if merged is None:
            level = self._level(direct, elsewhere)
            merged = self._sharing_group(large, level, domain, reduced, scanned)
            if not merged.can_read(products):
                merged = OpenGroup(domain, level)
        merged.products |= products
        for source in large:
            readers = self.readers.setdefault((source, merged.level), [])
            if not readers or readers[-1] is not merged:
                readers.append(merged)
        for source in (*elsewhere, *direct):
            self._read(source, merged)
        for each in pending:
            self._add(merged, each, is_row=domain != merged.domain)
        if reduced is not None:
            by_rows = runs_by_rows(domain, reduced)
            merged.reduced, merged.by_rows = reduced, by_rows
            self._add(merged, step, is_row=by_rows, is_finished=not by_rows)
        elif scanned is not None:
            merged.scanned = scanned
            self._add(merged, step)
        else:
            self._add(merged, step, is_row=domain != merged.domain)

    def _products(self, sources: Sequence[Step]) -> set[Step]:
        """The matrix products among values and what they are views of."""
        found: set[Step] = set()
        for source in sources:
            if source not in self.group_of:  # of groups of maps and reductions
                behind = behind_views(source)
                if isinstance(behind.op, Product):
                    found.add(behind)
        return found

    def _level(
        self, direct: Sequence[Step], elsewhere: Sequence[Step], joined: Sequence[OpenGroup] = ()
    ) -> int:
        """The lowest level at which a group can read values, those in `joined` groups from inside
        of these.
        """
        level = 0
        for source in direct:
            group = self.group_of.get(source)
            inside = group is not None and group in joined
            level = max(level, self._readable(source) - inside)
        return max(level, *map(self._readable, elsewhere)) if elsewhere else level

    def _merged(self, groups: list[OpenGroup], level: int) -> OpenGroup | None:
        """The groups of a level, to which those that nothing outside reads are raised, as one; None
        if there are none or they cannot be merged.
        """
        merged: OpenGroup | None = None
        for group in map(OpenGroup.final, groups):  # an earlier one may have absorbed it
            if not group.is_read:
                group.level = level
            if group.level != level or group is merged:
                continue
            if merged is None:
                merged = group
            elif merged.can_absorb(group):
                merged = self._united(merged, group)
            else:
                return None
        return merged

    def _behind_pending(self, inputs: Sequence[Step]) -> tuple[list[Step], list[Step]]:
        """The inputs with pending casts looked through and without pending assembled values, and
        both of these, which are no longer pending.
        """
        found: list[Step] = []
        pending: list[Step] = []
        for source in inputs:
            while source in self.waiting or source in pending:
                if source in self.waiting:
                    self.waiting.remove(source)
                    pending.append(source)
                if isinstance(source.op, Assemble):
                    break
                source = source.inputs[0]
            else:
                found.append(source)
        return found, pending

    def _settle(self, step: Step) -> None:
        """Gives a pending cast a group after all, because its result must be in memory."""
        if step in self.waiting:
            self.waiting.remove(step)
            self._join(step, without_ones(step.shape))

    def _sharing_group(
        self,
        large: list[Step],
        level: int,
        domain: tuple[int, ...],
        reduced: tuple[int, ...] | None,
        scanned: Scanned | None,
    ) -> OpenGroup:
        """A group that reads one of the same large values at the same level, or else a new one."""
        for source in large:
            for group in self._open_readers((source, level)):
                if group.can_join(domain, reduced, scanned):
                    return group
        return OpenGroup(domain, level)

    def _open_readers(self, index: tuple[Step, int]) -> list[OpenGroup]:
        """The groups that read a value at a level and are not full."""
        found = {id(group): group for group in map(OpenGroup.final, self.readers.get(index, ()))}
        self.readers[index] = [group for group in found.values() if not group.is_full]
        return self.readers[index]

    def _fits(
        self,
        source: Step,
        group: OpenGroup,
        domain: tuple[int, ...],
        reduced: tuple[int, ...] | None,
        scanned: Scanned | None,
    ) -> bool:
        """Whether a step over the domain can run inside the group of its input `source`."""
        if source in group.finished or group.is_full:
            return False
        if scanned is not None and source in group.scanned_steps:
            return False
        if source in group.row_steps:
            return reduced is None and domain == group.rows_shape()
        return group.can_join(domain, reduced, scanned)

    # Book-keeping

    def _readable(self, step: Step) -> int:
        """The lowest level at which a group can read `step` from memory."""
        group = self.group_of.get(step)
        return self.available[step] if group is None else group.level + 1

    def _read(self, step: Step, reader: OpenGroup | None = None) -> None:
        """Notes that something outside a step's group reads it."""
        group = self.group_of.get(step)
        if group is not None and group is not reader:
            group.is_read = True

    def _add(
        self, group: OpenGroup, step: Step, is_row: bool = False, is_finished: bool = False
    ) -> None:
        group.add(step, is_row, is_finished)
        self.group_of[step] = group

    def _united(self, group: OpenGroup, other: OpenGroup) -> OpenGroup:
        if len(group.steps) < len(other.steps):
            group, other = other, group
        group.absorb(other)
        for step in other.steps:
            self.group_of[step] = group
        return group

    def _groups(self) -> list[Group]:
        position = self.tape.numbers()
        group_of: dict[Step, Group] = dict(self.singles)
        for grown in {id(each): each for each in self.group_of.values()}.values():
            grown.steps.sort(key=position.__getitem__)
            group = _closed(grown)
            for step in grown.steps:
                group_of[step] = group
        groups = list({id(group): group for group in group_of.values()}.values())
        connect(self.tape, groups, group_of)
        return in_order(self.tape, groups, group_of)


def _closed(grown: OpenGroup) -> Group:
    """A group that no step will join any more. A large scan alone is computed on the host."""
    steps, domain = grown.steps, grown.domain
    if grown.scanned is None:
        return Group("fused", steps, [], [], domain, grown.reduced, grown.by_rows)
    step = steps[0]
    if len(steps) == 1 and size_of(domain) > MAX_SCAN_ALONE:
        assert isinstance(step.op, Scan)
        return Group("single", steps, reason=step.op.why_host)
    return Group("scan", steps, [], [], domain, scanned=grown.scanned)


def _large(sources: Sequence[Step], domain: tuple[int, ...]) -> list[Step]:
    """The sources that have an element for each point of the domain and are not views."""
    return [
        source
        for source in sources
        if not isinstance(source.op, View) and without_ones(source.shape) == domain
    ]


def _positions(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The positions of the reduced axes among the axes longer than 1."""
    longer = [axis for axis, length in enumerate(shape) if length != 1]
    return tuple(position for position, axis in enumerate(longer) if axis in axes)


def _spreads(step: Step, group: OpenGroup) -> bool:
    """Whether a broadcast repeats the single element of each row along the whole row."""
    source, target = step.inputs[0].shape, step.shape
    aligned = (1,) * (len(target) - len(source)) + source
    repeated = tuple(axis for axis, length in enumerate(aligned) if length == 1)
    return without_ones(target) == group.domain and _positions(target, repeated) == group.reduced


def scans_in_kernels(step: Step, op: Scan) -> bool:
    """Whether a kernel can compute a scan, and is as fast as native code. Where a scan leaves out
    the element itself, the results at the beginnings of chunks are not those from which the chunks
    are scanned.
    """
    length, elements = step.shape[op.axis], size_of(step.shape)
    if length <= 1 or elements == 0 or op.accumulates_in(step.dtype) is None:
        return False
    if length > SCAN_CHUNK and not op.inclusive:
        return False
    if elements <= MAX_SCAN_ALONE:
        return True
    inner = without_ones(step.shape[op.axis + 1 :])
    if inner:
        return inner[-1] >= MIN_SCANNED_COLUMNS
    return length <= SCAN_CHUNK or elements >= length * MIN_SCANNED_ROWS


def runs_by_rows(domain: tuple[int, ...], reduced: tuple[int, ...]) -> bool:
    """Whether a reduction runs row by row: over the last axes, with many rows or short ones."""
    rows = len(domain) - len(reduced)
    if reduced != tuple(range(rows, len(domain))):
        return False
    return size_of(domain[:rows]) >= MIN_ROWS or size_of(domain[rows:]) <= MAX_ROW_ELEMENTS


def fuse(tape: Tape, options: Options) -> Schedule:
    """Groups the steps of a tape."""
    working(f"fusing {len(tape.steps):,} operations")
    if options.mode is CompileMode.no_fuse:
        return _separate(tape)
    is_symbolic = options.sizes is not None
    groups = _Fuser(tape, is_symbolic).run()
    if not is_symbolic:
        tape, groups = rematerialise(tape, groups)
        groups = columns_apart(groups)
    for group in groups:
        group.excess_precision = options.excess_precision
    if product_engine() != "blas":
        groups = with_epilogues(tape, groups)
    return Schedule(tape, groups)


def _separate(tape: Tape) -> Schedule:
    """One group per step: the schedule when fusion is turned off."""
    groups = []
    for step in tape.steps:
        if step.op is not None:
            outputs = [step]
            groups.append(
                Group("single", [step], list(step.inputs), outputs, reason="fusion is off")
            )
    return Schedule(tape, groups)
