"""Ops with their own loop nests: products, and ops built on products."""

from __future__ import annotations

from ingot.graph.roles.host import Host

__all__ = ["Tiled"]


class Tiled(Host, role=True):
    """Sums of products, for which `compiler/lower/products` has builders of loop nests.

    Roles derive from it and say what their builders need to know. Uncompiled, ops run through the
    same nests, as programs of one op, unless `runs_alone` says that their `evaluate` rule is to
    compute small ones.
    """

    def runs_alone(self, *shapes: tuple[int, ...]) -> bool:
        """Whether inputs of these shapes are worth a program."""
        return True
