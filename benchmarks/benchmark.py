"""What a benchmark is, and the table of all of them.

A benchmark is a function that returns its contenders: for each name a setup, which imports the
library, prepares the inputs and returns the function to time. The first word of a contender's name
is the library it runs in, so "ingot float32" and "ingot" share a process. Ratios are those of the
contender "ingot" to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SUBJECT", "Benchmark", "Contenders", "benchmark", "chosen", "library_of", "named"]

SUBJECT = "ingot"

Setup = Callable[[], Callable[[], Any]]
Contenders = Mapping[str, Setup]

_benchmarks: dict[str, Benchmark] = {}


@dataclass(frozen=True)
class Benchmark:
    """One comparison.

    `targets` has, for some contenders, what the ratio of ingot's time to theirs should be at most.
    Functions that are `self_timed` return the seconds that count instead of being timed.
    """

    name: str
    title: str
    contenders: Callable[[], Contenders]
    targets: Mapping[str, float] = field(default_factory=dict)
    self_timed: bool = False


def benchmark(
    title: str, *, targets: Mapping[str, float] | None = None, self_timed: bool = False
) -> Callable[[Callable[[], Contenders]], Callable[[], Contenders]]:
    """Enters the decorated function, which returns the contenders, into the table by its name."""

    def enter(contenders: Callable[[], Contenders]) -> Callable[[], Contenders]:
        name = contenders.__name__
        _benchmarks[name] = Benchmark(name, title, contenders, targets or {}, self_timed)
        return contenders

    return enter


def chosen(names: Iterable[str]) -> list[Benchmark]:
    """The benchmarks with these names, or whose names begin with them; all if there are none."""
    wanted = tuple(names)
    for name in wanted:
        if not any(known.startswith(name) for known in _benchmarks):
            raise ValueError(f"there is no benchmark {name!r}, but: {', '.join(_benchmarks)}.")
    return [known for known in _benchmarks.values() if not wanted or known.name.startswith(wanted)]


def library_of(contender: str) -> str:
    """The library that a contender runs in."""
    return contender.split()[0]


def named(name: str) -> Benchmark:
    """The benchmark with exactly that name."""
    return _benchmarks[name]
