"""Captured constants: checks whether a traced function's constants have been replaced.

Arrays that a function reads from its closure, from globals or from objects are constants of the
compiled program; replacing them later changes nothing, which is documented and easily forgotten.
With INGOT_CHECK_CAPTURES=1 every call checks whether one was replaced, and warns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ingot._native import Node, array
from ingot.compiler.trace.reach import Location, listed, reachable

__all__ = ["Captures", "constants_of"]


def constants_of(nodes: Iterable[Node], outputs: Iterable[array], recorder: Any) -> set[Node]:
    """The nodes that existed before a trace and that its outputs use directly, without what those
    in turn were computed from. `nodes` are all that the outputs depend on.
    """
    outside = {node for node in nodes if node.trace is not recorder}
    if not any(node.inputs for node in outside):
        return outside
    found = {x._node for x in outputs if x._node in outside}
    for node in nodes:
        if node not in outside:
            found |= outside.intersection(node.inputs)
    return found


class Captures:
    """The locations where a function found constants, and the nodes that were there."""

    def __init__(self, function: Callable[..., Any], constants: set[Node]) -> None:
        self._function = function
        self._nodes: dict[Location, Node] = {
            location: x._node for location, x in reachable(function) if x._node in constants
        }

    def warning(self, name: str) -> str | None:
        """A warning for the author of the function; None if nothing was replaced since the last
        check.
        """
        if not self._nodes:
            return None
        now = {location: x._node for location, x in reachable(self._function)}
        still_there = set(now.values())
        replaced = []
        for location, node in self._nodes.items():
            # The path of a location may have become shorter.
            if now.get(location) is not node and (location in now or node not in still_there):
                replaced.append(location)
        if not replaced:
            return None
        for location in replaced:
            self._nodes[location] = now.get(location, self._nodes[location])
        paths = listed([location.path for location in replaced])
        containers = dict.fromkeys(
            location.container for location in replaced if location.container
        )
        way_out = f", or capture what holds it: inputs=[{', '.join(containers)}]"
        return (
            f"[compile] {name} goes on with the values that it was traced with: what was in "
            f"{paths} has been replaced since, but an array "
            "that is neither an argument nor captured is a constant. Pass it as an argument"
            f"{way_out if containers else ''}."
        )
