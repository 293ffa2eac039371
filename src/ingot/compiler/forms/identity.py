"""Identities: hashable values that are equal where two ops, or what is in them, are the same."""

from __future__ import annotations

from typing import Any

from ingot.graph.op import Op, parameters

__all__ = ["OpIdentities"]


class OpIdentities:
    """The identities of ops, each worked out once. Numbers in ops count by type and sign: 0.0 is
    not -0.0, and 1 is not True.
    """

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def of(self, op: Op) -> Any:
        """A key that equal ops share. It refers to the op, so that the op's id is not reused."""
        found = self._known.get(id(op))
        if found is None:
            found = (type(op), op, *map(_exact, parameters(op).values()))
            self._known[id(op)] = found
        return found


def _exact(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_exact, value))
    return value.hex() if type(value) is float else type(value)
