"""Array creation: constant fills, ranges, and MLX's constants.

A filled array is a broadcast of one number, so it costs neither time nor memory until its elements
are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np

from ingot._native import Dtype, array, constant, make
from ingot.graph.arrays.construct import scalar
from ingot.graph.device import StreamLike
from ingot.graph.dtype import (
    bool_,
    complex64,
    float32,
    float64,
    int32,
    int64,
    is_inexact,
    is_integer,
)
from ingot.graph.errors import value_text
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply, no_rule, zero_jvp, zero_vjp
from ingot.graph.reporting.hints import dtype_hint
from ingot.graph.roles import Host, Map
from ingot.graph.shape import Shape, as_shape
from ingot.ops.elementwise.casting import astype
from ingot.ops.internal.adjoints import Broadcast, op_for_shape
from ingot.ops.internal.positions import IN_PROGRAMS, Positions
from ingot.ops.shape.movement import as_array, broadcast_to, require_array

__all__ = [
    "arange",
    "e",
    "empty",
    "empty_like",
    "euler_gamma",
    "full",
    "full_like",
    "inf",
    "linspace",
    "nan",
    "newaxis",
    "ones",
    "ones_like",
    "pi",
    "zeros",
    "zeros_like",
]

e = math.e
euler_gamma = 0.5772156649015329
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi

_MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True)
class Arange(Host):
    """The numbers `start + i * step` for i below `length`."""

    start: float
    step: float
    length: int
    dtype: Dtype

    why_host = "it has no elements"

    def infer(self) -> tuple[Shape, Dtype]:
        return (self.length,), self.dtype

    def evaluate(self) -> np.ndarray:
        if is_integer(self.dtype):
            return self._integers()
        # One rounding to the dtype; repeated addition would accumulate errors.
        spaced = np.arange(self.length, dtype=np.float64)
        if self.step != 1:
            spaced *= self.step
        if self.start != 0:
            spaced += self.start
        return spaced.astype(self.dtype.numpy, copy=False)

    def _integers(self) -> np.ndarray:
        kind: Any = self.dtype.numpy
        limits = np.iinfo(kind)
        last = self.start + self.step * self.length
        if self.step == 0:
            return np.full(self.length, self.start % 2**64, np.uint64).astype(kind)
        if limits.min <= min(self.start, last) and max(self.start, last) <= limits.max:
            return np.arange(self.start, last, self.step, dtype=kind)
        # Elements beyond the dtype's range wrap around, like the low bits of a wider integer.
        counted = np.arange(self.length, dtype=np.uint64) * np.uint64(self.step % 2**64)
        return (counted + np.uint64(self.start % 2**64)).astype(kind)

    vjp = zero_vjp
    jvp = zero_jvp

    def expanded(self, build: Callable[..., Any]) -> Any | None:
        if self.length == 0:
            return None
        indices = build(Positions((self.length,), (0,), int64))
        return build(Counted(self.start, self.step, self.dtype), indices)

    vmap = no_rule("it has no inputs, so it is the same for all examples")


@dataclass(frozen=True)
class Counted(Map):
    """`start + i * step` for positions i, as `Arange` computes it."""

    start: float
    step: float
    dtype: Dtype

    def infer(self, position: array) -> tuple[Shape, Dtype]:
        return position.shape, self.dtype

    def interval(self, position: Any) -> tuple[int, int] | None:
        if not is_integer(self.dtype) or position is None:
            return None
        ends = [int(self.start) + int(self.step) * end for end in position]
        return min(ends), max(ends)

    def evaluate(self, position: np.ndarray) -> np.ndarray:
        every = Arange(self.start, self.step, int(position.max(initial=-1)) + 1, self.dtype)
        return every.evaluate()[position]

    def emit(self, k: Kernel, position: Value) -> Value:
        if is_integer(self.dtype):
            # Modulo 2^64: values beyond the dtype's range wrap around.
            step = k.constant(_signed(self.step), position)
            start = k.constant(_signed(self.start), position)
            return k.cast(k.add(k.multiply(position, step), start), self.dtype)
        value = k.cast(position, float64)
        if self.step != 1:
            value = k.multiply(value, k.constant(self.step, value))
        if self.start != 0:
            value = k.add(value, k.constant(self.start, value))
        return k.cast(value, self.dtype)

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)


def _signed(number: float) -> int:
    """The number in [-2^63, 2^63) that is congruent to another modulo 2^64."""
    whole = number if isinstance(number, int) else int(number)
    if -(2**63) <= whole < 2**63:  # also true of lengths, which stay symbolic
        return whole
    return (whole + 2**63) % 2**64 - 2**63


def _check_dtype(name: str, dtype: Any) -> None:
    if dtype is not None and not isinstance(dtype, Dtype):
        raise TypeError(
            f"[{name}] dtype must be a dtype such as mx.float32, got {value_text(dtype)}."
            f"{dtype_hint(dtype)}"
        )


@lru_cache(maxsize=64)
def _constant(value: int, dtype: Dtype) -> array:
    return scalar(value, dtype)


def _filled(shape: Shape, value: int, dtype: Dtype, stream: StreamLike) -> array:
    number = _constant(value, dtype)
    if not shape:
        return constant(
            number._data, dtype
        )  # a separate node: `compile` identifies inputs by their nodes
    return make(op_for_shape(Broadcast, shape), (number,), shape, dtype, stream)


def zeros(
    shape: int | Sequence[int], dtype: Dtype | None = float32, *, stream: StreamLike = None
) -> array:
    """An array of zeros."""
    _check_dtype("zeros", dtype)
    return _filled(as_shape("zeros", shape), 0, dtype or float32, stream)


def ones(
    shape: int | Sequence[int], dtype: Dtype | None = float32, *, stream: StreamLike = None
) -> array:
    """An array of ones."""
    _check_dtype("ones", dtype)
    return _filled(as_shape("ones", shape), 1, dtype or float32, stream)


def empty(
    shape: int | Sequence[int], dtype: Dtype | None = float32, *, stream: StreamLike = None
) -> array:
    """An array of zeros, like `zeros`: arrays without values are not offered."""
    return zeros(shape, dtype, stream=stream)


def full(
    shape: int | Sequence[int],
    vals: Any,
    dtype: Dtype | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """An array filled with a value, or with an array that is broadcast.

    Args:
        shape: The shape of the result.
        vals: A number, or an array that broadcasts to `shape`.
        dtype: The dtype that a number takes if it can hold its kind. An array keeps its own.
        stream: The stream or device to run on.
    """
    _check_dtype("full", dtype)
    return broadcast_to(as_array("full", vals, dtype), as_shape("full", shape), stream=stream)


def zeros_like(a: array, /, dtype: Dtype | None = None, *, stream: StreamLike = None) -> array:
    """Zeros in the shape of `a`, and in its dtype unless another is given."""
    _check_dtype("zeros_like", dtype)
    return _filled(require_array("zeros_like", a).shape, 0, dtype or a.dtype, stream)


def ones_like(a: array, /, dtype: Dtype | None = None, *, stream: StreamLike = None) -> array:
    """Ones in the shape of `a`, and in its dtype unless another is given."""
    _check_dtype("ones_like", dtype)
    return _filled(require_array("ones_like", a).shape, 1, dtype or a.dtype, stream)


def empty_like(a: array, /, dtype: Dtype | None = None, *, stream: StreamLike = None) -> array:
    """Zeros in the shape of `a`, like `zeros_like`: arrays without values are not offered."""
    return zeros_like(a, dtype, stream=stream)


def full_like(
    a: array, vals: Any, dtype: Dtype | None = None, *, stream: StreamLike = None
) -> array:
    """An array in the shape of `a`, filled with `vals`, in its dtype unless another is given."""
    require_array("full_like", a)
    _check_dtype("full_like", dtype)
    wanted = dtype or a.dtype
    value = astype(as_array("full_like", vals, wanted), wanted)
    return broadcast_to(value, a.shape, stream=stream)


@overload
def arange(
    start: float,
    stop: float | None,
    step: float | None = None,
    dtype: Dtype | None = None,
    *,
    stream: StreamLike = None,
) -> array: ...


@overload
def arange(
    stop: float,
    step: float | None = None,
    dtype: Dtype | None = None,
    *,
    stream: StreamLike = None,
) -> array: ...


def arange(*bounds: Any, stream: StreamLike = None, **named: Any) -> array:
    """Numbers from `start` up to, but not including, `stop`.

    Called as `arange(stop)`, `arange(start, stop)`, `arange(start, stop, step)` or
    `arange(stop, step=step)`, each with a `dtype` after it.

    Args:
        *bounds: `start` (0 by default), `stop`, `step` (1 by default) and `dtype`, by position.
        **named: The same by name.
        stream: The stream or device to run on.

    Returns:
        An array of `dtype`; without it of float32 if any argument is a float, else of int32, or
        int64 if an argument does not fit. As in NumPy, the increment is the difference of the first
        two numbers in that dtype.
    """
    if len(bounds) == 1 and not named and type(bounds[0]) is int and 0 <= bounds[0] < 2**31:
        return make(Arange(0, 1, bounds[0], int32), (), bounds, int32, stream)
    start, stop, step, dtype = _range_arguments(bounds, named)
    given = [number for number in (start, stop, step) if number is not None]
    for number in given:
        if not isinstance(number, (int, float)):
            raise TypeError(f"[arange] takes Python numbers, got {value_text(number)}.")
    if stop is None:
        raise TypeError("[arange] needs a stop.")
    _check_dtype("arange", dtype)
    kind = _count_dtype(*given) if dtype is None else dtype
    if kind is bool_:
        raise ValueError("[arange] cannot count in bool: give an integer or floating-point dtype.")
    begin: float = 0 if start is None else start
    stride: float = 1 if step is None else step
    length = _count_length(begin, stop, stride)
    first = _in_dtype(begin, kind)
    # With fewer than two numbers there is no increment, and the step may be infinite.
    increment = _in_dtype(begin + stride, kind) - first if length > 1 else 0
    return apply(Arange(first, increment, length, kind), stream=stream)


def _range_arguments(bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """`start`, `stop`, `step` and `dtype` of a call of `arange`; None for missing ones."""
    names: tuple[str, ...] = ("stop", "step", "dtype")
    numbers = bounds[:-1] if bounds and isinstance(bounds[-1], Dtype) else bounds
    # Two numbers are start and stop, unless a dtype after them makes them stop and step.
    if "start" in named or len(numbers) > 2 or len(numbers) == len(bounds) == 2:
        names = ("start", *names)
    given = dict(zip(names, bounds, strict=False))
    if len(bounds) > len(names) or given.keys() & named.keys() or named.keys() - set(names):
        raise TypeError(
            f"[arange] takes start, stop, step and dtype, got {bounds!r} and {named!r}."
        )
    given.update(named)
    if "stop" not in given:
        raise TypeError("[arange] needs a stop.")
    start = given.get("start")
    stop = given["stop"]
    if stop is None:
        start, stop = None, start
    return start, stop, given.get("step"), given.get("dtype")


def _count_dtype(*numbers: float) -> Dtype:
    """The dtype of a range with these numbers."""
    if any(isinstance(number, float) for number in numbers):
        return float32
    if all(isinstance(number, bool) for number in numbers):
        return bool_
    fits = all(-(2**31) <= number < 2**31 for number in numbers)
    return int32 if fits else int64


def _count_length(start: float, stop: float, step: float) -> int:
    """How many numbers there are from `start` to `stop`, which is excluded."""
    if step == 0:
        raise ValueError("[arange] the step cannot be 0: no number of steps leads to the stop.")
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        sign = 1 if step > 0 else -1
        length = (stop - start + step - sign) // step
    else:
        if not math.isfinite(start) or not math.isfinite(stop) or math.isnan(step):
            raise ValueError(
                f"[arange] there is no number of steps of {step} from {start} to {stop}."
            )
        if math.isinf(step):
            return 1 if (stop - start) * step > 0 else 0
        steps = (stop - start) / step
        length = math.ceil(steps) if steps <= _MAX_LENGTH else _MAX_LENGTH + 1
    if length > _MAX_LENGTH:
        raise ValueError(
            f"[arange] from {start} to {stop} in steps of {step} has too many elements: "
            f"an array can have {_MAX_LENGTH}."
        )
    return length if length > 0 else 0


def _in_dtype(number: float, dtype: Dtype) -> float:
    """The number as an element of `dtype`: an integer dtype truncates the fraction."""
    if not is_inexact(dtype):
        return number if isinstance(number, int) else math.trunc(number)
    if dtype is complex64:
        dtype = float32
    return float(np.asarray(number, np.float64).astype(dtype.numpy))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Dtype | None = float32,
    stream: StreamLike = None,
) -> array:
    """Evenly spaced numbers from `start` to `stop`.

    Args:
        start: The first number.
        stop: The last number, or with `endpoint=False` the one after the last.
        num: How many numbers.
        endpoint: Whether `stop` is one of them.
        dtype: The dtype of the result.
        stream: The stream or device to run on.
    """
    _check_dtype("linspace", dtype)
    if not isinstance(num, int) or not isinstance(endpoint, bool):
        raise TypeError(
            f"[linspace] num must be an int and endpoint a bool, got {num!r} and {endpoint!r}."
        )
    if num < 0:
        raise ValueError(f"[linspace] the number of samples cannot be negative, got {num}.")
    first, last = (_real("linspace", value) for value in (start, stop))
    wanted = dtype or float32
    work = float64 if wanted is float64 else float32
    if num == 1:
        return astype(broadcast_to(scalar(first, work), (1,), stream=stream), wanted, stream)
    steps = arange(0, num, 1, work, stream=stream) / (num - 1 if endpoint else num)
    return astype((1 - steps) * first + steps * last, wanted, stream)


def _real(name: str, value: Any) -> float:
    """A Python or NumPy number or an array of one element as a float."""
    if isinstance(value, complex):
        raise TypeError(f"[{name}] takes real numbers, got {value_text(value)}.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"[{name}] takes real numbers, got {value_text(value)}.") from None
