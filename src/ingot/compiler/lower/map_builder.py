"""A map under construction, in pairs if that saves work.

Some ops, such as ciphers that make random bits, get the elements at two spots for the work of one
(`PairedMap`): one in the front half of their elements, the other as far into the back half. A
map that holds one goes through the front half of its domain only. Each iteration computes the pair
first and then all other steps at both spots. Of an odd number of elements the middle one, last of
the front half, has no partner and is computed alone.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import Domain, is_immediate
from ingot.compiler.lower.group import GroupBuilder, Known, Spot
from ingot.graph.roles import PairedMap

__all__ = ["MapBuilder"]


class MapBuilder(GroupBuilder):
    """A map; in pairs if that saves work."""

    def __init__(self, group: Group, strides_of: dict[Step, tuple[int, ...]]) -> None:
        super().__init__(group, strides_of)
        self.lengths = self.domain.lengths  # of the loops
        self.paired = [step for step in group.steps if _comes_in_pairs(step, self)]
        self.front = 0  # how far apart the two spots of a pair are along the first axis
        if self.paired:
            self.nest.independent = True  # no iteration touches what another one does in a half
            length, *rest = self.lengths
            self.front = (length + 1) // 2
            self.lengths = (self.front, *rest)

    def line(self) -> None:
        """A map that has one axis."""
        (length,) = self.lengths
        lanes = self.lanes(0)
        pairs = self.domain.lengths[0] - self.front if self.paired else length
        with self.parallel((pairs,), kind="vector", lanes=lanes) as (index,):
            self.map_element((affine(index),))
        if pairs < length:
            with self.parallel((1,), kind="vector", lanes=lanes) as (index,):
                self._remaining({}, (affine(index) + pairs,))

    def map_element(self, spot: Spot) -> None:
        """Everything that a map computes in one iteration."""
        front: Known = {}
        if not self.paired:
            self._remaining(front, spot)
            return
        back: Known = {}
        for step in self.paired:
            inputs = [self.value(source, front, spot) for source in step.inputs]
            assert isinstance(step.op, PairedMap)
            front[step], back[step] = map(self.rounded, step.op.emit_pair(self.words, *inputs))
        self._remaining(front, spot)
        self._remaining(back, (spot[0] + self.front, *spot[1:]))

    def _remaining(self, known: Known, spot: Spot) -> None:
        """What a map computes at one spot besides what is known."""
        self.compute(self.group.steps, known, spot)
        self.store_outputs(self.group.steps, known, spot)


def _comes_in_pairs(step: Step, builder: GroupBuilder) -> bool:
    """Whether the halves of a step's elements are halves of the domain, and all its inputs but the
    position are the same everywhere.
    """
    domain = builder.domain
    if not isinstance(step.op, PairedMap) or not domain.lengths:
        return False
    if len(domain.lengths) > 1 and domain.lengths[0] % 2 != 0:
        return False
    position, *others = step.inputs
    counted = builder.positions.get(position)
    return (
        step.op.paired_elements == domain.size(range(len(domain.lengths)))
        and counted is not None
        and counted.strides == _row_by_row(domain)
        and all(_is_constant(source, builder) for source in others)
    )


def _row_by_row(domain: Domain) -> tuple[int, ...]:
    """By how much the position among all elements grows along each axis."""
    axes = range(len(domain.lengths))
    return tuple(domain.size(axes[axis + 1 :]) for axis in axes)


def _is_constant(step: Step, builder: GroupBuilder) -> bool:
    memory = builder.read_of.get(step)
    if memory is not None:
        return not memory.axes
    return is_immediate(step) and step not in builder.positions
