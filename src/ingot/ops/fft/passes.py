"""Fourier transforms by the extension, axis by axis.

Input: the shape of an array of float32 or complex64, and the axes. Output: the routine of its
transform. Most lengths have plans. A few rows of lengths with large prime factors, whose plans need
many to fill vectors, are computed as convolutions with a chirp (Bluestein's algorithm) of lengths
that have small ones. Real rows of odd length are converted to complex numbers. Very long axes are
left to SciPy.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Literal

import numpy as np

from ingot import _native
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.routines import NO_OPERAND, Operand, Routine, RoutineBuilder, Spec
from ingot.graph.shape import size_of
from ingot.tuning_linalg import (
    MAX_CONVOLVED_LENGTH,
    MAX_FOURIER_LENGTH,
    MAX_FOURIER_PLANS,
    MAX_ROWS_WITHOUT_PLAN,
    MAX_SUMMED_PRIME,
)

__all__ = ["fourier_routine", "passes"]

_FORMS = ("complex", "real", "half")  # of the rows that the call "chirp" reads
Form = Literal["complex", "real", "half"]
_PRIMES = (2, 3, 5, 7)  # factors of the lengths of convolutions
_LARGEST_BUTTERFLY = 13  # the largest radix whose passes are unrolled


@lru_cache(maxsize=MAX_FOURIER_PLANS)
def _plan(length: int, is_real: bool) -> object | None:
    """The plan for an axis of `length` numbers; None if there is none."""
    if length > MAX_FOURIER_LENGTH or (is_real and length % 2 == 1):
        return None
    return _native.fourier_plan(length // 2 if is_real else length, is_real)


@lru_cache(maxsize=MAX_FOURIER_PLANS)
def _has_larger_factor(length: int, limit: int) -> bool:
    """Whether the length has a prime factor above the limit."""
    for factor in range(2, limit + 1):
        while length % factor == 0:
            length //= factor
    return length > 1


@lru_cache(maxsize=MAX_FOURIER_PLANS)
def _convolution_length(length: int) -> int:
    """The smallest length of a quick transform that holds the convolution of a row."""
    least = 2 * length - 1
    best = 1 << (least - 1).bit_length()
    powers = [1]
    for prime in _PRIMES[1:]:
        powers += [n * prime**k for n in powers for k in range(1, 4) if n * prime**k < best]
    for odd in powers:
        twos = 1 << max(4, (-(-least // odd) - 1).bit_length())
        best = min(best, odd * twos)
    return best


@lru_cache(maxsize=MAX_FOURIER_PLANS)
def _chirp(length: int, is_backward: bool) -> tuple[np.ndarray, np.ndarray]:
    """exp(-i pi j^2 / length), or its conjugate, and the transform of its conjugate, arranged for a
    cyclic convolution.
    """
    indices = np.arange(length, dtype=np.int64)
    angles = np.pi * (indices * indices % (2 * length)) / length
    chirp = np.exp((1j if is_backward else -1j) * angles)
    whole = np.zeros(_convolution_length(length), np.complex128)
    whole[:length] = chirp.conj()
    whole[len(whole) - length + 1 :] = chirp[:0:-1].conj()
    return chirp, np.fft.fft(whole)


@dataclass(frozen=True)
class _Pass:
    """The transform along one axis."""

    axis: int
    length: int  # of the axis where the numbers are real, or of both sides
    is_real: bool
    is_backward: bool

    @property
    def is_possible(self) -> bool:
        """Whether the extension computes it."""
        return self.has_plan or self.length <= MAX_CONVOLVED_LENGTH

    @property
    def has_plan(self) -> bool:
        """Whether its rows, or for odd lengths complex ones, have a plan."""
        return self.plan is not None or _plan(self.length, False) is not None

    @property
    def plan(self) -> object | None:
        return _plan(self.length, self.is_real)

    def result(self, shape: tuple[int, ...]) -> Spec:
        """The shape and the dtype of the transform of an array."""
        size = self.length // 2 + 1 if self.is_real and not self.is_backward else self.length
        dtype = np.float32 if self.is_real and self.is_backward else np.complex64
        return (*shape[: self.axis], size, *shape[self.axis + 1 :]), np.dtype(dtype)

    def is_convolved(self, rows: int) -> bool:
        """Whether so many rows are convolved with a chirp."""
        if rows > MAX_ROWS_WITHOUT_PLAN or self.length > MAX_CONVOLVED_LENGTH:
            return False
        return _has_larger_factor(self.length, MAX_SUMMED_PRIME)

    def is_quicker_in_scipy(self, rows: int) -> bool:
        """Whether SciPy takes less time for so many rows: it does not convert real ones."""
        if rows <= MAX_ROWS_WITHOUT_PLAN or self.plan is not None:
            return False
        return not self.has_plan or not _has_larger_factor(self.length, _LARGEST_BUTTERFLY)

    def build(self, calls: _Calls, source: Operand, target: Operand, scale: float) -> None:
        """Adds the calls that compute it."""
        is_convolved = self.is_convolved(prod(calls.around))
        if self.plan is not None and not is_convolved:
            calls.fourier(self.plan, source, target, self.is_backward, scale)
            return
        form: Form = "complex"
        if self.is_real:
            form = "half" if self.is_backward else "real"
        stored = self.length // 2 + 1 if form == "half" else self.length
        size = self.length // 2 + 1 if form == "real" else self.length
        plan = _plan(self.length, False)
        if plan is not None and not is_convolved:
            numbers = calls.memory(self.length)
            spectrum = calls.memory(self.length)
            calls.chirp(source, numbers, None, stored, self.length, self.length, form, False)
            calls.fourier(plan, numbers, spectrum, self.is_backward, scale)
            calls.chirp(spectrum, target, None, self.length, size, size, "complex", form == "half")
            return
        self._convolve(calls, source, target, scale, form, stored, size)

    def _convolve(
        self, calls: _Calls, source: Operand, target: Operand, scale: float,
        form: Form, stored: int, size: int,
    ) -> None:  # fmt: skip
        chirp, spectrum = _chirp(self.length, self.is_backward)
        total = len(spectrum)
        plan = _plan(total, False)
        first, second = calls.memory(total), calls.memory(total)
        calls.chirp(source, first, chirp, stored, self.length, total, form, False)
        calls.fourier(plan, first, second, False, 1.0)
        calls.chirp(second, first, spectrum, total, total, total, "complex", False)
        calls.fourier(plan, first, second, True, scale / total)
        to_real = form == "half"
        calls.chirp(second, target, chirp[:size], total, size, size, "complex", to_real)


class _Calls:
    """Adds calls on rows along one axis to a routine."""

    def __init__(self, builder: RoutineBuilder, before: int, behind: int) -> None:
        self.builder = builder
        self.around = before, behind

    def memory(self, length: int) -> Operand:
        """Memory for complex rows of that length."""
        return self.builder.shared(prod(self.around) * length * 8)

    def fourier(
        self, plan: object, source: Operand, target: Operand, is_backward: bool, scale: float
    ) -> None:
        """The transform of rows, times a factor."""
        factor = self.builder.constant(np.array(scale, np.float32))
        numbers = (*self.around, int(is_backward))
        self.builder.call("fourier", (source, target, factor), numbers, plan)

    def chirp(
        self, source: Operand, target: Operand, table: np.ndarray | None,
        stored: int, length: int, result: int, form: Form, to_real: bool,
    ) -> None:  # fmt: skip
        """Rows times a table, of numbers stored in that form; zeros follow the first `length`."""
        operand = NO_OPERAND
        if table is not None:
            operand = self.builder.constant(table.astype(np.complex64))
        numbers = (*self.around, stored, length, result, _FORMS.index(form), int(to_real))
        self.builder.call("chirp", (source, target, operand), numbers)


def passes(kind: str, axes: tuple[int, ...], lengths: tuple[int, ...]) -> list[_Pass] | None:
    """The passes of one of SciPy's transforms, in order; None if one of them is too long."""
    is_real, is_backward = kind in ("rfftn", "irfftn"), kind in ("ifftn", "irfftn")
    last = len(axes) - 1
    found = [
        _Pass(axis, length, is_real and number == last, is_backward)
        for number, (axis, length) in enumerate(zip(axes, lengths, strict=True))
    ]
    if not all(one.is_possible for one in found):
        return None
    # The real axis, the last, halves what the others go through.
    return found if is_backward else found[::-1]


def fourier_routine(steps: list[_Pass], x: Spec, norm: str) -> Routine | None:
    """The transform of an array, divided as `norm` says; None if it has no elements, or so many
    rows without a plan that SciPy, which has them in its vectors, takes less time.
    """
    if size_of(x[0]) == 0:
        return None
    total = prod(step.length for step in steps)
    divides = norm == ("backward" if steps[0].is_backward else "forward")
    scale = total**-0.5 if norm == "ortho" else 1 / total if divides else 1.0
    specs = [x]
    for step in steps:
        specs.append(step.result(specs[-1][0]))
    builder = RoutineBuilder([x], [specs[-1]])
    source = builder.inputs[0]
    for number, step in enumerate(steps):
        (shape, _), (result, dtype) = specs[number], specs[number + 1]
        around = size_of(shape[: step.axis]), size_of(shape[step.axis + 1 :])
        if step.is_quicker_in_scipy(prod(around)):
            return None
        is_last = number == len(steps) - 1
        target = builder.results[0] if is_last else builder.shared(size_of(result) * dtype.itemsize)
        step.build(_Calls(builder, *around), source, target, scale)
        source, scale = target, 1.0
    return builder.done()
