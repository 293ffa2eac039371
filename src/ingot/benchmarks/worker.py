"""Processes that measure contenders: one for each library, or one for each round.

In one process the libraries' idle threads, which spin for a while before they sleep, would slow
each other down. Here the contenders still take turns, round by round, so that whatever else the
machine does hits all of them; but only one process is busy at a time. Requests and answers are
lines of JSON on the process's standard input and output.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ingot.benchmarks.benchmark import Benchmark, Measure, library_of, named
from ingot.benchmarks.libraries import NotInstalledError
from ingot.benchmarks.measure import Stopwatch, compile_time, first_call, peak_memory

__all__ = ["TOO_SLOW", "Answer", "Worker", "memory_of_machine"]

TOO_SLOW = "no answer in time"
SECONDS_TO_FINISH = 60.0  # in which a process lets its contenders go
SECONDS_BETWEEN_LOOKS = 0.5  # at the memory of a process that does not answer yet
LINES_OF_LOG = 5  # of what a process that died said last


@dataclass(frozen=True)
class Answer:
    """What a worker says: a number, or why there is none, with the traceback if there is one."""

    value: float = 0.0
    missing: str | None = None
    details: str | None = None


def _environment_with_bytecode() -> dict[str, str]:
    """This process's environment, in which libraries that run from their sources, unlike those that
    are installed, keep their bytecode as well: without it, imports would take longer."""
    return {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def memory_of_machine() -> int:
    """The bytes of memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Worker:
    """The parent's side of one process. A process that takes longer than it is given, or holds more
    than half of the machine's memory, is ended.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, python: str = sys.executable
    ) -> None:
        self.most_bytes = memory_of_machine() // 2
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by stop)
        self.process = subprocess.Popen(
            # -P: nothing is imported from the user's working directory.
            [python, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**_environment_with_bytecode(), **(environment or {})},
            start_new_session=True,  # Ctrl-C is for the parent, which stops its workers
        )

    @property
    def alive(self) -> bool:
        """Whether the process can still answer."""
        return self.process.poll() is None

    def prepare(
        self, benchmark: Benchmark, contender: str, round_seconds: float, seconds: float
    ) -> Answer:
        """Sets a contender up and warms it up, within so many seconds."""
        entry = (benchmark.module, benchmark.name)
        return self._ask(seconds, "prepare", *entry, contender, round_seconds)

    def round(self, contender: str, seconds: float) -> Answer:
        """Times one round of a contender that is prepared, within so many seconds."""
        return self._ask(seconds, "round", contender)

    def measure_once(self, benchmark: Benchmark, contender: str, seconds: float) -> Answer:
        """Measures a contender in a process that did nothing before, within so many seconds."""
        return self._ask(seconds, "measure_once", benchmark.module, benchmark.name, contender)

    def finish(self) -> None:
        """Lets the contenders of a benchmark go, with their memory."""
        if self.alive:
            self._ask(SECONDS_TO_FINISH, "finish")

    def stop(self) -> None:
        """Ends the process."""
        self._end()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what it was told and never read
                    stream.close()
        self.log.close()

    def _end(self) -> None:
        """Ends the process with those that it started, which share its session."""
        if self.alive:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _ask(self, seconds: float, *request: Any) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        end = time.monotonic() + seconds
        while not self._answers_within(min(SECONDS_BETWEEN_LOOKS, end - time.monotonic())):
            held = _resident_bytes(self.process.pid)
            if held > self.most_bytes:
                self._end()
                return Answer(missing=f"stopped at {held / 1e9:.1f} GB")
            if time.monotonic() >= end:
                self._end()
                return Answer(missing=TOO_SLOW)
        line = self.process.stdout.readline()
        return Answer(**json.loads(line)) if line else self._died()

    def _answers_within(self, seconds: float) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], max(0.0, seconds))[0])

    def _died(self) -> Answer:
        code = self.process.wait()
        self.log.seek(0)
        said = self.log.read().decode(errors="replace").splitlines()[-LINES_OF_LOG:]
        return Answer(missing=f"failed: its process ended ({code})", details="\n".join(said))


def _resident_bytes(process: int) -> int:
    """The memory that a process holds; 0 where the system does not tell, or if it has ended."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def serve() -> None:
    """The worker's side: answers requests until the parent is gone."""
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    stopwatches: dict[str, Stopwatch] = {}
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        json.dump(asdict(_answer(stopwatches, command, arguments)), answers)
        answers.write("\n")
        answers.flush()


def _answer(stopwatches: dict[str, Stopwatch], command: str, arguments: list[Any]) -> Answer:
    if command == "finish":
        stopwatches.clear()
        return Answer()
    try:
        if command == "round":
            return Answer(stopwatches[arguments[0]].round())
        module, name, contender, *rest = arguments
        importlib.import_module(module)  # enters its benchmarks into the table
        benchmark = named(name)
        setup = benchmark.contenders()[contender]
        if command == "prepare":
            self_timed = benchmark.measure is Measure.SELF_TIMED
            stopwatches[contender] = Stopwatch(setup(), rest[0], self_timed)
            return Answer()
        if benchmark.measure is Measure.PEAK_MEMORY:
            return Answer(peak_memory(library_of(contender), setup))
        if benchmark.measure is Measure.COMPILE_COLD:
            return Answer(compile_time(setup))
        return Answer(first_call(setup))
    except NotInstalledError:
        return Answer(missing="not installed")
    except Exception as error:  # whatever a library raises belongs into the report
        reason = str(error).strip().partition("\n")[0]
        missing = f"failed: {type(error).__name__}: {reason}"
        return Answer(missing=missing, details=traceback.format_exc())


if __name__ == "__main__":
    serve()
