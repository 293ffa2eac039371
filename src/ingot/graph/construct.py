"""Construction: arrays from Python values, NumPy arrays and everything that exports its memory.

Comes in: whatever `mx.array` is called with. Goes out: an array that holds a copy, of the dtype
that MLX would choose: int32 for ints (int64 where one needs it), float32 for floats and NumPy's
float64, complex64, bool. Lists that contain arrays become a lazy stack of them, through which
derivatives flow.
"""

from __future__ import annotations

from array import array as compact
from itertools import chain
from typing import Any, Protocol

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, constant
from ingot.graph.dlpack import imported
from ingot.graph.dtype import (
    bool_,
    complex64,
    float32,
    float64,
    from_numpy,
    int32,
    int64,
    is_complex,
    is_integer,
    promote,
    uint64,
)
from ingot.graph.errors import ConversionError, type_name

__all__ = ["DESCRIPTION", "ArrayLike", "asarray", "coerce", "construct", "scalar"]

DESCRIPTION = (
    "An N-dimensional array: `array(val, dtype=None)` makes one of numbers, lists or NumPy arrays."
)

FLOAT32_MAX = float(np.finfo(np.float32).max)
MAX_AXES = 64  # NumPy's, whose arrays hold the values

_NUMPY_FLOAT32 = float32.numpy
_NUMPY_INT32 = int32.numpy

# The kinds of Python numbers, each able to hold those before it, and the dtypes they become.
_KINDS: tuple[type, ...] = (bool, int, float, complex)
_KIND_DTYPES = {bool: bool_, int: int32, float: float32, complex: complex64}
# Codes of the standard library's `array`, the fastest way from a list of numbers to memory: it
# makes infinity of a float that is too large without a warning, and raises OverflowError for ints.
_CODES = {bool_: "b", int32: "i", int64: "q", uint64: "Q", float32: "f", float64: "d"}


class ArrayLike(Protocol):
    """An object of another library that says which array it stands for."""

    def __mlx_array__(self) -> array:
        """The array."""


def construct(value: Any, dtype: Dtype | None = None) -> array:
    """What `mx.array(value, dtype)` makes."""
    if dtype is None:
        # The cases that programs are full of come first: they cost a microsecond.
        kind = type(value)
        if kind is float and -FLOAT32_MAX <= value <= FLOAT32_MAX:
            return constant(np.array(value, _NUMPY_FLOAT32), float32)
        if kind is int and -0x80000000 <= value <= 0x7FFFFFFF:
            return constant(np.array(value, _NUMPY_INT32), int32)
    elif not isinstance(dtype, Dtype):
        raise TypeError(
            f"[array] a dtype is one of mx.float32, mx.int32 and their siblings, got {dtype!r}."
        )
    if isinstance(value, array):
        return _native.wrap(value) if dtype is None else _native.wrap(value.astype(dtype))
    if isinstance(value, (list, tuple)):
        return _from_sequence(value, dtype, 1)
    if isinstance(value, _KINDS):
        return _from_numbers([value], {type(value)}, (), dtype)
    if value is None:
        raise TypeError("[array] takes a number, a list, a NumPy array or the like, got None.")
    made = _from_other_library(value, dtype)
    if made is None:
        raise _refusal(value)
    return made


def asarray(a: Any, dtype: Dtype | None = None, *, copy: bool | None = None) -> array:
    """Convert the input to an array.

    Args:
        a: A number, an array, a (nested) list or tuple, or an object that exports its memory.
        dtype: The dtype of the result; by default that of `array(a)`.
        copy: False refuses to copy, which only an array of the right dtype allows.
    """
    if copy is False and not (isinstance(a, array) and dtype in (None, a.dtype)):
        raise ValueError(
            f"[asarray] cannot make an array of {type_name(a)} without a copy: "
            "leave copy=False away."
        )
    return construct(a, dtype)


def coerce(value: Any, dtype: Dtype | None = None) -> Any:
    """An operand that is no array or Python number as an array; NotImplemented if it cannot be.

    Beside an array, whose dtype is then given, it takes that dtype.
    """
    if value is None or isinstance(value, (list, tuple, str)):
        return NotImplemented
    try:
        made = _from_other_library(value, dtype)
    except ConversionError:
        return NotImplemented
    return NotImplemented if made is None else made


def scalar(value: Any, dtype: Dtype) -> array:
    """A Python number as a 0-d constant, which is shared and hence read-only."""
    if is_integer(dtype):
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= value <= limits.max:
            raise ValueError(
                f"[array] {value} does not fit into {dtype.name}, the dtype of the array "
                "beside it: cast the array with astype first."
            )
    try:
        with np.errstate(all="ignore"):
            data = np.array(value, dtype.numpy)
    except OverflowError:
        raise ConversionError(f"[array] {value} does not fit into {dtype.name}.") from None
    data.setflags(write=False)
    return constant(data, dtype)


def _from_sequence(value: list[Any] | tuple[Any, ...], dtype: Dtype | None, depth: int) -> array:
    """A level of sequences of one length is an axis; the last level are the elements."""
    shape = [len(value)]
    level = value
    while True:
        kinds = set(map(type, level))
        if not kinds or not all(issubclass(kind, (list, tuple)) for kind in kinds):
            break
        lengths = set(map(len, level))
        if len(lengths) > 1:
            raise _ragged(shape, lengths)
        shape.append(lengths.pop())
        level = list(chain.from_iterable(level))
        if depth + len(shape) > MAX_AXES + 1:
            raise ValueError(
                f"[array] an array has at most {MAX_AXES} axes; this list is nested deeper."
            )
    if all(issubclass(kind, _KINDS) for kind in kinds):
        return _from_numbers(level, kinds, tuple(shape), dtype)
    if all(issubclass(kind, (*_KINDS, np.generic)) for kind in kinds):
        return _from_scalars(level, tuple(shape), dtype)
    if any(issubclass(kind, (list, tuple)) for kind in kinds) and not kinds.isdisjoint(_KINDS):
        raise ValueError(
            f"[array] {_place(shape)} has both numbers and lists: "
            "all items of a list must have the same shape."
        )
    return _stacked(value, dtype, depth)


def _from_scalars(
    scalars: list[Any] | tuple[Any, ...], shape: tuple[int, ...], dtype: Dtype | None
) -> array:
    """Python numbers and NumPy's, which count as Python's here."""
    numbers = [item.item() if isinstance(item, np.generic) else item for item in scalars]
    for item, number in zip(scalars, numbers, strict=True):
        if not isinstance(number, _KINDS):
            raise _refusal(item)
    return _from_numbers(numbers, set(map(type, numbers)), shape, dtype)


def _from_numbers(
    numbers: list[Any] | tuple[Any, ...],
    kinds: set[type],
    shape: tuple[int, ...],
    dtype: Dtype | None,
) -> array:
    """Python numbers in C order as an array of that shape."""
    kind = max((_KINDS.index(_number_kind(kind)) for kind in kinds), default=_KINDS.index(float))
    natural = _KIND_DTYPES[_KINDS[kind]]
    if dtype is float64 and natural is float32:
        natural = float64
    try:
        memory, natural = _packed(numbers, natural, dtype)
    except OverflowError:
        largest = max((number for number in numbers if isinstance(number, int)), key=abs)
        raise ConversionError(
            f"[array] {largest} does not fit into any dtype that it could have."
        ) from None
    data = np.ndarray(shape, natural.numpy, memory)
    if dtype is None or dtype is natural:
        return constant(data, natural)
    return _copied(data, dtype)


def _packed(
    numbers: list[Any] | tuple[Any, ...], natural: Dtype, dtype: Dtype | None
) -> tuple[Any, Dtype]:
    """The numbers in one row of memory, and their dtype there: int64 for ints beyond int32."""
    if natural is complex64:
        with np.errstate(all="ignore"):
            return np.array(numbers, natural.numpy), natural
    if natural is not int32:
        return compact(_CODES[natural], numbers), natural
    try:
        return compact("i", numbers), int32
    except OverflowError:
        wider = uint64 if dtype is uint64 and min(numbers) >= 0 else int64
        return compact(_CODES[wider], numbers), wider


def _number_kind(kind: type) -> type:
    return next(base for base in _KINDS if issubclass(kind, base))


def _stacked(value: list[Any] | tuple[Any, ...], dtype: Dtype | None, depth: int) -> array:
    """A list with arrays among its items, at some level."""
    items = [_item(item, depth) for item in value]
    shapes = {item.shape for item in items}
    if len(shapes) > 1:
        found = " and ".join(str(shape) for shape in sorted(shapes)[:2])
        raise ValueError(f"[array] all items of a list must have the same shape, got {found}.")
    common = items[0].dtype
    for item in items:
        common = promote(common, item.dtype)
    stack: Any = array._stack  # type: ignore[attr-defined]  # attached by core: the op comes later than this module
    return stack([item.astype(dtype or common) for item in items])


def _item(item: Any, depth: int) -> array:
    if depth >= MAX_AXES:
        raise ValueError(
            f"[array] an array has at most {MAX_AXES} axes; this list is nested deeper."
        )
    if isinstance(item, (list, tuple)):
        return _from_sequence(item, None, depth + 1)
    if item is None or isinstance(item, (str, bytes, bytearray, memoryview)):
        raise _refusal(item)
    return construct(item)


def _from_other_library(value: Any, dtype: Dtype | None) -> array | None:
    """An object of NumPy or another library as an array; None if it does not show its elements."""
    if isinstance(value, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(value), dtype)
    if hasattr(value, "__mlx_array__"):
        return construct(value.__mlx_array__(), dtype)
    if hasattr(value, "__dlpack__") or type(value).__name__ == "PyCapsule":
        return _from_numpy(imported("array", value), dtype)
    try:
        memory = memoryview(value)
    except TypeError:
        return None
    try:
        data = np.asarray(memory)
    except ValueError:
        raise ConversionError(
            f"[array] cannot hold the elements of {type_name(value)}, "
            f"whose format is {memory.format!r}."
        ) from None
    return _from_numpy(data, dtype)


def _from_numpy(data: np.ndarray, dtype: Dtype | None) -> array:
    found = from_numpy(data.dtype.newbyteorder("="))
    if found is float64:
        found = float32
    elif data.dtype.char == "D":  # complex128
        found = complex64
    if found is None:
        raise ConversionError(
            f"[array] cannot hold elements of NumPy's dtype {data.dtype}: "
            "cast the NumPy array with astype first."
        )
    return _copied(data, dtype or found)


def _copied(data: np.ndarray, dtype: Dtype) -> array:
    """A copy of the data, in memory of ingot's own, as an array of `dtype`."""
    if data.dtype.kind == "c" and not is_complex(dtype):
        data = data.real
    token = _native.enter_numpy_memory()
    try:
        if data.dtype == dtype.numpy:
            copy = np.array(data, order="C")
        else:
            with np.errstate(all="ignore"):
                copy = data.astype(dtype.numpy, order="C", subok=False)
    finally:
        _native.leave_numpy_memory(token)
    return constant(copy, dtype)


def _place(shape: list[int]) -> str:
    return "the list" if len(shape) == 1 else f"level {len(shape)} of the nested list"


def _ragged(shape: list[int], lengths: set[int]) -> ValueError:
    found = " and ".join(map(str, sorted(lengths)[:2]))
    return ValueError(
        f"[array] {_place(shape)} has items of lengths {found}: "
        "all items of a list must have the same length."
    )


def _refusal(value: Any) -> ValueError:
    return ValueError(
        f"[array] cannot make an array of {type_name(value)}: "
        "it takes numbers, nested lists of numbers or arrays, NumPy arrays and the like."
    )


_native.set_hook("construct", construct)
_native.set_hook("coerce", coerce)
_native.set_hook("scalar", scalar)
_native.set_hook("ndarray_type", np.ndarray)
_native.set_hook("as_ndarray", np.asarray)
