"""The cache of a compiled function: bounded, thread-safe, and able to say why it missed.

Entries belong to the function, not to the object that `compile` returned: compiling a function
twice shares them, and they die with it. Whoever misses compiles while others that miss wait, so
equal signatures compile once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any
from weakref import WeakValueDictionary

from ingot.compiler.describe import Description
from ingot.compiler.program import Compiled
from ingot.compiler.template import Template
from ingot.compiler.trace import Trace
from ingot.runtime.belongings import Belongings, belongings

__all__ = [
    "CacheInfo",
    "Entry",
    "FunctionCache",
    "Instance",
    "Miss",
    "Shapes",
    "Variant",
    "cache_of",
]

MOST_ENTRIES = 256
MOST_INSTANCES = 256  # of one trace for all shapes
MOST_MISSES_KEPT = 100

Shapes = tuple[tuple[int, ...], ...]


@dataclass
class Instance:
    """A trace made ready to run for given shapes."""

    trace: Trace
    op: Compiled
    result: Template
    values: list[Any]  # of the trace's dimensions
    last_used: int = field(default_factory=monotonic_ns)


@dataclass
class Variant:
    """One trace and its instances: one, or with shapeless one for each combination of shapes."""

    trace: Trace
    instances: dict[Shapes, Instance] = field(default_factory=dict)

    def add(self, shapes: Shapes, instance: Instance) -> None:
        """Adds an instance; the one used longest ago may go."""
        self.instances[shapes] = instance
        _drop_oldest(self.instances, MOST_INSTANCES)


@dataclass
class Entry:
    """What a signature leads to: several variants if sizes that guards or implicit states depend on
    changed.
    """

    described: Description
    variants: list[Variant] = field(default_factory=list)
    last_used: int = field(default_factory=monotonic_ns)

    def add(self, variant: Variant) -> None:
        """Adds a variant; the oldest one may go."""
        self.variants.insert(0, variant)
        del self.variants[MOST_INSTANCES:]


def _drop_oldest(kept: dict[Any, Any], most: int) -> int:
    """Leaves the `most` that were used last; how many went."""
    dropped = 0
    while len(kept) > most:
        del kept[min(kept, key=lambda key: kept[key].last_used)]
        dropped += 1
    return dropped


@dataclass(frozen=True)
class Miss:
    """A call that had to compile, and why."""

    reason: str
    seconds: float


@dataclass(frozen=True)
class CacheInfo:
    """Counts of a compiled function's cache. `reasons` says why, for each of the latest misses.

    Entries are programs that are ready to run. With `shapeless` one trace, that is one miss, has an
    entry for each combination of shapes it was called with.
    The seconds of a miss are those of tracing and optimising. Machine code is made when the result
    is first evaluated; the total includes it.
    """

    entries: int
    hits: int
    misses: int
    evictions: int
    seconds: float
    reasons: tuple[Miss, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.entries} entries, {self.hits} hits, {self.misses} misses, "
            f"{self.evictions} evictions, {self.seconds:.3f} s compiling"
        ]
        lines += [f"  {miss.seconds * 1e3:8.1f} ms  {miss.reason}" for miss in self.reasons]
        return "\n".join(lines)


class FunctionCache:
    """All that is compiled of one function with the same captured containers.

    Lookups take no lock: a dict's are atomic. Changes are made by whoever holds `lock`.
    """

    def __init__(self, captured: Any = None) -> None:
        self.lock = threading.RLock()
        self.captured = captured  # kept, so that their identities stay theirs
        self.entries: dict[Hashable, Entry] = {}
        self.fast_entries: dict[bool, dict[Hashable, tuple[Any, ...]]] = {False: {}, True: {}}
        self.keeps_keyword_order: bool | None = None  # asked at the first call with several
        self.hits = 0  # counted by the native fast path
        self._slow_hits = 0
        self.evictions = 0
        self.misses: list[Miss] = []
        self.miss_count = 0
        self.misses_in_a_row = 0
        self._hits_at_miss = 0
        self.seconds = 0.0

    def get(self, key: Hashable, shapes: Shapes) -> Instance | None:
        """What to run for a signature and shapes; None if that has to be made first."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        for variant in tuple(entry.variants):
            instance = variant.instances.get(shapes)
            if instance is not None and variant.trace.fits_states():
                entry.last_used = instance.last_used = monotonic_ns()
                return instance
        return None

    def put(self, key: Hashable, entry: Entry) -> None:
        """Adds an entry; the one used longest ago may go."""
        self.entries[key] = entry
        self.evictions += _drop_oldest(self.entries, MOST_ENTRIES)

    def count_hit(self) -> None:
        """Notes a call that needed no compilation."""
        with self.lock:
            self._slow_hits += 1

    def count_miss(self, reason: str, seconds: float) -> None:
        """Notes a call that compiled."""
        self.miss_count += 1
        self.misses_in_a_row = self.next_in_a_row
        self._hits_at_miss = self._all_hits
        self.seconds += seconds
        self.misses.append(Miss(reason, seconds))
        del self.misses[:-MOST_MISSES_KEPT]

    @property
    def next_in_a_row(self) -> int:
        """How many misses in a row there are if the next call misses."""
        return self.misses_in_a_row + 1 if self._all_hits == self._hits_at_miss else 1

    @property
    def _all_hits(self) -> int:
        return self.hits + self._slow_hits

    def described(self) -> list[Description]:
        """What is there, the most recently used first."""
        entries = sorted(self.entries.values(), key=lambda entry: -entry.last_used)
        return [entry.described for entry in entries]

    def clear(self) -> None:
        """Drops all entries and counts."""
        with self.lock:
            self.entries.clear()
            for entries in self.fast_entries.values():
                entries.clear()
            self.misses.clear()
            self.hits = self._slow_hits = self.evictions = self.miss_count = 0
            self.misses_in_a_row = self._hits_at_miss = 0
            self.seconds = 0.0

    def info(self) -> CacheInfo:
        """The counts as they are now."""
        with self.lock:
            programs = [
                instance.op.program
                for entry in self.entries.values()
                for variant in entry.variants
                for instance in variant.instances.values()
            ]
            return CacheInfo(
                len(programs),
                self._all_hits,
                self.miss_count,
                self.evictions,
                self.seconds + sum(program.seconds for program in programs),
                tuple(self.misses),
            )


class _Caches:
    """All caches of one function: without captured state, and by what is captured."""

    def __init__(self) -> None:
        self.plain = FunctionCache()
        self.methods = Belongings()  # of an object: by the function behind them
        # These live as long as a compiled function that uses them: if they belonged to the
        # function, they could keep it, by way of the captured containers.
        self.captured: WeakValueDictionary[tuple[int, int], FunctionCache] = WeakValueDictionary()


def cache_of(
    function: Callable[..., Any], inputs: Any = None, outputs: Any = None
) -> FunctionCache:
    """The cache of a function with these captured containers, which is gone with the function.

    Bound methods are made anew at each access, so theirs belong to the object. A callable that
    cannot be weakly referenced gets a cache of its own each time.
    """
    owner = getattr(function, "__self__", None)
    code = getattr(function, "__func__", None)
    try:
        if owner is not None and code is not None:
            caches = belongings.of(owner, _Caches).methods.of(code, _Caches)
        else:
            caches = belongings.of(function, _Caches)
    except TypeError:
        caches = _Caches()
    if inputs is None and outputs is None:
        return caches.plain
    made = FunctionCache((inputs, outputs))
    return caches.captured.setdefault((id(inputs), id(outputs)), made)
