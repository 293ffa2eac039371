"""Runs benchmarks: contenders take turns, round by round, each in the process of its library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.benchmark import SUBJECT, Benchmark, library_of
from benchmarks.worker import Worker

__all__ = ["FULL", "QUICK", "Effort", "Ratio", "Result", "run"]

# Threads that spin while they wait for work stop within this time and leave the CPUs to others.
SETTLE_SECONDS = 0.05


@dataclass(frozen=True)
class Effort:
    """How many rounds there are and how long one lasts at least."""

    rounds: int
    round_seconds: float


FULL = Effort(rounds=9, round_seconds=0.05)
QUICK = Effort(rounds=3, round_seconds=0.005)


@dataclass(frozen=True)
class Ratio:
    """Ingot's time divided by another contender's."""

    value: float
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        return None if self.target is None else self.value <= self.target


@dataclass(frozen=True)
class Result:
    """The seconds of each round, or why there are none, by contender."""

    benchmark: Benchmark
    contenders: tuple[str, ...]
    rounds: dict[str, list[float]]
    missing: dict[str, str]

    def best(self, contender: str) -> float:
        """The fastest round: what the machine's other work disturbed least."""
        return min(self.rounds[contender])

    def ratio(self, contender: str) -> Ratio | None:
        """How ingot compares with a contender; None for itself and where one of them is missing."""
        if contender == SUBJECT or contender not in self.rounds or SUBJECT not in self.rounds:
            return None
        value = self.best(SUBJECT) / self.best(contender)
        return Ratio(value, self.benchmark.targets.get(contender))


def run(
    benchmarks: Iterable[Benchmark],
    effort: Effort,
    progress: Callable[[str], None],
    finished: Callable[[Result], None],
) -> list[Result]:
    """Runs the benchmarks one after the other; `finished` gets each result as it comes."""
    workers: dict[str, Worker] = {}
    results = []
    try:
        for benchmark in benchmarks:
            result = _run_one(benchmark, effort, workers, progress)
            finished(result)
            results.append(result)
    finally:
        for worker in workers.values():
            worker.stop()
    return results


def _run_one(
    benchmark: Benchmark,
    effort: Effort,
    workers: dict[str, Worker],
    progress: Callable[[str], None],
) -> Result:
    contenders = tuple(benchmark.contenders())
    rounds: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    for contender in contenders:
        progress(f"{benchmark.name}: preparing {contender}")
        answer = _worker_for(contender, workers).prepare(
            benchmark.name, contender, effort.round_seconds
        )
        if answer.missing is None:
            rounds[contender] = []
        else:
            missing[contender] = answer.missing
    for number in range(effort.rounds):
        for contender in tuple(rounds):
            progress(f"{benchmark.name}: round {number + 1} of {effort.rounds}, {contender}")
            time.sleep(SETTLE_SECONDS)
            answer = workers[library_of(contender)].round(contender)
            if answer.missing is None:
                rounds[contender].append(answer.seconds)
            else:
                missing[contender] = answer.missing
                del rounds[contender]
    for worker in workers.values():
        worker.finish()
    return Result(benchmark, contenders, rounds, missing)


def _worker_for(contender: str, workers: dict[str, Worker]) -> Worker:
    """The process of a contender's library, started anew if there is none or it died."""
    library = library_of(contender)
    worker = workers.get(library)
    if worker is None or not worker.process.is_alive():
        worker = workers[library] = Worker()
    return worker
