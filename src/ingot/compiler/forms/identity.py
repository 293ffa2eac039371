"""Identities: numbers that are equal where two ops, or what is in them, are the same."""

from __future__ import annotations

from typing import Any

from ingot.graph.op import Op, parameters

__all__ = ["OpIdentities"]


class OpIdentities:
    """The identities of ops, each worked out once: keys made of them are compared and hashed as
    quickly as integers. Numbers in ops count by type and sign: 0.0 is not -0.0, and 1 is not True.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        self._ops: list[Op] = []  # keeps them alive, so that their ids are not reused

    def of(self, op: Op) -> int:
        """A number that equal ops share."""
        found = self._known.get(id(op))
        if found is None:
            key = (type(op), op, *map(_exact, parameters(op).values()))
            found = self._known[id(op)] = self._numbers.setdefault(key, len(self._numbers))
            self._ops.append(op)
        return found


def _exact(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_exact, value))
    return value.hex() if type(value) is float else type(value)
