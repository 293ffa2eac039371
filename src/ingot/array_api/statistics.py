"""Statistics and utilities. Sums of integers are computed in 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ingot.core as mx
from ingot.array_api.array import Array, kind_of, unwrap, wrap

__all__ = "all any cumulative_prod cumulative_sum diff max mean min prod std sum var".split()

Axes = int | Sequence[int] | None


def _wide(x: mx.array, dtype: Any) -> mx.array:
    """The elements in the dtype of their sum."""
    if dtype is not None:
        return x.astype(dtype)
    kind = kind_of(x.dtype)
    if kind == "unsigned integer":
        return x.astype(mx.uint64)
    return x.astype(mx.int64) if kind in ("bool", "signed integer") else x


def sum(x: Array, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum of elements."""
    return wrap(mx.sum(_wide(unwrap(x), dtype), axis, keepdims))


def prod(x: Array, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product of elements."""
    return wrap(mx.prod(_wide(unwrap(x), dtype), axis, keepdims))


def _floating(name: str, x: Array) -> mx.array:
    core = unwrap(x)
    if kind_of(core.dtype) not in ("real floating", "complex floating"):
        raise TypeError(f"[{name}] takes floating-point arrays, got {core.dtype.name}.")
    return core


def mean(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The mean of elements."""
    return wrap(mx.mean(_floating("mean", x), axis, keepdims))


def var(
    x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The mean square of the differences from the mean."""
    core = _floating("var", x)
    centred = core - mx.mean(core, axis, True)
    total = mx.sum(mx.square(centred), axis, keepdims)
    count = core.size // total.size if total.size else 0
    return wrap(total / mx.array(count - correction, core.dtype))


def std(
    x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The root of the variance."""
    return wrap(mx.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims).core))


def max(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The largest element."""
    return wrap(mx.max(unwrap(x), axis, keepdims))


def min(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The smallest element."""
    return wrap(mx.min(unwrap(x), axis, keepdims))


def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether all elements are not zero."""
    return wrap(mx.all(unwrap(x), axis, keepdims))


def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether some element is not zero."""
    return wrap(mx.any(unwrap(x), axis, keepdims))


def _cumulative(
    function: Any, x: Array, axis: int | None, dtype: Any, initial: int | None
) -> Array:
    core = _wide(unwrap(x), dtype)
    if axis is None:
        if core.ndim != 1:
            raise ValueError(f"[cumulative] needs an axis for {core.ndim} axes.")
        axis = 0
    found = function(core, axis)
    if initial is not None:
        shape = list(core.shape)
        shape[axis] = 1
        found = mx.concatenate([mx.full(tuple(shape), initial, core.dtype), found], axis)
    return wrap(found)


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Array:
    """The sum up to each element."""
    return _cumulative(mx.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Array:
    """The product up to each element."""
    return _cumulative(mx.cumprod, x, axis, dtype, 1 if include_initial else None)


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """The differences of neighbours, `n` times."""
    parts = [part.core for part in (prepend, x, append) if part is not None]
    core = parts[0] if len(parts) == 1 else mx.concatenate(parts, axis)
    for _ in range(n):
        length = core.shape[axis]
        before, after = mx.split(core, [1], axis)[1], mx.split(core, [length - 1], axis)[0]
        core = before - after
    return wrap(core)
