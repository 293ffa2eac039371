"""Fourier transforms by the extension, axis by axis.

Input: an array of float32 or complex64, and the axes. Output: its transform. Lengths with large
prime factors, odd lengths of real transforms and very long axes have no plan; SciPy computes these.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ingot import _native
from ingot.graph.lazy_dataclass import dataclass
from ingot.tuning_linalg import MAX_FOURIER_LENGTH, MAX_FOURIER_PLANS

__all__ = ["passes", "run"]


@lru_cache(maxsize=MAX_FOURIER_PLANS)
def _plan(length: int, is_real: bool) -> object | None:
    """The plan for an axis of `length` numbers; None if there is none."""
    if length > MAX_FOURIER_LENGTH or (is_real and length % 2 == 1):
        return None
    return _native.fourier_plan(length // 2 if is_real else length, is_real)


@dataclass(frozen=True)
class _Pass:
    """The transform along one axis."""

    axis: int
    length: int  # of the axis where the numbers are real, or of both sides
    is_real: bool
    is_backward: bool

    @property
    def plan(self) -> object | None:
        return _plan(self.length, self.is_real)

    def run(self, x: np.ndarray, scale: float) -> np.ndarray:
        """The transform of `x` times a factor."""
        x = np.ascontiguousarray(x)
        before, behind = prod(x.shape[: self.axis]), prod(x.shape[self.axis + 1 :])
        size = self.length // 2 + 1 if self.is_real and not self.is_backward else self.length
        dtype = np.float32 if self.is_real and self.is_backward else np.complex64
        shape = (*x.shape[: self.axis], size, *x.shape[self.axis + 1 :])
        result = np.empty(shape, dtype)
        rows = x.reshape(before, x.shape[self.axis], behind)
        results = result.reshape(before, size, behind)
        _native.transform_rows(self.plan, self.is_backward, scale, rows, results)
        return result


def passes(kind: str, axes: tuple[int, ...], lengths: tuple[int, ...]) -> list[_Pass] | None:
    """The passes of one of SciPy's transforms, in order; None if one of them has no plan."""
    is_real, is_backward = kind in ("rfftn", "irfftn"), kind in ("ifftn", "irfftn")
    last = len(axes) - 1
    found = [
        _Pass(axis, length, is_real and number == last, is_backward)
        for number, (axis, length) in enumerate(zip(axes, lengths, strict=True))
    ]
    if any(one.plan is None for one in found):
        return None
    # The real axis, the last, halves what the others go through.
    return found if is_backward else found[::-1]


def run(steps: list[_Pass], x: np.ndarray, norm: str) -> np.ndarray:
    """The transform of `x`, divided as `norm` says."""
    total = prod(step.length for step in steps)
    divides = norm == ("backward" if steps[0].is_backward else "forward")
    scale = total**-0.5 if norm == "ortho" else 1 / total if divides else 1.0
    for step in steps:
        x = step.run(x, scale)
        scale = 1.0
    return x
