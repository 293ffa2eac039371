"""Creation functions. Floats are float64 by default, integers int64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ingot.core as mx
from ingot.array_api.array import (
    Array,
    check_device,
    default_float,
    default_int,
    kind_of,
    unwrap,
    wrap,
)

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]


def default_dtype(value: Any) -> Any:
    """The dtype of a Python number, or of numbers in nested sequences."""
    if isinstance(value, bool):
        return mx.bool_
    if isinstance(value, int):
        return default_int
    if isinstance(value, float):
        return default_float
    return mx.complex64


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Array:
    """An array of another one, of numbers, nested sequences of them, or any object with a buffer,
    with DLPack or with `__array__`.
    """
    check_device(device)
    if isinstance(obj, (Array, mx.array)):
        core = obj.core if isinstance(obj, Array) else obj
        if dtype is not None and core.dtype is not dtype:
            if copy is False:
                raise ValueError(f"[asarray] {core.dtype.name} to {dtype.name} needs a copy.")
            return wrap(core.astype(dtype))
        return wrap(mx.array(core) if copy else core)
    if copy is False and isinstance(obj, (bool, int, float, complex, list, tuple)):
        raise ValueError("[asarray] numbers and sequences become arrays by a copy only.")
    if hasattr(obj, "__dlpack__") and not isinstance(obj, np.ndarray):
        return asarray(from_dlpack(obj), dtype=dtype)
    data = np.asarray(_plain(obj))
    if dtype is None and isinstance(obj, complex):
        dtype = mx.complex64
    return wrap(_from_numpy(data, dtype))


def _plain(obj: Any) -> Any:
    """Nested sequences without arrays of this namespace, which NumPy would read element by
    element.
    """
    if isinstance(obj, (list, tuple)):
        return [_plain(item) for item in obj]
    return np.asarray(obj.core) if isinstance(obj, Array) else obj


def _from_numpy(data: np.ndarray, dtype: Any) -> mx.array:
    if dtype is not None:
        return mx.array(data.astype(dtype.numpy), dtype)
    if data.dtype == np.complex128:
        return mx.array(data.astype(np.complex64))
    if data.dtype == np.float64:  # `mx.array` would make float32 of it
        return mx.array(data, mx.float64)
    return mx.array(data)


def _filled(value: Any, shape: Shape, dtype: Any, device: Any) -> Array:
    check_device(device)
    return wrap(mx.full((shape,) if isinstance(shape, int) else tuple(shape), value, dtype))


def zeros(shape: Shape, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros."""
    return _filled(0, shape, dtype or default_float, device)


def ones(shape: Shape, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones."""
    return _filled(1, shape, dtype or default_float, device)


def empty(shape: Shape, *, dtype: Any = None, device: Any = None) -> Array:
    """An array whose elements are to be set."""
    return zeros(shape, dtype=dtype, device=device)


def full(shape: Shape, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """One number, repeated."""
    return _filled(fill_value, shape, dtype or default_dtype(fill_value), device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros in the shape of an array."""
    return _filled(0, x.shape, dtype or x.dtype, device)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones in the shape of an array."""
    return _filled(1, x.shape, dtype or x.dtype, device)


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of the shape of another, whose elements are to be set."""
    return zeros_like(x, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """One number in the shape of an array."""
    return _filled(fill_value, x.shape, dtype or x.dtype, device)


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Evenly spaced numbers up to, and without, `stop`."""
    check_device(device)
    if stop is None:
        start, stop = 0, start
    wanted = dtype or (
        default_int if all(isinstance(x, int) for x in (start, stop, step)) else default_float
    )
    if (step > 0 and start >= stop) or (step < 0 and start <= stop):
        return zeros((0,), dtype=wanted)
    return wrap(mx.array(np.arange(start, stop, step).astype(wanted.numpy), wanted))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Array:
    """`num` evenly spaced numbers from `start` to `stop`."""
    check_device(device)
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    wanted = dtype or (mx.complex64 if is_complex else default_float)
    data = np.linspace(start, stop, num, endpoint=endpoint)
    return wrap(mx.array(data.astype(wanted.numpy), wanted))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Ones on a diagonal, zeros elsewhere."""
    check_device(device)
    return wrap(mx.eye(n_rows, n_rows if n_cols is None else n_cols, k, dtype or default_float))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """The array of another library, through DLPack."""
    check_device(device)
    core = x.core if isinstance(x, Array) else _from_numpy(np.from_dlpack(x), None)
    return wrap(mx.array(core) if copy else core)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid, one array for each axis."""
    if len({x.dtype for x in arrays}) > 1:
        raise ValueError("[meshgrid] all arrays must have the same dtype.")
    return [wrap(x) for x in mx.meshgrid(*map(unwrap, arrays), indexing=indexing)]


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles of matrices."""
    return _triangle(mx.tril, x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles of matrices."""
    return _triangle(mx.triu, x, k)


def _triangle(function: Any, x: Array, k: int) -> Array:
    if x.ndim < 2:
        raise ValueError(f"[triangle] takes matrices, got {x.ndim} axes.")
    is_bool = kind_of(x.dtype) == "bool"
    found = function(x.core.astype(mx.uint8) if is_bool else x.core, k)
    return wrap(found.astype(x.dtype))
