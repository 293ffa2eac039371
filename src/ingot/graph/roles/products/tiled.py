"""Ops that have loop nests of their own: products, and what is made of products."""

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
