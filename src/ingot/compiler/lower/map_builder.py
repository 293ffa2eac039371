"""A map under construction, in pairs of elements if that saves work.

Some ops, such as the cipher behind random bits, compute the elements at two points at the cost of
one (`PairedMap`): one in the front half, the other at the same offset into the back half. A map
that contains such an op iterates over the front half of its domain only. Each iteration computes
the pair first, then all other steps at both points. The middle element of an odd number, last of
the front half, has no partner and is computed alone.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.data import Loop
from ingot.compiler.forms.nest.rewrites import distribute
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import Domain, is_immediate
from ingot.compiler.lower.group import GroupBuilder, Known, Point
from ingot.graph.roles import PairedMap

__all__ = ["MapBuilder"]


class MapBuilder(GroupBuilder):
    """The nest of a map."""

    def __init__(self, group: Group, strides_of: dict[Step, tuple[int, ...]]) -> None:
        super().__init__(group, strides_of)
        self.lengths = self.domain.lengths  # of the loops
        self.paired = [step for step in group.steps if _comes_in_pairs(step, self)]
        self.front = 0  # distance between the two points of a pair along the first axis
        if self.paired:
            self.nest.independent = True  # the halves are disjoint
            length, *rest = self.lengths
            self.front = (length + 1) // 2
            self.lengths = (self.front, *rest)

    def line(self) -> None:
        """Builds a map over a single axis."""
        (length,) = self.lengths
        lanes = self.lanes(0)
        pairs = self.domain.lengths[0] - self.front if self.paired else length
        with self.parallel((pairs,), kind="vector", lanes=lanes) as (index,):
            self.map_element((affine(index),))
        if pairs < length:
            with self.parallel((1,), kind="vector", lanes=lanes) as (index,):
                self._remaining({}, (affine(index) + pairs,))

    def map_element(self, point: Point) -> None:
        """Builds everything that one iteration computes."""
        front: Known = {}
        if not self.paired:
            self._remaining(front, point)
            return
        back: Known = {}
        for step in self.paired:
            inputs = [self.value(source, front, point) for source in step.inputs]
            assert isinstance(step.op, PairedMap)
            front[step], back[step] = map(self.rounded, step.op.emit_pair(self.words, *inputs))
        self._remaining(front, point)
        self._remaining(back, (point[0] + self.front, *point[1:]))

    def share_loop(self, iterations: int) -> None:
        """Lets threads share the loop in the parallel iterations, in blocks of so many
        iterations.
        """
        (region,) = self.nest.parallel
        (loop,) = region.body
        assert isinstance(loop, Loop)
        self.nest = distribute(self.nest, loop, iterations)

    def map_row(self, row: Point, length: int) -> None:
        """Builds all elements of a row, which are loaded before any is stored: a result may take
        the memory of an operand.
        """
        points: list[Point] = [(*row, affine(index)) for index in range(length)]
        found: list[Known] = [{} for _ in points]
        for known, point in zip(found, points, strict=True):
            self.compute(self.group.steps, known, point)
        for known, point in zip(found, points, strict=True):
            self.store_outputs(self.group.steps, known, point)

    def _remaining(self, known: Known, point: Point) -> None:
        """Computes and stores at one point what is not known yet."""
        self.compute(self.group.steps, known, point)
        self.store_outputs(self.group.steps, known, point)


def _comes_in_pairs(step: Step, builder: GroupBuilder) -> bool:
    """Whether the halves of a step's elements are halves of the domain, and all its inputs except
    the iota are the same everywhere.
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
    """The row-major strides of a domain, in elements."""
    axes = range(len(domain.lengths))
    return tuple(domain.size(axes[axis + 1 :]) for axis in axes)


def _is_constant(step: Step, builder: GroupBuilder) -> bool:
    memory = builder.read_of.get(step)
    if memory is not None:
        return not memory.axes
    return is_immediate(step) and step not in builder.positions
