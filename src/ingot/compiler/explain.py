"""Explanations: what compilation made of a function for one signature, for people and programs."""

from __future__ import annotations

from typing import Any

from ingot.compiler.fuse import Group
from ingot.compiler.pipeline import Stages
from ingot.compiler.tape import Step
from ingot.compiler.trace import Trace
from ingot.compiler.work import bytes_in_memory
from ingot.graph.source import Source

__all__ = ["Explanation"]


class Explanation:
    """Prints the stages of one compilation; `to_dict()` has the same for programs."""

    def __init__(self, name: str, stages: Stages, traced: Trace) -> None:
        self.name = name
        self.stages = stages
        self._trace = traced
        self._plan = stages.program.plan  # with the machine code, made now

    @property
    def kernels(self) -> list[Group]:
        """The fused groups."""
        return [group for group in self.stages.schedule.groups if group.kind == "fused"]

    @property
    def bytes_before(self) -> int:
        """What the traced steps read and write when each runs by itself."""
        return sum(
            step.nbytes + sum(map(bytes_in_memory, step.inputs))
            for step in self.stages.traced.steps
            if step.op is not None and step.op.role != "view"
        )

    @property
    def bytes_after(self) -> int:
        """What the groups read and write."""
        return sum(map(_group_bytes, self.stages.schedule.groups))

    @property
    def code(self) -> list[str]:
        """The kernels in LLVM's assembly language."""
        return [kernel.text for _, kernel in self._plan.kernels]

    def to_dict(self) -> dict[str, Any]:
        """Everything that the text shows, as plain values."""
        stages = self.stages
        report = stages.report
        numbers = stages.traced.numbers()
        return {
            "name": self.name,
            "tapes": {
                "traced": stages.traced.text().splitlines(),
                "simplified": stages.simplified.text().splitlines(),
                "fused": stages.schedule.text().splitlines(),
            },
            "merged": [[numbers[gone], numbers[stays]] for gone, stays in report.merged],
            "folded": [numbers[step] for step in report.folded],
            "no_ops": [numbers[step] for step in report.no_ops],
            "unused": [numbers[step] for step in report.unused],
            "groups": [self._group(group) for group in stages.schedule.groups],
            "constants": [_constant(step) for step in self._constants()],
            "captured_state": self._trace.recipe is not None,
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            "native": self._native(),
            "guards": self._trace.guards.lines(),
            "seconds": dict(stages.seconds),
        }

    def _native(self) -> dict[str, Any]:
        plan = self._plan
        return {
            "kernels": len(plan.kernels),
            "blas_calls": len(plan.blas_calls),
            "host_steps": [type(step.op).__name__ for step in plan.host_steps],
            "arena": plan.arena,
            "peak": plan.peak,
        }

    def _constants(self) -> list[Step]:
        return [step for step in self.stages.simplified.steps if step.is_constant]

    def _group(self, group: Group) -> dict[str, Any]:
        numbers = self.stages.simplified.numbers()
        return {
            "kind": group.kind,
            "steps": [numbers[step] for step in group.steps],
            "reads": [numbers[step] for step in group.inputs],
            "writes": [numbers[step] for step in group.outputs],
            "bytes": _group_bytes(group),
            "reason": group.reason,
            "sources": _sources(group.steps),
        }

    def __str__(self) -> str:
        stages = self.stages
        native = self._native()
        lines = [
            f"{self.name}: {len(stages.traced.steps)} steps traced, "
            f"{len(stages.simplified.steps)} after simplification, "
            f"{len(self.kernels)} fused groups",
            "",
            "Traced",
            _indented(stages.traced.text()),
            "",
            "Simplified",
            *self._simplifications(),
            _indented(stages.simplified.text()),
            "",
            "Groups",
            _indented(stages.schedule.text()),
            *self._remarks(),
            "",
            "Native code: {kernels} kernels, {blas_calls} calls of BLAS, {hosts} host steps; "
            "{arena:,} bytes of intermediate values, {peak:,} with results and constants".format(
                hosts=len(native["host_steps"]), **native
            ),
            f"Bytes read and written: {self.bytes_before:,} before, {self.bytes_after:,} after",
            "Seconds: "
            + ", ".join(f"{name} {value:.4f}" for name, value in stages.seconds.items()),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _simplifications(self) -> list[str]:
        report = self.stages.report
        numbers = self.stages.traced.numbers()
        return [
            *(f"  merged %{numbers[gone]} into %{numbers[stays]}" for gone, stays in report.merged),
            *(f"  computed %{numbers[step]} in advance" for step in report.folded),
            *(f"  dropped no-op %{numbers[step]}" for step in report.no_ops),
            *(f"  dropped unused %{numbers[step]}" for step in report.unused),
        ]

    def _remarks(self) -> list[str]:
        """Where groups come from, what is outside of groups and why, and what was captured."""
        numbers = self.stages.simplified.numbers()
        sources = [", ".join(_sources(group.steps)) for group in self.kernels]
        singles = [group for group in self.stages.schedule.groups if group.kind == "single"]
        constants = [step for step in self._constants() if step.ndim > 0]
        return [
            *(f"  group {number} comes from {lines}" for number, lines in enumerate(sources)),
            *(f"  %{numbers[g.steps[0]]} stays outside: {g.reason}" for g in singles),
            *(f"  %{numbers[s]} is captured: a constant of {s.nbytes:,} bytes" for s in constants),
            *(f"  guard: {line}" for line in self._trace.guards.lines()),
        ]


def _constant(step: Step) -> dict[str, Any]:
    return {"shape": list(step.shape), "dtype": step.dtype.name, "bytes": step.nbytes}


def _group_bytes(group: Group) -> int:
    if group.kind == "view":
        return 0
    return sum(map(bytes_in_memory, group.inputs)) + sum(step.nbytes for step in group.outputs)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def _sources(steps: list[Step]) -> list[str]:
    found = dict.fromkeys(step.source.short for step in steps if isinstance(step.source, Source))
    return list(found)
