"""The cache of a compiled function: signature to program, bounded, thread-safe, and able to say why it missed.

Entries belong to the function, not to the object that `compile` returned: compiling a function twice shares them, and they die with
it. Who misses compiles while others that miss wait, so equal signatures compile once.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from ingot.compiler.pipeline import Stages
from ingot.compiler.program import Compiled
from ingot.compiler.trace import Trace

__all__ = ["CacheInfo", "Entry", "FunctionCache", "Miss", "Variant", "cache_of"]

MOST_ENTRIES = 256
MOST_MISSES_KEPT = 100

Shapes = tuple[tuple[int, ...], ...]


@dataclass
class Variant:
    """One trace and the programs made from it: one, or with shapeless one for each combination of shapes."""

    trace: Trace
    programs: OrderedDict[Shapes, tuple[Compiled, Stages]] = field(default_factory=OrderedDict)


@dataclass
class Entry:
    """What a signature leads to. Shapeless functions may have several variants, with different guards."""

    described: dict[str, str]
    variants: list[Variant] = field(default_factory=list)


@dataclass(frozen=True)
class Miss:
    """A call that had to compile, and why."""

    reason: str
    seconds: float


@dataclass(frozen=True)
class CacheInfo:
    """Counts of a compiled function's cache. `misses` has the reason for each of the latest ones."""

    entries: int
    hits: int
    misses: int
    evictions: int
    seconds: float
    reasons: tuple[Miss, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.entries} entries, {self.hits} hits, {self.misses} misses, {self.evictions} evictions, "
            f"{self.seconds:.3f} s compiling"
        ]
        lines += [f"  {miss.seconds * 1e3:8.1f} ms  {miss.reason}" for miss in self.reasons]
        return "\n".join(lines)


class FunctionCache:
    """All that is compiled of one function."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.callers: weakref.WeakSet[Any] = weakref.WeakSet()  # compiled functions with fast entries of their own
        self.entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self.hits = 0
        self.evictions = 0
        self.misses: list[Miss] = []
        self.miss_count = 0
        self.misses_in_a_row = 0
        self._hits_at_miss = 0
        self.seconds = 0.0

    def get(self, key: Hashable) -> Entry | None:
        """The entry for a signature, which counts as used now."""
        entry = self.entries.get(key)
        if entry is not None:
            try:
                self.entries.move_to_end(key)
            except KeyError:  # another thread evicted it just now; it stays valid for this call
                return entry
        return entry

    def put(self, key: Hashable, entry: Entry) -> None:
        """Adds an entry; the one used longest ago may go."""
        self.entries[key] = entry
        while len(self.entries) > MOST_ENTRIES:
            self.entries.popitem(last=False)
            self.evictions += 1

    def count_hit(self) -> None:
        """Notes a call that needed no compilation."""
        self.hits += 1

    def count_miss(self, reason: str, seconds: float) -> None:
        """Notes a call that compiled."""
        self.miss_count += 1
        # The native fast path counts hits by itself, so what came between shows in their number only.
        self.misses_in_a_row = self.misses_in_a_row + 1 if self.hits == self._hits_at_miss else 1
        self._hits_at_miss = self.hits
        self.seconds += seconds
        self.misses.append(Miss(reason, seconds))
        del self.misses[:-MOST_MISSES_KEPT]

    def clear(self) -> None:
        """Drops all entries and counts."""
        with self.lock:
            self.entries.clear()
            for caller in list(self.callers):
                caller.fast_entries.clear()
            self.misses.clear()
            self.hits = self.evictions = self.miss_count = self.misses_in_a_row = self._hits_at_miss = 0
            self.seconds = 0.0

    def info(self) -> CacheInfo:
        """The counts as they are now."""
        programs = sum(
            len(variant.programs)
            for entry in list(self.entries.values())
            for variant in entry.variants
        )
        return CacheInfo(
            programs, self.hits, self.miss_count, self.evictions, self.seconds, tuple(self.misses)
        )


_caches: weakref.WeakKeyDictionary[Any, FunctionCache] = weakref.WeakKeyDictionary()
_method_caches: weakref.WeakKeyDictionary[Any, dict[Any, FunctionCache]] = (
    weakref.WeakKeyDictionary()
)
_lock = threading.Lock()


def cache_of(function: Callable[..., Any]) -> FunctionCache:
    """The cache of a function: the same for the same function, gone with it.

    Bound methods are made anew at each access, so theirs belongs to the object. A callable that can be neither hashed nor weakly
    referenced gets a cache of its own each time.
    """
    with _lock:
        try:
            owner = getattr(function, "__self__", None)
            code = getattr(function, "__func__", None)
            if owner is not None and code is not None:
                return _method_caches.setdefault(owner, {}).setdefault(code, FunctionCache())
            return _caches.setdefault(function, FunctionCache())
        except TypeError:
            return FunctionCache()
