"""Scans: running sums, products and extremes along an axis, and differences, which undo sums.

All scans have the form out[i] = f(out[i-1], x[i]). Their derivatives follow one linear recurrence
whose coefficients are the partial derivatives of f, so each scan only defines those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ingot._native import Dtype, array, scan_rows, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import (
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    from_numpy,
    int32,
    is_floating,
    is_inexact,
    uint8,
)
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.casts import converted
from ingot.graph.numerics.routines import Routine, RoutineBuilder, Spec
from ingot.graph.op import apply
from ingot.graph.reporting.hints import dtype_hint
from ingot.graph.roles import Host, Scan
from ingot.graph.shape import Shape, normalize_axis, size_of
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.complex_numbers import conj
from ingot.ops.elementwise.exponential import exp
from ingot.ops.internal.selection import axes_around
from ingot.ops.internal.summation import work_dtype
from ingot.ops.reduce.axes import as_int, flattened
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.movement import require_array
from ingot.ops.shape.slicing import Slice, SliceUpdate, broadcast_batch

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "logcumsumexp",
]

# The functions of native scans, by number.
KINDS = (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp)

_HOST_STEP = "each element needs the one before it"


def section(a: array, axis: int, start: int, stop: int, stream: StreamLike = None) -> array:
    """The elements from `start` to before `stop` of one axis."""
    begin = tuple(start if at == axis else 0 for at in range(a.ndim))
    end = (*a.shape[:axis], stop, *a.shape[axis + 1 :])
    return apply(Slice(begin, end, (1,) * a.ndim), a, stream=stream)


def _shifted(a: array, axis: int, forward: bool) -> array:
    """The elements shifted by one position along the axis, with zero shifted in."""
    length = a.shape[axis]
    if length == 0:
        return a
    source, target = (0, 1) if forward else (1, 0)
    moved = section(a, axis, source, source + length - 1)
    begin = tuple(target if at == axis else 0 for at in range(a.ndim))
    end = (*a.shape[:axis], target + length - 1, *a.shape[axis + 1 :])
    return apply(SliceUpdate(begin, end, (1,) * a.ndim), zeros(a.shape, a.dtype), moved)


@dataclass(frozen=True)
class Recurrence(Host):
    """out[i] = factor[i] * out[i-1] + term[i] along `axis`, from the end if `reverse`.

    There is nothing before the first element: out[0] = term[0].
    """

    axis: int
    reverse: bool

    why_host = _HOST_STEP

    def infer(self, factor: array, term: array) -> tuple[Shape, Dtype]:
        return term.shape, term.dtype

    def evaluate(self, factor: np.ndarray, term: np.ndarray) -> np.ndarray:
        kind = work_dtype(term.dtype)
        factor, out = factor.astype(kind), term.astype(kind)
        along = np.moveaxis(factor, self.axis, 0), np.moveaxis(out, self.axis, 0)
        a, b = (x[::-1] for x in along) if self.reverse else along
        # Recursive doubling: each round doubles the number of positions an element covers.
        reach = 1
        while reach < len(b):
            earlier = b[:-reach]
            # A product of many factors may overflow, but zero times it stays zero.
            b[reach:] += np.where(earlier == 0, 0, a[reach:] * earlier)
            a[reach:] *= a[:-reach].copy()
            reach *= 2
        return out.astype(term.dtype, copy=False)

    def vjp(self, cotangent: array, out: array, factor: array, term: array) -> tuple[array, array]:
        following = _shifted(factor, self.axis, forward=self.reverse)
        following = astype(conj(following), cotangent.dtype)
        back = apply(Recurrence(self.axis, not self.reverse), following, cotangent)
        previous = _shifted(out, self.axis, forward=not self.reverse)
        return back * conj(previous), back

    def jvp(
        self, tangents: tuple[array | None, array | None], out: array, factor: array, term: array
    ) -> array | None:
        by_factor, by_term = tangents
        if by_factor is not None:
            change = by_factor * _shifted(out, self.axis, forward=not self.reverse)
            by_term = change if by_term is None else by_term + change
        return None if by_term is None else apply(self, factor, by_term)

    def vmap(self, size: int, batched: tuple[bool, bool], factor: array, term: array) -> array:
        return apply(
            Recurrence(self.axis + 1, self.reverse),
            broadcast_batch(factor, size, batched[0]),
            broadcast_batch(term, size, batched[1]),
        )


@dataclass(frozen=True)
class _Cumulative(Scan, abstract=True):
    """Scans of the form out[i] = f(out[i-1], x[i]), where `step` is what NumPy calls f."""

    axis: int
    reverse: bool
    inclusive: bool

    # (out, previous, x) -> the derivatives of out[i] by out[i-1] and by x[i], if inclusive
    partials: ClassVar[Callable[..., tuple[array, array]]]

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        if x.size == 0:
            return x
        work = work_dtype(x.dtype)
        rows = axes_around(x if work == x.dtype else converted(x, work), self.axis)
        out: np.ndarray = np.empty(rows.shape, work)
        source, target = (each[:, ::-1] if self.reverse else each for each in (rows, out))
        if not self.inclusive:
            target[:, 0] = self.start(x.dtype)
            source, target = source[:, :-1], target[:, 1:]
        if not self.scanned(source, target):
            target[...] = self.accumulate(source)
        out = out.reshape(x.shape)
        return out if work == x.dtype else converted(out, x.dtype)

    def routine(self, x: Spec) -> Routine | None:
        shape, dtype = x
        known, kind = from_numpy(dtype), KINDS.index(self.step)
        if known is None or size_of(shape) == 0 or work_dtype(dtype) != dtype:
            return None
        one = np.ones((1, 1, 1), dtype)
        if not scan_rows(known, kind, one, one.copy()):
            return None
        builder = RoutineBuilder([x], [x])
        start = builder.constant(np.array(self.start(dtype), dtype))
        operands = (*builder.inputs, *builder.results, start)
        lengths = (size_of(shape[: self.axis]), shape[self.axis], size_of(shape[self.axis + 1 :]))
        numbers = (known.number, kind, *lengths, int(self.reverse), int(self.inclusive))
        builder.call("scan", operands, numbers)
        return builder.done()

    def scanned(self, source: np.ndarray, target: np.ndarray) -> bool:
        """Whether native code has filled the target with the scan along the middle axis."""
        dtype = from_numpy(source.dtype)
        assert dtype is not None
        return scan_rows(dtype, KINDS.index(self.step), source, target)

    def accumulate(self, source: np.ndarray) -> np.ndarray:
        """The scan along the middle axis for dtypes that native code does not support."""
        return self.step.accumulate(source, 1)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        if not self.inclusive:
            out = apply(replace(self, inclusive=True), x)
            cotangent = _shifted(cotangent, self.axis, forward=self.reverse)
        cotangent = cotangent if cotangent.dtype is not bool_ else astype(cotangent, int32)
        by_previous, by_element = self.partials(out, self.exclusive(x), x)
        following = _shifted(by_previous, self.axis, forward=self.reverse)
        back = apply(Recurrence(self.axis, not self.reverse), conj(following), cotangent)
        return (back * conj(by_element),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        if not self.inclusive:
            out = apply(replace(self, inclusive=True), x)
        by_previous, by_element = self.partials(out, self.exclusive(x), x)
        direct = by_element * tangents[0]
        before = astype(by_previous, direct.dtype)
        change = apply(Recurrence(self.axis, self.reverse), before, direct)
        return change if self.inclusive else _shifted(change, self.axis, forward=not self.reverse)

    def exclusive(self, x: array) -> array:
        """At each position the result before it."""
        return apply(replace(self, inclusive=False), x)

    def accumulates_in(self, dtype: Dtype) -> Dtype | None:
        if dtype is complex64:
            return None
        if dtype is bool_:
            return uint8
        return float32 if dtype in (float16, bfloat16) else dtype


class CumSum(_Cumulative):
    """Running sum."""

    identity = 0
    step = np.add

    def accumulates_in(self, dtype: Dtype) -> Dtype | None:
        return float64 if is_floating(dtype) else super().accumulates_in(dtype)

    def emit_step(self, k: Kernel, previous: Value, x: Value) -> Value:
        return k.add(previous, x)

    def scanned(self, source: np.ndarray, target: np.ndarray) -> bool:
        if source.dtype.kind != "c":
            return super().scanned(source, target)
        # The parts of complex numbers add up separately.
        parts = [getattr(each, part) for part in ("real", "imag") for each in (source, target)]
        return super().scanned(*parts[:2]) and super().scanned(*parts[2:])

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (apply(replace(self, reverse=not self.reverse), cotangent),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return None if tangents[0] is None else apply(self, tangents[0])


class CumProd(_Cumulative):
    """Running product; on bool, and."""

    identity = 1
    step = np.multiply

    def emit_step(self, k: Kernel, previous: Value, x: Value) -> Value:
        return k.multiply(previous, x)

    def partials(self, out: array, previous: array, x: array) -> tuple[array, array]:
        return x, previous


class _CumulativeExtreme(_Cumulative, abstract=True):
    """Shared by CumMax and CumMin."""

    def partials(self, out: array, previous: array, x: array) -> tuple[array, array]:
        # The last of tied elements gets the derivative.
        taken = (x == out) | (x != x)
        return astype(~taken, x.dtype), astype(taken, x.dtype)


class CumMax(_CumulativeExtreme):
    """Largest element so far; NaN from the first NaN on."""

    identity = -math.inf
    step = np.maximum

    def emit_step(self, k: Kernel, previous: Value, x: Value) -> Value:
        return k.maximum(previous, x)


class CumMin(_CumulativeExtreme):
    """Smallest element so far; NaN from the first NaN on."""

    identity = math.inf
    step = np.minimum

    def emit_step(self, k: Kernel, previous: Value, x: Value) -> Value:
        return k.minimum(previous, x)


class LogCumSumExp(_Cumulative):
    """Logarithm of the running sum of exponentials."""

    identity = -math.inf
    step = np.logaddexp

    why_host = "its functions cost more than the memory that fusion would save"

    def accumulates_in(self, dtype: Dtype) -> Dtype | None:
        return None

    def start(self, dtype: np.dtype) -> complex | bool:
        return self.identity  # also for complex numbers: its exponential is 0

    def accumulate(self, source: np.ndarray) -> np.ndarray:
        # NumPy has no logaddexp for complex numbers: recursive doubling instead.
        out = source.copy()
        reach = 1
        while reach < out.shape[1]:
            out[:, reach:] = _complex_logaddexp(out[:, reach:], out[:, :-reach])
            reach *= 2
        return out

    def partials(self, out: array, previous: array, x: array) -> tuple[array, array]:
        # While all elements are -inf, no element has a share in the sum.
        nothing = out == -math.inf
        by_previous = where(nothing, 0, exp(previous - out))
        return astype(by_previous, x.dtype), astype(where(nothing, 0, exp(x - out)), x.dtype)


def _complex_logaddexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    larger = np.where(a.real > b.real, a, b)
    smaller = np.where(a.real > b.real, b, a)
    sums = larger + np.log1p(np.exp(smaller - larger))
    return np.where(larger.real == -np.inf, larger, sums)


def _scan(
    name: str,
    kind: type[_Cumulative],
    a: array,
    axis: int | None,
    reverse: bool,
    inclusive: bool,
    stream: StreamLike,
) -> array:
    if axis is None:
        a = flattened(require_array(name, a), stream)
        position = 0
    else:
        position = normalize_axis(name, axis, require_array(name, a).ndim)
    return apply(kind(position, bool(reverse), bool(inclusive)), a, stream=stream)


def _converted(name: str, a: array, dtype: Dtype | None, stream: StreamLike) -> array:
    if dtype is None:
        return require_array(name, a)
    if not isinstance(dtype, Dtype):
        raise TypeError(
            f"[{name}] dtype must be a dtype such as mx.float32, got {dtype!r}.{dtype_hint(dtype)}"
        )
    return astype(require_array(name, a), dtype, stream)


def cumsum(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    dtype: Dtype | None = None,
    stream: StreamLike = None,
) -> array:
    """Running sum.

    Args:
        a: An array.
        axis: The axis to sum along; the flattened array if None.
        reverse: Whether to sum from the end.
        inclusive: Whether the sum at a position includes the element there.
        dtype: The dtype to convert the elements to first.
        stream: The stream or device to run on.

    Returns:
        The sums, of bool in int32.
    """
    a = _converted("cumsum", a, dtype, stream)
    if a.dtype is bool_:
        a = astype(a, int32, stream)
    return _scan("cumsum", CumSum, a, axis, reverse, inclusive, stream)


def cumprod(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    dtype: Dtype | None = None,
    stream: StreamLike = None,
) -> array:
    """Running product; arguments as for `cumsum`."""
    a = _converted("cumprod", a, dtype, stream)
    return _scan("cumprod", CumProd, a, axis, reverse, inclusive, stream)


cumulative_sum = cumsum
cumulative_prod = cumprod


def cummax(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: StreamLike = None,
) -> array:
    """Largest element so far; arguments as for `cumsum`."""
    return _scan("cummax", CumMax, a, axis, reverse, inclusive, stream)


def cummin(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: StreamLike = None,
) -> array:
    """Smallest element so far; arguments as for `cumsum`."""
    return _scan("cummin", CumMin, a, axis, reverse, inclusive, stream)


def logcumsumexp(
    a: array,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: StreamLike = None,
) -> array:
    """Logarithm of the running sum of exponentials, without overflow; arguments as for `cumsum`."""
    if not is_inexact(require_array("logcumsumexp", a).dtype):
        a = astype(a, float32, stream)
    return _scan("logcumsumexp", LogCumSumExp, a, axis, reverse, inclusive, stream)


def diff(a: array, /, n: int = 1, axis: int = -1, *, stream: StreamLike = None) -> array:
    """Differences of neighbours, taken `n` times along an axis that shortens by one each time.

    Neighbours of dtype bool differ or not.
    """
    position = normalize_axis("diff", axis, require_array("diff", a).ndim)
    times = as_int("diff", "n", n)
    if times < 0:
        raise ValueError(f"[diff] cannot take differences {times} times: n must not be negative.")
    result = wrap(a)
    # Further differences of an empty array change nothing.
    for length in range(a.shape[position], max(a.shape[position] - times, 0), -1):
        later = section(result, position, 1, length, stream)
        earlier = section(result, position, 0, length - 1, stream)
        result = later != earlier if a.dtype is bool_ else later - earlier
    return result
