"""What a benchmark is, and the table of all of them.

A benchmark is a function that returns its contenders: for each name a setup, which imports the
library, prepares the inputs and returns the function to measure. The first word of a contender's
name is the library it runs in, so "ingot float32" and "ingot" share a process. Ratios are those of
the contender "ingot" to the others.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "BEFORE",
    "NO_SUCH",
    "SUBJECT",
    "Benchmark",
    "Contenders",
    "Measure",
    "Setup",
    "against_before",
    "benchmark",
    "chosen",
    "enter",
    "library_of",
    "named",
]

SUBJECT = "ingot"
SUITE = "ingot.benchmarks.suite"
BEFORE = "before"  # the contender that is another version of ingot
NO_SUCH = "that version has no such benchmark"

Setup = Callable[[], Callable[[], Any]]
Contenders = Mapping[str, Setup]


class Measure(enum.Enum):
    """What is measured of the function that a contender's setup returns."""

    CALL = "the time of a call once everything is warm"
    SELF_TIMED = "the seconds that the function returns"
    FIRST_CALL_COLD = "the time of the first call in a new process, with empty caches on disk"
    FIRST_CALL_WARM = "the time of the first call in a new process, with caches an earlier one left"
    COMPILE_COLD = (
        "the seconds of compiling that the function returns in a new process, with empty caches"
    )
    PEAK_MEMORY = "the most resident memory while it runs, less what there was after the import"

    @property
    def unit(self) -> str:
        """What the numbers are."""
        return "bytes" if self is Measure.PEAK_MEMORY else "seconds"

    @property
    def has_empty_caches(self) -> bool:
        """Whether each process finds caches on disk as if none had run before."""
        return self in (Measure.FIRST_CALL_COLD, Measure.COMPILE_COLD)

    @property
    def in_new_processes(self) -> bool:
        """Whether each round is a process of its own."""
        return self not in (Measure.CALL, Measure.SELF_TIMED)


@dataclass(frozen=True)
class Benchmark:
    """One comparison.

    Attributes:
        name: How it is chosen.
        title: How it is called in reports.
        contenders: Returns the contenders.
        module: The module that enters it into the table.
        targets: For some contenders, what the ratio of ingot's number to theirs should be at most.
        limits: By name, numbers in the measure's unit that ingot's should not exceed.
        measure: What is measured.
        group: Benchmarks of one group are variations on one theme: the worst of them is reported.
    """

    name: str
    title: str
    contenders: Callable[[], Contenders]
    module: str
    targets: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    measure: Measure = Measure.CALL
    group: str | None = None


_benchmarks: dict[str, Benchmark] = {}


def benchmark(
    title: str,
    *,
    targets: Mapping[str, float] | None = None,
    limits: Mapping[str, float] | None = None,
    measure: Measure = Measure.CALL,
) -> Callable[[Callable[[], Contenders]], Callable[[], Contenders]]:
    """Enters the decorated function, which returns the contenders, into the table by its name."""

    def decorate(contenders: Callable[[], Contenders]) -> Callable[[], Contenders]:
        name, module = contenders.__name__, contenders.__module__
        enter(Benchmark(name, title, contenders, module, targets or {}, limits or {}, measure))
        return contenders

    return decorate


def enter(entry: Benchmark) -> None:
    """Enters a benchmark into the table."""
    if entry.name in _benchmarks:
        raise ValueError(f"there are two benchmarks called {entry.name!r}.")
    _benchmarks[entry.name] = entry


def chosen(names: Iterable[str]) -> list[Benchmark]:
    """The benchmarks with these names, or whose names begin with them; all if there are none."""
    wanted = tuple(names)
    for name in wanted:
        if not any(known.startswith(name) for known in _benchmarks):
            raise ValueError(
                f"there is no benchmark {name!r}. `ingot bench --list` says what there is."
            )
    return [known for known in _benchmarks.values() if not wanted or known.name.startswith(wanted)]


def library_of(contender: str) -> str:
    """The library that a contender runs in."""
    return contender.split()[0]


def named(name: str) -> Benchmark:
    """The benchmark with exactly that name."""
    return _benchmarks[name]


def against_before(entry: Benchmark) -> Benchmark:
    """The benchmark with another version of ingot as the only peer; its limits stay. Which module
    of the suite it is in may have been another one, so both versions import the whole suite.
    """

    def contenders() -> Contenders:
        ours = entry.contenders()[SUBJECT]
        return {SUBJECT: ours, BEFORE: ours}

    module = SUITE if entry.module.startswith(f"{SUITE}.") else entry.module
    return replace(entry, contenders=contenders, module=module, targets={}, group=None)
