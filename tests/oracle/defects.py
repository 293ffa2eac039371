"""Where MLX 0.32.4 on the CPU is no oracle: what goes wrong there, what is asked of ingot instead.

For such a case MLX only infers the shape and the dtype, which it does without running the op. The
values must equal `expected`, or, where there is no right answer, ingot must merely finish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .cases import Case
from .inputs import Array


@dataclass(frozen=True)
class Defect:
    """A defect of MLX, the cases that meet it, and the values that are right, if any are."""

    reason: str
    applies: Callable[[Case], bool]
    expected: Callable[[Case], float] | None = None


# What a reduction of nothing gives.
NOTHING: dict[str, float] = {
    "all": 1,
    "any": 0,
    "sum": 0,
    "prod": 1,
    "mean": float("nan"),
    "var": float("nan"),
    "std": float("nan"),
    "count_nonzero": 0,
    "trace": 0,
    "einsum": 0,
    "allclose": 1,
    "array_equal": 1,
}


def _name(case: Case) -> str:
    return case.op.rpartition(".")[2]


def _empty_diagonal(
    shape: tuple[int, ...], offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> bool:
    try:
        return np.empty(shape).diagonal(offset, axis1, axis2).shape[-1] == 0
    except ValueError:
        return False  # Both libraries raise.


def _reduces_nothing(case: Case) -> bool:
    arrays = [arg for arg in case.args if isinstance(arg, Array)]
    if _name(case) == "array_equal" and len({array.shape for array in arrays}) > 1:
        return False  # Different shapes are unequal; nothing is reduced.
    if _name(case) == "trace" and len(arrays[0].shape) > 1:
        return _empty_diagonal(arrays[0].shape, *case.args[1:], **case.kwargs)
    return _name(case) in NOTHING and any(prod(array.shape) == 0 for array in arrays)


KNOWN_MLX_DEFECTS = [
    Defect(
        "a reduction over an axis of length 0 hangs now and then, or returns uninitialised memory",
        _reduces_nothing,
        lambda case: NOTHING[_name(case)],
    ),
]


def defect_of(case: Case) -> Defect | None:
    """The defect of MLX that a case meets, if any."""
    return next((defect for defect in KNOWN_MLX_DEFECTS if defect.applies(case)), None)
