"""Escapes: arrays of a trace that outlive it in undeclared locations.

A function that stores traced arrays in a model or a list which is not among its `outputs=` leaves
placeholders there, and later calls do not update it. Every node that a trace creates refers to the
trace's recorder, so its reference count shows cheaply whether any are left. Only then are they
searched for, and a warning names where they are. Arrays that were created during tracing but
neither depend on a placeholder nor replace another array, such as a cached mask, are fine.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import CellType
from typing import Any

from ingot._native import array, holders, topological
from ingot.compiler.trace.reach import Location, listed, reachable
from ingot.graph.reporting.source import SourceRecorder

__all__ = ["Escapes"]

_NO_VALUES = "These have no values, and reading them raises an error. "


class Escapes:
    """Finds arrays of one trace that outlive it."""

    def __init__(self) -> None:
        self.recorder = SourceRecorder()

    @property
    def count(self) -> int:
        """The number of nodes of the trace that are left, once the trace has dropped its own
        references.
        """
        return sys.getrefcount(self.recorder) - 2  # this object's, and the one of the call

    def warning(
        self,
        name: str,
        function: Callable[..., Any],
        others: dict[str, Any],
        returned: frozenset[int],
    ) -> str | None:
        """The warning for the author of a function; None if nothing has escaped.

        Args:
            name: The function's name.
            function: The function.
            others: What else may hold such arrays, by name.
            returned: The identities of the containers that the function returned: a list that it
                keeps and returns is given to the caller with values.
        """
        found = [
            (location, x)
            for location, x in reachable(function, others)
            if x._node.trace is self.recorder
        ]
        kept = [(location, x) for location, x in found if location.holder not in returned]
        arrays = [x for _, x in kept]
        is_stranded = _is_stranded(arrays)
        locations = (
            [location for location, _ in kept] if is_stranded or _replace_others(arrays) else []
        )
        elsewhere: Counter[str] = Counter()
        if self.count > self._explained([x for _, x in found]):
            known = returned | {id(x) for _, x in found}
            elsewhere = self._holders(known)
            if elsewhere:
                gc.collect()  # they may be garbage
                elsewhere = self._holders(known)
        if not locations and not elsewhere:
            return None
        texts = [location.path for location in _round_robin(locations)]
        texts += [what if times == 1 else f"{what} ({times})" for what, times in elsewhere.items()]
        values = _NO_VALUES if is_stranded or elsewhere else ""
        return (
            f"[compile] {name} stores arrays that it was traced with where nobody declared it: in "
            f"{listed(texts)}. {values}Calls of the compiled function do not update them. "
            f"{_remedy(function, locations)}"
        )

    def _explained(self, arrays: list[array]) -> int:
        """The number of nodes of the trace that these arrays refer to."""
        return sum(node.trace is self.recorder for node in topological(arrays))

    def _holders(self, known: frozenset[int]) -> Counter[str]:
        """The objects that hold arrays of the trace without values, both not among the known."""
        return Counter(
            _description(holder)
            for holder, x in holders(gc.get_objects(), self.recorder)
            if id(x) not in known and id(holder) not in known and _is_stranded([x])
        )


def _is_stranded(arrays: list[array]) -> bool:
    """Whether some of these arrays have no values and never will."""
    return any(node.op is None and not node.evaluated for node in topological(arrays))


def _replace_others(arrays: list[array]) -> bool:
    """Whether some of these arrays were computed from older ones that are no longer referenced: a
    step counter that was incremented, say.
    """
    nodes = topological(arrays)
    uses = Counter(id(source) for node in nodes for source in node.inputs)
    # The list, the variable and the call refer to the node as well.
    return any(node.trace is None and sys.getrefcount(node) == uses[id(node)] + 3 for node in nodes)


def _description(holder: Any) -> str:
    if isinstance(holder, CellType):
        return "a variable of an outer function"
    kind = type(holder)
    if kind.__module__ == "builtins":
        return f"a {kind.__name__} that the function reaches in a way that was not found"
    return f"an object of type {kind.__module__}.{kind.__qualname__}"


def _round_robin(locations: list[Location]) -> list[Location]:
    """The locations, one of each container at a time, so that every container comes early."""
    before: Counter[str | None] = Counter()
    ranks = []
    for location in locations:
        ranks.append(before[location.container])
        before[location.container] += 1
    return [
        location for _, location in sorted(zip(ranks, locations, strict=True), key=lambda x: x[0])
    ]


def _remedy(function: Callable[..., Any], locations: list[Location]) -> str:
    declared = dict.fromkeys(location.container for location in locations if location.container)
    containers = [
        text for text in declared if f"vars({text.rpartition('.')[0]})" not in declared
    ]  # without those that are inside another
    if not containers:
        return "Return them from the function, or keep them in a list or dict and declare that."
    state = ", ".join(containers)
    name = getattr(function, "__name__", "")
    name = name if name.isidentifier() else "function"
    return (
        f"Declare what the function changes, mx.compile({name}, inputs=[{state}], "
        f"outputs=[{state}]), or return it from the function."
    )
