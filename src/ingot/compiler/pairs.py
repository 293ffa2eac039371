"""Pairs: maps that compute two of their places at a time.

Some ops, such as ciphers that make random bits, get the elements at two places for the work of one
(`Op.emit_pair`): one in the front half of their elements, the other as far into the back half. A
map that holds one is walked along the front half of its domain only. Each turn computes the pair
first and then all other steps at both places. Of an odd number of elements the middle one, last of
the front half, has no partner and is computed alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ingot.compiler.code import Register
from ingot.compiler.emit import Element
from ingot.compiler.loops import Pointers, Writer
from ingot.compiler.lower import Domain, Operand, is_immediate
from ingot.compiler.schedule import Group
from ingot.compiler.tape import Step

__all__ = ["PairWriter", "writer_of"]


def writer_of(
    group: Group, strides_of: dict[Step, tuple[int, ...]], shared: Collection[Step]
) -> Writer:
    """What writes the loops of a group: two places at a time if that saves work."""
    writer = Writer(group, strides_of, shared)
    paired = [step for step in group.steps if _comes_in_pairs(step, writer)]
    return PairWriter(group, strides_of, shared, paired) if paired else writer


def _comes_in_pairs(step: Step, writer: Writer) -> bool:
    """Whether the halves of a step's elements are halves of the domain, and all its inputs but the
    position are the same everywhere.
    """
    domain = writer.domain
    assert step.op is not None
    if step.op.paired_elements == 0 or domain.reduced or not domain.lengths:
        return False
    if len(domain.lengths) > 1 and domain.lengths[0] % 2 != 0:
        return False
    position, *others = step.inputs
    counted = writer.read_of.get(position)
    return (
        step.op.paired_elements == domain.size(range(len(domain.lengths)))
        and counted is not None
        and counted.strides == _row_by_row(domain)
        and all(_is_constant(source, writer) for source in others)
    )


def _row_by_row(domain: Domain) -> tuple[int, ...]:
    """By how much the position among all elements grows along each axis."""
    axes = range(len(domain.lengths))
    return tuple(domain.size(axes[axis + 1 :]) for axis in axes)


def _is_constant(step: Step, writer: Writer) -> bool:
    operand = writer.read_of.get(step)
    return is_immediate(step) if operand is None else not any(operand.strides)


@dataclass(frozen=True)
class _Partner(Operand):
    """An operand once more, for the places in the back half."""


class PairWriter(Writer):
    """Writes maps along the front half of their domain, with what is in the back half as well."""

    is_at_one_place = False

    def __init__(
        self,
        group: Group,
        strides_of: dict[Step, tuple[int, ...]],
        shared: Collection[Step],
        paired: list[Step],
    ) -> None:
        super().__init__(group, strides_of, shared)
        self.paired = paired
        self.code.parallel = True  # no turn comes to the places of another, in either half
        length, *rest = self.domain.lengths
        self.front = (length + 1) // 2  # along the first axis
        self.pairs = length // 2  # one less if the last of the front half has no partner
        self.domain = replace(self.domain, lengths=(self.front, *rest))
        self.partner_of: dict[Operand, Operand] = {}

    def begin(self) -> tuple[Pointers, Register, Register]:
        """The addresses of all operands in both halves."""
        pointers, begin, end = super().begin()
        behind = self.moved(pointers, self.i64(self.front), 0)
        for operand, pointer in behind.items():
            partner = _Partner(operand.step, operand.argument, operand.dtype, operand.strides)
            self.partner_of[operand] = partner
            pointers[partner] = pointer
        return pointers, begin, end

    def map_line(self, pointers: Pointers, begin: Register, end: Register) -> None:
        """Both places of every pair, and what has no partner."""
        if self.pairs == self.front:
            super().map_line(pointers, begin, end)
            return
        alone = self.i64(self.pairs)
        super().map_line(pointers, begin, self.code.intrinsic("smin", end, alone))
        with self.code.loop(alone, end) as loop:
            super().map_element(self.moved(pointers, loop.index, 0))

    def map_element(self, here: Pointers) -> None:
        """Everything that a map computes at two places."""
        there = {operand: here[partner] for operand, partner in self.partner_of.items()}
        front: dict[Step, Element] = {}
        back: dict[Step, Element] = {}
        for step in self.paired:
            inputs = [self.value(source, front, here) for source in step.inputs]
            assert step.op is not None
            front[step], back[step] = map(self.rounded, step.op.emit_pair(self.k, *inputs))
            for element in (front[step], back[step]):
                self.code.notes.append(("compute", step, element.register.name))
        self.map_remaining(front, here)
        self.map_remaining(back, there)
