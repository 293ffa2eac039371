"""Runs benchmarks: contenders take turns, round by round, each in the process of its library."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from ingot.benchmarks.benchmark import BEFORE, NO_SUCH, SUBJECT, Benchmark, library_of
from ingot.benchmarks.machine import BusyMeter
from ingot.benchmarks.result import Result
from ingot.benchmarks.worker import TOO_SLOW, Answer, Worker

__all__ = ["FULL", "QUICK", "Effort", "run"]

SUITE = "ingot.benchmarks.suite"  # enters all benchmarks of a version into its table
# Threads that spin while they wait for work stop within this time and leave the CPUs to others.
SETTLE_SECONDS = 0.05
# Where libraries keep what they compiled: ingot, torch, and (under the temporary folder) mlx.
CACHE_VARIABLES = (
    "INGOT_CACHE_DIR TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR TMPDIR XDG_CACHE_HOME"
).split()


@dataclass(frozen=True)
class Effort:
    """How much is done.

    Attributes:
        rounds: How often each contender takes its turn.
        round_seconds: How long a round lasts at least.
        new_processes: How often, where each round is a new process.
        contender_seconds: A contender that has taken longer than this gets no more rounds: what is
            so slow need not be known to the last digit.
        limit_seconds: A contender that takes longer than this, compilation included, is stopped.
    """

    rounds: int
    round_seconds: float
    new_processes: int
    contender_seconds: float
    limit_seconds: float


FULL = Effort(
    rounds=9, round_seconds=0.05, new_processes=5, contender_seconds=20.0, limit_seconds=120.0
)
QUICK = Effort(
    rounds=3, round_seconds=0.005, new_processes=1, contender_seconds=2.0, limit_seconds=60.0
)


def run(
    benchmarks: Iterable[Benchmark],
    effort: Effort,
    progress: Callable[[str], None],
    finished: Callable[[Result], None],
    meter: BusyMeter,
    python_before: str = sys.executable,
) -> list[Result]:
    """Runs the benchmarks in sequence.

    Args:
        benchmarks: What to run.
        effort: How thoroughly.
        progress: Called with a description of the current activity.
        finished: Called with each result.
        meter: Watches how busy the machine is.
        python_before: The interpreter that runs contenders called "before".
    """
    workers: dict[str, Worker] = {}
    results = []
    try:
        for benchmark in benchmarks:
            with tempfile.TemporaryDirectory(prefix="ingot-bench-") as folder:
                turns: _Turns
                if benchmark.measure.in_new_processes:
                    turns = _NewProcesses(benchmark, Path(folder), python_before)
                else:
                    turns = _SharedProcesses(
                        benchmark, workers, effort.round_seconds, python_before
                    )
                result = _contest(benchmark, turns, effort, progress, meter)
            finished(result)
            results.append(result)
    finally:
        for worker in workers.values():
            worker.stop()
    return results


def _contest(
    benchmark: Benchmark,
    turns: _Turns,
    effort: Effort,
    progress: Callable[[str], None],
    meter: BusyMeter,
) -> Result:
    contenders = tuple(benchmark.contenders())
    result = Result(benchmark, contenders, {}, {}, {})
    spent = dict.fromkeys(contenders, 0.0)

    def turn(take: Callable[[str, float], Answer], contender: str) -> Answer:
        start = perf_counter()
        answer = take(contender, effort.limit_seconds - spent[contender])
        spent[contender] += perf_counter() - start
        answer = _explained(benchmark, contender, answer, spent[contender])
        if answer.missing is not None:
            result.give_up(contender, answer.missing, answer.details)
        return answer

    for contender in contenders:
        progress(f"{benchmark.name}: preparing {contender}")
        answer = turn(turns.prepare, contender)
        if answer.missing is None:
            slow = spent[contender] > effort.contender_seconds
            result.rounds[contender] = [answer.value] if slow and turns.preparation_counts else []
    rounds = effort.new_processes if benchmark.measure.in_new_processes else effort.rounds
    for number in range(rounds):
        for contender in tuple(result.rounds):
            if result.rounds[contender] and spent[contender] > effort.contender_seconds:
                continue
            progress(f"{benchmark.name}: round {number + 1} of {rounds}, {contender}")
            meter.pause(SETTLE_SECONDS)
            answer = turn(turns.round, contender)
            if answer.missing is None:
                result.rounds[contender].append(answer.value)
    turns.finish()
    return result


def _explained(benchmark: Benchmark, contender: str, answer: Answer, spent: float) -> Answer:
    """An answer, in which the worker of another version that fails to look a benchmark up, because
    it does not have it, says so in words, and one that was stopped says after how many seconds.
    """
    if answer.missing == TOO_SLOW:
        return Answer(missing=f"stopped after {spent:.0f} s")
    if contender == BEFORE and answer.missing == f"failed: KeyError: {benchmark.name!r}":
        return Answer(missing=NO_SUCH)
    return answer


class _Turns:
    """How a contender is prepared and takes its turn."""

    # Whether the preparation is a round like the others, but for files that are not in memory yet.
    # It is not if it fills caches on disk, and compiles.
    preparation_counts = False

    def __init__(self, benchmark: Benchmark, python_before: str) -> None:
        self.benchmark = benchmark
        self.python_before = python_before

    def interpreter(self, contender: str) -> str:
        """The Python that runs a contender."""
        return self.python_before if contender == BEFORE else sys.executable

    def entry_of(self, contender: str) -> Benchmark:
        """The benchmark as a process finds it: another version has it in another module, maybe."""
        if contender == BEFORE and self.benchmark.module.startswith(SUITE):
            return replace(self.benchmark, module=SUITE)
        return self.benchmark

    def prepare(self, contender: str, seconds: float) -> Answer:
        """Prepares a contender within so many seconds."""
        raise NotImplementedError

    def round(self, contender: str, seconds: float) -> Answer:
        """Measures a contender once within so many seconds."""
        raise NotImplementedError

    def finish(self) -> None:
        """Called after the last turn."""


class _SharedProcesses(_Turns):
    """All contenders of a library in one process, which stays for the next benchmark."""

    def __init__(
        self,
        benchmark: Benchmark,
        workers: dict[str, Worker],
        round_seconds: float,
        python_before: str,
    ) -> None:
        super().__init__(benchmark, python_before)
        self.workers = workers
        self.round_seconds = round_seconds
        self.prepared: dict[str, Worker] = {}

    def prepare(self, contender: str, seconds: float) -> Answer:
        library = library_of(contender)
        worker = self.workers.get(library)
        if worker is None or not worker.alive:
            if worker is not None:
                worker.stop()
            worker = self.workers[library] = Worker(python=self.interpreter(contender))
        self.prepared[contender] = worker
        entry, name = self.entry_of(contender), _setup_name(contender)
        return worker.prepare(entry, name, self.round_seconds, seconds)

    def round(self, contender: str, seconds: float) -> Answer:
        start = perf_counter()
        if not self.prepared[contender].alive:  # another contender of the library ended it
            answer = self.prepare(contender, seconds)
            if answer.missing is not None:
                return answer
        left = seconds - (perf_counter() - start)
        return self.prepared[contender].round(_setup_name(contender), left)

    def finish(self) -> None:
        for worker in self.workers.values():
            worker.finish()


class _NewProcesses(_Turns):
    """A new process for each round, with caches on disk that no other program uses."""

    def __init__(self, benchmark: Benchmark, folder: Path, python_before: str) -> None:
        super().__init__(benchmark, python_before)
        self.folder = folder
        self.preparation_counts = benchmark.measure.has_empty_caches

    def prepare(self, contender: str, seconds: float) -> Answer:
        """Leaves the library's files in memory, and caches where they stay."""
        return self.round(contender, seconds)

    def round(self, contender: str, seconds: float) -> Answer:
        if not self.benchmark.measure.has_empty_caches:
            # Two versions of ingot have one cache each.
            kept = self.folder / f"kept-by-{library_of(contender)}"
            return self._measure(contender, kept, seconds)
        with tempfile.TemporaryDirectory(dir=self.folder) as fresh:
            return self._measure(contender, Path(fresh), seconds)

    def _measure(self, contender: str, folder: Path, seconds: float) -> Answer:
        folder.mkdir(exist_ok=True)
        variables = dict.fromkeys(CACHE_VARIABLES, str(folder))
        worker = Worker(variables, self.interpreter(contender))
        try:
            return worker.measure_once(self.entry_of(contender), _setup_name(contender), seconds)
        finally:
            worker.stop()


def _setup_name(contender: str) -> str:
    """Which of a benchmark's setups a contender is: another version of ingot runs ingot's."""
    return SUBJECT if contender == BEFORE else contender
