"""Checks: ops that return their first input or raise."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Check"]


class Check(Op, role=True):
    """The first input, unless the second input, a flag, is set: then it raises.

    Write `evaluate`, which raises. In compiled programs a kernel computes the flag, nothing that
    reads the result runs before the flag is known, and `evaluate` is only called where it is set.
    """

    @abstractmethod
    def evaluate(self, x: np.ndarray, flag: np.ndarray) -> np.ndarray:
        """`x`; raises if the flag is set."""

    emit = no_rule("an error is raised by the host")
