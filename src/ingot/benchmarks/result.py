"""The result of one benchmark: the measurements, and ingot's ratio to each peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ingot.benchmarks.benchmark import SUBJECT, Benchmark

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """The numbers of each round, or why there are none, by contender."""

    benchmark: Benchmark
    contenders: tuple[str, ...]
    rounds: dict[str, list[float]]
    missing: dict[str, str]
    details: dict[str, str]

    def give_up(self, contender: str, reason: str, details: str | None) -> None:
        """Marks a contender as missing and discards its earlier rounds."""
        self.rounds.pop(contender, None)
        self.missing[contender] = reason
        if details is not None:
            self.details[contender] = details

    def best(self, contender: str) -> float | None:
        """The smallest number, which other load on the machine disturbed least."""
        return min(self.rounds[contender]) if self.rounds.get(contender) else None

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured. Reports are made from this, also later from a file."""
        return {
            "name": self.benchmark.name,
            "title": self.benchmark.title,
            "group": self.benchmark.group,
            "measured": self.benchmark.measure.value,
            "unit": self.benchmark.measure.unit,
            "contenders": {contender: self._numbers(contender) for contender in self.contenders},
            "comparisons": self._comparisons(),
        }

    def _numbers(self, contender: str) -> dict[str, Any]:
        if contender in self.missing:
            details = self.details.get(contender)
            return {"missing": self.missing[contender]} | ({"details": details} if details else {})
        return {"best": self.best(contender), "rounds": self.rounds[contender]}

    def _comparisons(self) -> list[dict[str, Any]]:
        """Ingot's number divided by that of each other contender and by each limit."""
        ours = self.best(SUBJECT)
        targets = self.benchmark.targets
        others = [
            (name, self.best(name), targets.get(name), self.missing.get(name))
            for name in self.contenders
            if name != SUBJECT
        ]
        limits = [(name, limit, 1.0, None) for name, limit in self.benchmark.limits.items()]
        return [
            _comparison(ours, name, theirs, target, missing)
            for name, theirs, target, missing in others + limits
        ]


def _comparison(
    ours: float | None, name: str, theirs: float | None, target: float | None, missing: str | None
) -> dict[str, Any]:
    ratio = None if ours is None or not theirs else ours / theirs
    met = None if ratio is None or target is None else ratio <= target
    return {
        "against": name,
        "theirs": theirs,
        "ratio": ratio,
        "target": target,
        "met": met,
        "missing": missing,
    }
