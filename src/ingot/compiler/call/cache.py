"""The cache of a compiled function: bounded, thread-safe, and able to explain its misses.

Entries belong to the function: compiling it twice with the same options shares them. They die with
the last object that `compile` returned for them. A thread that misses compiles while
other threads that miss wait, so equal signatures compile once.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import field
from heapq import nsmallest
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

from ingot._native import Instance, ShapeTable, UseCounter, array
from ingot.compiler.call.cache_info import CacheInfo, Counts
from ingot.compiler.call.describe import Description
from ingot.compiler.call.lengths import Lengths
from ingot.compiler.trace.trace import Trace
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.per_owner_cache import per_owner_cache

if TYPE_CHECKING:
    from ingot.compiler.call.symbolic_program import SymbolicProgram

__all__ = [
    "Entry",
    "FunctionCache",
    "Known",
    "Shapes",
    "Variant",
    "cache_of",
]

MAX_ENTRIES = 256
MAX_INSTANCES = 256  # of one trace for all shapes
MAX_PROGRAMS = 32  # of one trace for all shapes, by conditions on them
MAX_FAST_ENTRIES = 512
MAX_GUARDED_ENTRIES = 8  # for one signature, by the values of attributes

Shapes = tuple[tuple[int, ...], ...]


class Known:
    """The properties of a call that select its program. `shapes` are those of the arrays, if they
    are not part of the key, and `general` is the same call without shapes in its key, if they are.
    """

    __slots__ = ("arrays", "fast_key", "general", "is_symbolic", "key", "objects", "shapes")

    def __init__(
        self,
        key: tuple[Any, ...],
        is_symbolic: bool,
        arrays: list[array],
        objects: list[Any],
        fast_key: Hashable,
    ) -> None:
        self.key = key
        self.is_symbolic = is_symbolic
        self.shapes: Shapes = tuple([x.shape for x in arrays]) if is_symbolic else ()
        self.arrays = arrays
        self.objects = objects
        self.fast_key = fast_key  # of the native fast path; None if it cannot answer the call
        self.general: Known | None = None


class Variant:
    """A trace and its instances: one, or with symbolic lengths one per combination of shapes."""

    def __init__(self, trace: Trace, is_symbolic: bool) -> None:
        self.trace = trace
        self.is_symbolic = is_symbolic  # whether its lengths are not those of one call
        # weak, so that machine code is freed with the last reference to its function, not by the
        # collector
        self.reference = ref(self)
        self.instances = ShapeTable(self.reference, trace, MAX_INSTANCES)
        self.programs: list[SymbolicProgram] = []  # for all shapes, most recent first
        self.fast_keys: set[Hashable] = set()  # of its entries in the fast path
        self.is_gone = False  # evicted

    def add_program(self, program: SymbolicProgram) -> None:
        """Adds a program for all shapes that satisfy its conditions; may evict the oldest."""
        self.programs.insert(0, program)
        del self.programs[MAX_PROGRAMS:]

    @property
    def last_used(self) -> int:
        """When one of its instances was last used."""
        return max((x.uses.last_used for x in self.instances.values()), default=0)


@dataclass
class Entry:
    """The variants of a signature: several if sizes, attributes of objects or implicit states that
    the function depends on changed.
    """

    described: Description
    variants: list[Variant] = field(default_factory=list)

    def add(self, variant: Variant) -> list[Variant]:
        """Adds a variant; returns the oldest ones if they are evicted."""
        self.variants.insert(0, variant)
        dropped = self.variants[MAX_INSTANCES:]
        del self.variants[MAX_INSTANCES:]
        return dropped

    @property
    def last_used(self) -> int:
        """When one of its instances was last used."""
        return max((variant.last_used for variant in tuple(self.variants)), default=0)


def _drop_oldest(kept: dict[Any, Any], most: int) -> list[Any]:
    """Keeps the `most` most recently used ones; returns the others."""
    if len(kept) <= most:
        return []
    oldest = nsmallest(len(kept) - most, kept, key=lambda key: kept[key].last_used)
    return [kept.pop(key) for key in oldest]


def _shortened(entry: tuple[Any, ...], count: int) -> tuple[Any, ...] | None:
    """A chain of at most `count` entries for the fast path."""
    if count == 0:
        return None
    *rest, older = entry
    return (*rest, older and _shortened(older, count - 1))


class FunctionCache:
    """All programs of a function with the same captured containers.

    Lookups take no lock, because those of dicts are atomic. Changes require `lock`.
    """

    def __init__(self, captured: Any = None) -> None:
        self.lock = threading.RLock()
        self._fast_lock = threading.RLock()  # never held while something compiles
        self.captured = captured  # kept alive, so that their ids stay unique
        self.entries: dict[Hashable, Entry] = {}
        self.fast_entries: dict[Hashable, tuple[Any, ...]] = {}
        self.fast_hits = UseCounter()  # counted by the native fast path
        self.keeps_keyword_order: bool | None = None  # determined at the first call with several
        self.counts = Counts(self.fast_hits)
        self.has_warned = False  # about undeclared state
        self.lengths = Lengths()

    def get(self, known: Known) -> Instance | None:
        """The program for a signature and shapes; None if there is none yet."""
        entry = self.entries.get(known.key)
        return None if entry is None else self.get_of(entry, known)

    def get_of(self, entry: Entry, known: Known) -> Instance | None:
        """The same, given the entry of the signature."""
        for variant in tuple(entry.variants):
            instance = variant.instances.get(known.shapes)
            if instance is not None and variant.trace.fits(known.arrays, known.objects):
                instance.uses.used()
                return instance
        return None

    def add_instance(self, shapes: Shapes, instance: Instance) -> None:
        """Adds an instance of a trace; may evict the least recently used."""
        variant = instance.variant()
        if variant is not None:
            self.counts.evictions += len(variant.instances.add(shapes, instance))

    def add_variant(self, key: Hashable, variant: Variant, described: Description) -> None:
        """Adds a trace under a signature; may evict the least recently used entry."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(described)
        self._forget(entry.add(variant))
        for dropped in _drop_oldest(self.entries, MAX_ENTRIES):
            self._forget(dropped.variants)

    def _forget(self, variants: list[Variant]) -> None:
        """Removes evicted traces from the fast path."""
        with self._fast_lock:
            for variant in variants:
                self.counts.evictions += len(variant.instances)
                variant.is_gone = True
                for key in variant.fast_keys:
                    self.fast_entries.pop(key, None)

    def remember(self, fast_key: Hashable, instance: Instance, call: tuple[Any, ...]) -> None:
        """Makes the fast path handle equal calls from now on."""
        guards = instance.trace.attributes.guards or None
        with self._fast_lock:
            older = None if guards is None else self.fast_entries.get(fast_key)
            shortened = older and _shortened(older, MAX_GUARDED_ENTRIES - 1)
            entry = (*call, instance.uses, guards, shortened)
            self._add_fast(fast_key, instance.variant(), entry)

    def remember_shapeless(
        self, fast_key: Hashable, instance: Instance, call: tuple[Any, ...]
    ) -> None:
        """Makes the fast path handle calls that differ only in shapes from now on, including new
        shapes for which nothing has to be compiled.
        """
        variant = instance.variant()
        if variant is None:
            return
        trace, table = variant.trace, variant.instances
        guards = trace.attributes.guards or None
        if instance.entry is None:
            instance.entry = (*call, instance.uses, guards, None)
        with self._fast_lock:
            tables = self.fast_entries.get(fast_key, ())
            if table in tables[:1]:
                return
            _, _, *rest = call
            # Results that hold lengths differ for each shape, and are built in Python.
            is_same = trace.result is not None and not trace.result.has_lengths
            code, registers = (trace.guards.code if is_same else None) or (None, ())
            answer = (instance.result, *rest)
            counts = self.counts
            noted = counts.reshaped, counts.evicted, counts.reshapings
            table.prepare(guards, code, registers, variant.programs, answer, *noted)
            others = [other for other in tables if other is not table]
            self._add_fast(fast_key, variant, (table, *others[: MAX_GUARDED_ENTRIES - 1]))

    def _add_fast(
        self, fast_key: Hashable, variant: Variant | None, entry: tuple[Any, ...]
    ) -> None:
        if variant is None or variant.is_gone:
            return
        if len(self.fast_entries) >= MAX_FAST_ENTRIES:
            self.fast_entries.clear()
        self.fast_entries[fast_key] = entry
        variant.fast_keys.add(fast_key)

    def described(self) -> list[Description]:
        """All instances, the most recently used first."""
        entries = sorted(self.entries.values(), key=lambda entry: -entry.last_used)
        return [entry.described for entry in entries]

    def clear(self) -> None:
        """Drops all entries and counts."""
        with self.lock:
            self._forget([x for entry in self.entries.values() for x in entry.variants])
            self.entries.clear()
            self.lengths = Lengths()
            self.counts = Counts(self.fast_hits)

    def info(self) -> CacheInfo:
        """A snapshot of the counts."""
        with self.lock:
            variants = [x for entry in self.entries.values() for x in entry.variants]
            return self.counts.info(sum(len(variant.instances) for variant in variants))


class _Caches:
    """All caches of a function, by captured containers."""

    def __init__(self) -> None:
        # These live as long as a compiled function that uses them: compiling again traces again, as
        # in MLX, and captured containers cannot keep the function alive.
        self.made: WeakValueDictionary[Hashable, FunctionCache] = WeakValueDictionary()


def cache_of(
    owner: Any, inputs: Any = None, outputs: Any = None, shapeless: bool = False
) -> FunctionCache:
    """The cache of a function with these captured containers, which lives as long as a compiled
    function that uses it; traces for all shapes have one of their own.

    An owner that cannot be weakly referenced gets a new cache each time.
    """
    try:
        caches = per_owner_cache.of(owner, _Caches)
    except TypeError:
        caches = _Caches()
    made = FunctionCache((inputs, outputs))
    return caches.made.setdefault((id(inputs), id(outputs), shapeless), made)
