"""Explanations: what compilation made of a function for one signature, for people and for programs."""

from __future__ import annotations

from typing import Any

from ingot.compiler.fuse import Group
from ingot.compiler.pipeline import Stages
from ingot.compiler.tape import Step
from ingot.compiler.trace import Trace

__all__ = ["Explanation"]


class Explanation:
    """Prints the stages of one compilation; `to_dict()` has the same for programs."""

    def __init__(self, name: str, stages: Stages, traced: Trace) -> None:
        self.name = name
        self.stages = stages
        self._trace = traced

    @property
    def kernels(self) -> list[Group]:
        """The fused groups."""
        return [group for group in self.stages.schedule.groups if group.kind == "fused"]

    @property
    def bytes_before(self) -> int:
        """What the traced steps read and write when each runs by itself."""
        return sum(
            step.nbytes + sum(source.nbytes for source in step.inputs)
            for step in self.stages.traced.steps
            if step.op is not None
        )

    @property
    def bytes_after(self) -> int:
        """What the groups read and write."""
        return sum(group.nbytes for group in self.stages.schedule.groups)

    def to_dict(self) -> dict[str, Any]:
        """Everything that the text shows, as plain values."""
        stages = self.stages
        numbers = stages.traced.numbers()
        return {
            "name": self.name,
            "tapes": {
                "traced": stages.traced.text().splitlines(),
                "simplified": stages.simplified.text().splitlines(),
                "fused": stages.schedule.text().splitlines(),
            },
            "merged": [[numbers[gone], numbers[stays]] for gone, stays in stages.report.merged],
            "no_ops": [numbers[step] for step in stages.report.no_ops],
            "unused": [numbers[step] for step in stages.report.unused],
            "groups": [self._group(group) for group in stages.schedule.groups],
            "constants": [
                {"shape": list(step.shape), "dtype": step.dtype.name, "bytes": step.nbytes}
                for step in stages.simplified.steps
                if step.is_constant
            ],
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            "guards": self._trace.guards.lines(),
            "seconds": dict(stages.seconds),
        }

    def _group(self, group: Group) -> dict[str, Any]:
        numbers = self.stages.simplified.numbers()
        return {
            "kind": group.kind,
            "steps": [numbers[step] for step in group.steps],
            "reads": [numbers[step] for step in group.inputs],
            "writes": [numbers[step] for step in group.outputs],
            "bytes": group.nbytes,
            "reason": group.reason,
            "sources": _sources(group.steps),
        }

    def __str__(self) -> str:
        stages = self.stages
        report = stages.report
        numbers = stages.traced.numbers()
        lines = [
            f"{self.name}: {len(stages.traced.steps)} steps traced, "
            f"{len(stages.simplified.steps)} after simplification, {len(self.kernels)} fused groups",
            "",
            "Traced",
            _indented(stages.traced.text()),
            "",
            "Simplified",
        ]
        lines += [
            f"  merged %{numbers[gone]} into %{numbers[stays]}" for gone, stays in report.merged
        ]
        lines += [f"  dropped no-op %{numbers[step]}" for step in report.no_ops]
        lines += [f"  dropped unused %{numbers[step]}" for step in report.unused]
        lines += [
            _indented(stages.simplified.text()),
            "",
            "Groups",
            _indented(stages.schedule.text()),
        ]
        for number, group in enumerate(self.kernels):
            lines.append(
                f"  group {number} comes from {', '.join(_sources(group.steps)) or 'nowhere'}"
            )
        lines += [
            f"  {type(group.steps[0].op).__name__} stays outside: {group.reason}"
            for group in stages.schedule.groups
            if group.kind == "single"
        ]
        lines += [f"  guard: {line}" for line in self._trace.guards.lines()]
        lines += [
            "",
            f"Bytes read and written: {self.bytes_before:,} before, {self.bytes_after:,} after",
            "Seconds: "
            + ", ".join(f"{name} {value:.4f}" for name, value in stages.seconds.items()),
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def _sources(steps: list[Step]) -> list[str]:
    found = dict.fromkeys(step.source.short for step in steps if step.source is not None)
    return list(found)
