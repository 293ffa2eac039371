"""Schedule: the groups of steps that run together, in order; their printer and verifier.

The output of the fuser, and the input of lowering.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from ingot.compiler.forms.tape import Step, Tape, program_lines
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Assemble, Gather, Reduce, View

__all__ = ["Group", "Scanned", "Schedule", "elementwise_inputs", "gathers", "without_ones"]


class Scanned(NamedTuple):
    """The axis of a domain along which a group scans, and whether from its end."""

    axis: int
    reverse: bool


@dataclass(eq=False)
class Group:
    """Steps that run together.

    Kinds: "fused" (one kernel), "scan" (scans with the maps before and after them), "product" (a
    matrix product with its epilogue), "scatter" (a kernel of its own), "assemble" (copies), "view"
    and "iota" (no work), "check" (an error or no work), "single" (one op).
    """

    kind: str
    steps: list[Step]
    inputs: list[Step] = field(default_factory=list)
    outputs: list[Step] = field(default_factory=list)
    domain: tuple[int, ...] = ()
    reduced: tuple[int, ...] | None = None  # axes of `domain`; None without reductions
    by_rows: bool = False
    scanned: Scanned | None = None  # of "scan"
    reason: str = ""  # why a single step was not fused
    parts: tuple[Group, ...] = ()  # of "product": the product, views of it, and its epilogue
    # whether ops of half types pass on float32 instead of rounding their results
    excess_precision: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes that the group reads and writes."""
        if self.kind in ("view", "iota", "check"):
            return 0
        return sum(step.nbytes for step in (*self.inputs, *self.outputs))


@dataclass
class Schedule:
    """A tape with its groups in an order in which they can run."""

    tape: Tape
    groups: list[Group]

    def text(self) -> str:
        """The groups with their steps."""
        numbers = self.tape.numbers()
        lines: list[str] = []
        for group in self.groups:
            if group.kind in ("fused", "scan", "product"):
                rows = ", by rows" if group.by_rows else ""
                reads = ", ".join(f"%{numbers[step]}" for step in group.inputs)
                writes = ", ".join(f"%{numbers[step]}" for step in group.outputs)
                lines.append(
                    f"{group.kind} {list(group.domain)}{rows}: reads {reads}; writes {writes}"
                )
                lines += ["    " + self.tape.line(step, numbers) for step in group.steps]
            else:
                step = group.steps[0]
                lines.append(f"{group.kind} {self.tape.line(step, numbers)}")
                lines += program_lines(step.op, lambda program: program.schedule.text())
        lines.append("return " + ", ".join(f"%{numbers[step]}" for step in self.tape.outputs))
        return "\n".join(lines)

    def verify(self) -> None:
        """AssertionError unless groups hold all ops and each follows those it reads."""
        group_of = {step: group for group in self.groups for step in group.steps}
        ops = [step for step in self.tape.steps if step.op is not None]
        assert len(group_of) == sum(len(group.steps) for group in self.groups) == len(ops)
        written = {step for step in self.tape.steps if step.op is None}
        needed = set(self.tape.outputs)
        for group in self.groups:
            inside = set(group.steps)
            for step in group.steps:
                for source in step.inputs:
                    if source not in inside:
                        assert source in group.inputs, (
                            f"a group does not say that it reads {source.op}"
                        )
                        needed.add(source)
            for source in group.inputs:
                assert source in written, f"a group reads {source.op}, which is not written before"
            written.update(group.outputs)
            if group.kind in ("fused", "scan"):
                _verify_shapes(group)
        assert needed <= written, "something is needed that no group writes"


def _verify_shapes(group: Group) -> None:
    """AssertionError unless every step has the domain's shape or one element per row."""
    rows = None
    if group.reduced is not None:
        rows = tuple(n for axis, n in enumerate(group.domain) if axis not in group.reduced)
    for step in group.steps:
        shape = without_ones(step.shape)
        assert shape == group.domain or shape == rows, f"{step.op} does not fit {group.domain}"
        if shape != group.domain and not group.by_rows:
            assert isinstance(step.op, (Reduce, View)), f"{step.op} runs beside its rows"


def gathers(step: Step) -> bool:
    """Whether a step takes elements of its first input at indices."""
    return isinstance(step.op, Gather)


def elementwise_inputs(step: Step) -> tuple[Step, ...]:
    """The inputs of which a step reads only the element at its own position. A gather reads its
    first input at any position, and an assembled value its parts at others, so these must be in
    memory.
    """
    if isinstance(step.op, Assemble):
        return ()
    return step.inputs[1:] if gathers(step) else step.inputs


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without axes of length 1: the domain of values with that shape."""
    return tuple([length for length in shape if length != 1]) if 1 in shape else shape
