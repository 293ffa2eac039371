"""Open groups: the groups of a schedule while the fuser adds steps to them.

All steps of a group iterate over one domain. A group has a level, which orders it among the groups
that it reads from and those that read from it (`fuse.py`).
"""

from __future__ import annotations

from ingot.compiler.forms.schedule import Scanned
from ingot.compiler.forms.tape import Step
from ingot.graph.roles import Reduce, Scan
from ingot.graph.roles.view import behind_views
from ingot.tuning import (
    CHAINED_REDUCTION_STEPS,
    MATH_FUNCTION_STEPS,
    MAX_GROUP_PRODUCTS,
    MAX_GROUP_STEPS,
)

__all__ = ["OpenGroup"]


class OpenGroup:
    """A group that steps can still join."""

    def __init__(self, domain: tuple[int, ...], level: int) -> None:
        self.domain = domain
        self.level = level
        self.steps: list[Step] = []
        self.length = 0  # of its code, in steps
        self.row_steps: set[Step] = set()  # steps with one element per row
        self.after_rows: set[Step] = set()  # steps that depend on those
        self.finished: set[Step] = set()  # reductions whose results only other groups can read
        self.reduced: tuple[int, ...] | None = None
        self.by_rows = False
        self.scanned: Scanned | None = None
        self.scanned_steps: set[Step] = set()  # scans, and the steps that depend on them
        self.absorbed_by: OpenGroup | None = None
        self.is_read = False  # whether something outside reads a value of it, which fixes its level
        self.products: set[Step] = set()  # the matrix products that it reads

    def final(self) -> OpenGroup:
        """The group that has absorbed this one, or itself."""
        group = self
        while group.absorbed_by is not None:
            group = group.absorbed_by
        return group

    @property
    def is_full(self) -> bool:
        """Whether no further step may join."""
        return self.length >= MAX_GROUP_STEPS

    def rows_shape(self) -> tuple[int, ...] | None:
        """The shape of steps with one element per row; None without rows."""
        if self.reduced is None or not self.by_rows:
            return None
        return tuple(n for axis, n in enumerate(self.domain) if axis not in self.reduced)

    def can_join(
        self,
        domain: tuple[int, ...],
        reduced: tuple[int, ...] | None,
        scanned: Scanned | None = None,
    ) -> bool:
        """Whether a map over the domain, or a reduction or a scan of it, can join."""
        if domain != self.domain or self.is_full:
            return False
        if reduced is not None:
            return self.scanned is None and self.reduced in (None, reduced)
        if scanned is not None:
            return self.reduced is None and self.scanned in (None, scanned)
        return True

    def can_absorb(self, other: OpenGroup) -> bool:
        """Whether the two can be merged."""
        if self is other:
            return True
        if None not in (self.scanned or other.scanned, self.reduced or other.reduced):
            return False
        same_reductions = (
            self.reduced is None
            or other.reduced is None
            or ((self.reduced, self.by_rows) == (other.reduced, other.by_rows))
        )
        return (
            self.domain == other.domain
            and same_reductions
            and (None in (self.scanned, other.scanned) or self.scanned == other.scanned)
            and self.length + other.length < MAX_GROUP_STEPS
            and self.can_read(other.products)
        )

    def can_read(self, products: set[Step]) -> bool:
        """Whether the group may also read these matrix products. All products that a group reads
        are in memory at once, so a sum of many is better computed by several groups.
        """
        return not products or len(self.products | products) <= MAX_GROUP_PRODUCTS

    def absorb(self, other: OpenGroup) -> None:
        """Merges the other group into this one."""
        other.absorbed_by = self
        self.steps += other.steps
        self.length += other.length
        self.row_steps |= other.row_steps
        self.after_rows |= other.after_rows
        self.finished |= other.finished
        self.is_read |= other.is_read
        self.products |= other.products
        self.scanned_steps |= other.scanned_steps
        self.scanned = self.scanned or other.scanned
        if self.reduced is None:
            self.reduced, self.by_rows = other.reduced, other.by_rows

    def add(self, step: Step, is_row: bool = False, is_finished: bool = False) -> None:
        """Adds a step: with one element per row, or one that only other groups can read."""
        self.steps.append(step)
        if isinstance(step.op, Scan) or not self.scanned_steps.isdisjoint(step.inputs):
            self.scanned_steps.add(step)
        is_after_rows = self._reads_rows(step)
        if is_after_rows:
            self.after_rows.add(step)
        if step.op is not None and step.op.approximate:
            self.length += MATH_FUNCTION_STEPS
        else:
            is_chained = is_after_rows and isinstance(step.op, Reduce)
            self.length += CHAINED_REDUCTION_STEPS if is_chained else 1
        if is_row:
            self.row_steps.add(step)
        if is_finished:
            self.finished.add(step)

    def _reads_rows(self, step: Step) -> bool:
        """Whether a step depends on the result of a reduction of this group."""
        if not self.row_steps:
            return False
        sources = map(behind_views, step.inputs)
        return any(each in self.row_steps or each in self.after_rows for each in sources)
