"""`cache_info()`: the calls of a compiled function, and the cost of compiling it.

Every call is a hit, a miss, or compiled something for arguments that its trace covers: a program
for new shapes, or for inputs with another layout. A compilation has an `Account`, which is charged
as time is spent: at the call, and at the evaluation that generates machine code.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import ClassVar

from ingot._native import UseCounter, tick
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.reporting.tables import html_table, text_table, time_text

__all__ = ["PHASES", "Account", "CacheInfo", "Compilation", "Counts", "new_shapes_text"]

PHASES = ("trace", "simplify", "fuse", "machine code")
MAX_KEPT = 100  # records of compilations of each kind
MAX_SHAPES_NAMED = 6
MAX_SHOWN = 12  # of them are printed

_HEADINGS = ("compiling", *PHASES, "", "reason")
_MISS, _SHAPES, _LAYOUT = "miss", "new shapes", "new layout"
KINDS = (_MISS, _SHAPES, _LAYOUT)


@dataclass(frozen=True)
class Compilation:
    """A call that compiled: its kind, the reason, and the seconds spent in each phase."""

    kind: str  # "miss", "new shapes" or "new layout"
    reason: str
    phases: dict[str, float]

    @property
    def seconds(self) -> float:
        """All phases."""
        return sum(self.phases.values())


@dataclass(frozen=True)
class CacheInfo:
    """The calls of a compiled function since it was made or `cache_clear()` was called.

    `hits`, `misses`, `new_shapes` and `new_layouts` add up to `calls`. A miss traced the function.
    Calls with `new_shapes` instantiated an existing trace with symbolic lengths; calls with
    `new_layouts` compiled it for inputs with another memory layout. Calls that ran uncompiled, in
    another trace, in a transform or because compilation is disabled, and calls that raised while
    they were traced are not counted.

    `entries` is the number of programs in the cache, `evictions` that of dropped ones.
    `compilations` are the latest of each kind, with reasons and seconds by phase; `phases` and
    `seconds` are the totals of all, also of those that are no longer listed. The function is traced
    and optimised by the call; machine code is made, and charged, when its result is evaluated.
    """

    entries: int
    hits: int
    misses: int
    new_shapes: int
    new_layouts: int
    evictions: int
    phases: dict[str, float]
    compilations: tuple[Compilation, ...]

    @property
    def calls(self) -> int:
        """All calls."""
        return self.hits + self.misses + self.new_shapes + self.new_layouts

    @property
    def seconds(self) -> float:
        """The time spent compiling, in all phases."""
        return sum(self.phases.values())

    @property
    def reasons(self) -> tuple[Compilation, ...]:
        """The compilations that were misses: why the function was traced."""
        return tuple(each for each in self.compilations if each.kind == _MISS)

    def __str__(self) -> str:
        lines = list(self._summary())
        if self.compilations:
            table = text_table(_HEADINGS, self._rows(), (True,) * 5 + (False, False))
            lines += [f"  {line}" for line in table]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, self._rows(), "; ".join(self._summary()), numbers=range(5))

    def _summary(self) -> Iterator[str]:
        yield (
            f"{_count(self.calls, 'call')}: {_count(self.hits, 'hit')}, "
            f"{_count(self.misses, 'miss', 'misses')}, {self.new_shapes} with new shapes, "
            f"{self.new_layouts} with a new layout"
        )
        shown = sum(count for _, count in self._grouped()[-MAX_SHOWN:])
        compiled = self.misses + self.new_shapes + self.new_layouts
        yield (
            f"{_count(self.entries, 'entry', 'entries')}, {_count(self.evictions, 'eviction')}, "
            f"{time_text(self.seconds)} compiling"
            + (f" in all; the latest {shown} of {compiled}:" if shown < compiled else "")
        )

    def _rows(self) -> Iterator[Sequence[str]]:
        for each, count in self._grouped()[-MAX_SHOWN:]:
            phases = (each.phases.get(phase, 0.0) for phase in PHASES)
            times = [time_text(seconds) if seconds else "" for seconds in phases]
            more = f", and {count - 1} others before" if count > 1 else ""
            yield (time_text(each.seconds), *times, each.kind, each.reason + more)

    def _grouped(self) -> list[tuple[Compilation, int]]:
        """The compilations; calls with new shapes in a row for which nothing had to be compiled are
        the last of them, with their number.
        """
        groups: list[tuple[Compilation, int]] = []
        for each in self.compilations:
            count = 1
            if groups and _only_reshaped(each) and _only_reshaped(groups[-1][0]):
                count += groups.pop()[1]
            groups.append((each, count))
        return groups


def _only_reshaped(compilation: Compilation) -> bool:
    return compilation.kind == _SHAPES and not compilation.seconds


def _count(number: int, one: str, more: str | None = None) -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def new_shapes_text(shapes: Sequence[Sequence[int]]) -> str:
    """Why shapes that a trace had not run for needed a program."""
    known = ", ".join(map(str, shapes[:MAX_SHAPES_NAMED]))
    more = len(shapes) - MAX_SHAPES_NAMED
    more_text = f" and {more} more" if more > 0 else ""
    return f"the trace had not run for inputs of shape {known}{more_text}"


@dataclass(eq=False)
class Account:
    """The cost of one compilation so far. It is charged by itself at first, and then also to the
    counts of its function, if it has one.
    """

    kind: str = _MISS
    reason: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    counts: Counts | None = None
    number: int = 0

    @property
    def seconds(self) -> float:
        """All phases."""
        return sum(self.phases.values())

    def spend(self, phase: str, seconds: float) -> None:
        """Adds time spent in a phase."""
        if self.counts is None:
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds
        else:
            self.counts.spend(self, phase, seconds)

    def for_layout(self, reason: str) -> Account:
        """The account of a call that compiles this program for another layout of its inputs; that
        call was counted as a hit before.
        """
        account = Account(_LAYOUT, reason)
        if self.counts is None or not self.counts.add_layout(account):
            return self
        return account


class _Reshaped:
    """The record of a call with new shapes for which nothing had to be compiled."""

    __slots__ = ("_shapes", "number")

    kind = _SHAPES
    phases: ClassVar[dict[str, float]] = {}

    def __init__(self, number: int, shapes: Sequence[Sequence[int]]) -> None:
        self.number = number
        self._shapes = shapes

    @property
    def reason(self) -> str:
        """Why a program had to be made."""
        return new_shapes_text(self._shapes)


class Counts:
    """The counts of one function since the cache was cleared. No other lock is taken under its
    lock.
    """

    def __init__(self, fast_hits: UseCounter) -> None:
        self.fast_hits = fast_hits  # counted by the native fast path
        # Recorded by native code: instances created for new shapes, and those evicted for them.
        self.reshaped, self.evicted = UseCounter(), UseCounter()
        self.reshapings: deque[tuple[int, Sequence[Sequence[int]]]] = deque(maxlen=MAX_KEPT)
        self.evictions = 0  # of other instances
        self._fast_hits_before = fast_hits.count
        self._slow_hits = 0
        self._lock = threading.RLock()  # reentrant: garbage collection may run users' code
        self._number = dict.fromkeys(KINDS, 0)
        self._kept: dict[str, deque[Account]] = {kind: deque(maxlen=MAX_KEPT) for kind in KINDS}
        self._phases = dict.fromkeys(PHASES, 0.0)
        self._misses_in_a_row = 0
        self._hits_at_miss = 0

    @property
    def misses(self) -> int:
        """Calls that traced the function."""
        return self._number[_MISS]

    @property
    def hits(self) -> int:
        """Calls that compiled nothing."""
        return self._slow_hits + self.fast_hits.count - self._fast_hits_before

    @property
    def next_in_a_row(self) -> int:
        """The number of consecutive misses, including the next call if it misses."""
        return self._misses_in_a_row + 1 if self.hits == self._hits_at_miss else 1

    def add_hit(self, number: int = 1) -> None:
        """Counts a call that compiled nothing; -1 takes back one that is counted otherwise."""
        with self._lock:
            self._slow_hits += number

    def add_miss(self, account: Account) -> None:
        """Counts a call that traced the function."""
        with self._lock:
            self._misses_in_a_row = self.next_in_a_row
            self._hits_at_miss = self.hits
            self._add(account)

    def add_shapes(self, account: Account) -> None:
        """Counts a call that made a program for new shapes of a trace."""
        account.kind = _SHAPES
        with self._lock:
            self._add(account)

    def add_reshaped(self, shapes: Sequence[Sequence[int]]) -> None:
        """Counts a call with new shapes of a trace for which nothing had to be compiled."""
        self.reshaped.used()
        self.reshapings.append((self.reshaped.last_used, shapes))

    def add_layout(self, account: Account) -> bool:
        """Counts a hit that made a program for a new layout; False if there was no such hit,
        because a failed evaluation is repeated.
        """
        with self._lock:
            if self.hits <= 0:
                return False
            self._slow_hits -= 1
            self._add(account)
            return True

    def _add(self, account: Account) -> None:
        account.counts = self
        account.number = tick()
        self._number[account.kind] += 1
        self._kept[account.kind].append(account)
        for phase, seconds in account.phases.items():
            self._phases[phase] += seconds

    def spend(self, account: Account, phase: str, seconds: float) -> None:
        """Adds time to a compilation and to the total."""
        with self._lock:
            account.phases[phase] = account.phases.get(phase, 0.0) + seconds
            self._phases[phase] += seconds

    def info(self, entries: int) -> CacheInfo:
        """A snapshot of the counts."""
        with self._lock:
            new_shapes: list[Account | _Reshaped] = [*self._kept[_SHAPES]]
            new_shapes += [_Reshaped(*each) for each in self.reshapings]
            new_shapes.sort(key=_number_of)
            kept = [*new_shapes[-MAX_KEPT:], *self._kept[_MISS], *self._kept[_LAYOUT]]
            kept.sort(key=_number_of)
            return CacheInfo(
                entries,
                self.hits,
                self._number[_MISS],
                self._number[_SHAPES] + self.reshaped.count,
                self._number[_LAYOUT],
                self.evictions + self.evicted.count,
                dict(self._phases),
                tuple(Compilation(x.kind, x.reason, dict(x.phases)) for x in kept),
            )


def _number_of(account: Account | _Reshaped) -> int:
    return account.number
