"""Host steps: ops that are computed by their `evaluate` rule, between kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.numerics.routines import Routine

__all__ = ["Host"]


class Host(Op, role=True):
    """One call of `evaluate`, by NumPy, SciPy or the extension, on inputs and results in memory.

    Write `why_host`, which explanations show. An op that has an expansion into other roles for most
    inputs returns it from `expanded`; then `why_host` says when there is none.
    """

    why_host: ClassVar[str] = "its elements depend on many others"

    emit = no_rule("it is computed as a whole, by one call of its evaluate rule")

    def host_function(self) -> Callable[..., list[np.ndarray]] | None:
        """What compiled programs call instead of `evaluate`, where something is quicker: from the
        inputs to a list of contiguous results that share no memory with them.
        """
        return None

    def routine(self, *inputs: Any) -> Routine | None:
        """What compiled programs run without Python, for contiguous inputs of these shapes and
        NumPy dtypes; None if there is nothing. Where it fails, they call `evaluate`.
        """
        return None
