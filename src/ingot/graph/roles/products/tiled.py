"""Ops with their own loop nests: products, and ops built on products."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ingot._native import SmallProduct
from ingot.graph.roles.host import Host

__all__ = ["Tiled"]


class Tiled(Host, role=True):
    """Sums of products, for which `compiler/lower/products` has builders of loop nests.

    Roles derive from it and declare what their builders need to know. In eager mode, ops run
    through the same nests, as programs of one op, unless `runs_alone` leaves small ones to their
    `evaluate` rule.
    """

    # Whether inputs that `runs_alone` declines get a program once they recur often.
    is_compiled_often: ClassVar[bool] = False

    def runs_alone(self, *shapes: tuple[int, ...]) -> bool:
        """Whether inputs of these shapes justify a program."""
        return True

    def small_product(self, *values: np.ndarray) -> SmallProduct | None:
        """What computes inputs of this layout that justify no program; None if the `evaluate` rule
        does.
        """
        return None
