"""Construction: arrays from Python values, NumPy arrays and everything that exports its memory.

Input: whatever `mx.array` is called with. Output: an array that holds a copy, of the dtype
that MLX would choose: int32 for ints (int64 where one needs it), float32 for floats and NumPy's
float64, complex64, bool. Lists of numbers are read by C (`_native/objects/pack.c`); this module has
the rest: lists that contain arrays become a lazy stack of them, through which derivatives flow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, constant
from ingot.graph.arrays.dlpack import imported
from ingot.graph.arrays.length import length_array
from ingot.graph.dimension import Dimension
from ingot.graph.dtype import (
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    from_numpy,
    int32,
    int64,
    is_integer,
    promote,
    uint64,
)
from ingot.graph.errors import ConversionError, type_name, value_text
from ingot.graph.numerics.casts import converted
from ingot.graph.reporting.hints import dtype_hint, keyword_error

__all__ = ["ArrayLike", "asarray"]

DESCRIPTION = (
    "An N-dimensional array, made by `array(val, dtype=None)` of numbers, lists and the like."
)

SAFE = 65504  # numbers up to here fit into int32 and all floating-point dtypes
MAX_AXES = 64  # NumPy's, whose arrays hold the values

_NUMPY_FLOAT32 = float32.numpy
_NUMPY_INT32 = int32.numpy
_NUMBERS = (int, float, complex)  # bool is a subclass of int


class ArrayLike(Protocol):
    """An object of another library that can be converted to an array."""

    def __mlx_array__(self) -> array:
        """The array."""


def construct(value: Any, dtype: Dtype | None = None) -> array:
    """The implementation of `mx.array(value, dtype)`."""
    # The most frequent cases come first: they take half a microsecond.
    kind = type(value)
    if kind is float and -SAFE <= value <= SAFE:
        if dtype is None or dtype is float32:
            return constant(np.array(value, _NUMPY_FLOAT32), float32)
        if dtype is float16 or dtype is bfloat16:
            return constant(np.array(value, _NUMPY_FLOAT32).astype(dtype.numpy), dtype)
    elif kind is int and -SAFE <= value <= SAFE and (dtype is None or dtype is int32):
        return constant(np.array(value, _NUMPY_INT32), int32)
    if dtype is not None and not isinstance(dtype, Dtype):
        raise TypeError(
            f"[array] a dtype must be one of mx.float32, mx.int32 and so on, got "
            f"{value_text(dtype)}.{dtype_hint(dtype)}"
        )
    if isinstance(value, (list, tuple)):
        return _from_sequence(value, dtype, 1)
    if kind is Dimension:
        return length_array(value, dtype)
    if isinstance(value, array):
        return _native.wrap(value if dtype is None else value._cast(dtype))
    if isinstance(value, _NUMBERS):
        return _from_number(value, dtype)
    if value is None:
        raise TypeError("[array] takes a number, a list, a NumPy array or the like, got None.")
    made = _from_other_library(value, dtype)
    if made is not None:
        return made
    if not hasattr(type(value), "__array__"):
        raise _refusal(value)
    return _from_numpy(np.asarray(value), dtype)  # a frame or a series of pandas, for example


def asarray(a: Any, dtype: Dtype | None = None, *, copy: bool | None = None) -> array:
    """Convert the input to an array.

    Args:
        a: A number, an array, a (nested) list or tuple, or an object that exports its memory.
        dtype: The dtype of the result; by default that of `array(a)`.
        copy: False raises where a copy is needed: only arrays of the right dtype need none.
    """
    if copy is False and not (isinstance(a, array) and dtype in (None, a.dtype)):
        raise ValueError(
            f"[asarray] cannot make an array of {type_name(a)} without a copy: omit copy=False."
        )
    return construct(a, dtype)


_CONVERSIONS = ("__complex__", "__float__", "__index__")


def coerce(value: Any, dtype: Dtype | None = None) -> Any:
    """Convert an operand that is neither an array nor a Python number; NotImplemented if
    impossible.

    Next to an array, whose dtype is then given, it takes that dtype.
    """
    if value is None or isinstance(value, (list, tuple, str)):
        return NotImplemented
    if type(value) is Dimension:
        return length_array(value, dtype)
    try:
        made = _from_other_library(value, dtype)
    except ConversionError:
        if not isinstance(value, np.generic):
            return NotImplemented
        made = None  # a number of a dtype that arrays do not have, such as longdouble
    return _foreign_number(value) if made is None else made


def _foreign_number(value: Any) -> Any:
    """A number of a foreign class: complex, as in MLX, which asks for nothing more specific."""
    if not any(hasattr(type(value), method) for method in _CONVERSIONS):
        return NotImplemented
    try:
        return scalar(complex(value), complex64)
    except TypeError:  # what has the method may still refuse
        return NotImplemented


def scalar(value: Any, dtype: Dtype) -> array:
    """A Python number as a 0-d constant, which is cached and shared, hence read-only."""
    if is_integer(dtype):
        limits = np.iinfo(dtype.numpy)
        if dtype is uint64 and -(2**63) <= value < 0:  # wraps around, as in MLX
            value += 2**64
        if not limits.min <= value <= limits.max:
            raise ConversionError(
                f"[array] {value} does not fit into {dtype.name}, the dtype of the array "
                "beside it: cast the array with astype first."
            )
    data = _number_data(value, dtype)
    data.setflags(write=False)
    made = constant(data, dtype)
    made._node.trace = scalar  # cached beyond any trace: it is not an input of one
    return made


def _number_data(value: Any, dtype: Dtype) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):
            return np.array(value, dtype.numpy)
    except OverflowError:
        raise ConversionError(f"[array] {value} does not fit into {dtype.name}.") from None


def _from_number(value: Any, dtype: Dtype | None) -> array:
    """A Python number in its default dtype, then cast to the requested one."""
    if isinstance(value, complex):
        natural = complex64
    elif isinstance(value, float):
        natural = float64 if dtype is float64 else float32
    elif isinstance(value, bool):
        natural = bool_
    elif dtype is uint64 and value >= 0:
        natural = uint64
    else:
        natural = int32 if -0x80000000 <= value <= 0x7FFFFFFF else int64
    data = _number_data(value, natural)
    return constant(data, natural) if dtype in (None, natural) else _copied(data, dtype)


def _from_sequence(value: list[Any] | tuple[Any, ...], dtype: Dtype | None, depth: int) -> array:
    packed = _native.pack(value, dtype is float64)
    return _stacked(value, dtype, depth) if packed is None else _from_packed(packed, dtype)


def _from_packed(packed: tuple[Any, tuple[int, ...], Dtype], dtype: Dtype | None) -> array:
    memory, shape, found = packed
    data = np.ndarray(shape, found.numpy, memory)
    return constant(data, found) if dtype is None or dtype is found else _copied(data, dtype)


def _stacked(value: list[Any] | tuple[Any, ...], dtype: Dtype | None, depth: int) -> array:
    """A list that C could not pack: one that contains arrays, or an invalid one."""
    if depth > MAX_AXES:
        raise _too_deep()
    if all(isinstance(item, (*_NUMBERS, np.generic)) for item in value) and not any(
        type(item) is Dimension for item in value
    ):
        return _from_scalars(value, dtype)
    items = [_item(item, dtype, depth) for item in value]
    shapes = {item.shape for item in items}
    if len(shapes) > 1:
        found = " and ".join(str(shape) for shape in sorted(shapes)[:2])
        # the first sentence is MLX's, which programs look for
        raise ValueError(
            "[array] Initialization encountered non-uniform length. All items of a list must have "
            f"the same shape, got {found}."
        )
    if items[0].ndim == MAX_AXES:
        raise _too_deep()
    common = dtype or items[0].dtype
    if dtype is None:
        for item in items:
            common = promote(common, item.dtype)
    return array._stack([item._cast(common) for item in items])


def _item(item: Any, dtype: Dtype | None, depth: int) -> array:
    if isinstance(item, (list, tuple)):
        return _from_sequence(item, dtype if dtype is float64 else None, depth + 1)
    if item is None or isinstance(item, (str, bytes, bytearray, memoryview)):
        raise _refusal(item)
    return construct(item)


def _from_scalars(scalars: list[Any] | tuple[Any, ...], dtype: Dtype | None) -> array:
    """A row of Python numbers that are complex, too large for int64, or NumPy scalars."""
    numbers = [item.item() if isinstance(item, np.generic) else item for item in scalars]
    for item, number in zip(scalars, numbers, strict=True):
        if not isinstance(number, _NUMBERS):
            raise _refusal(item)
    if any(isinstance(number, complex) for number in numbers):
        natural = complex64
    elif any(isinstance(number, float) for number in numbers):
        natural = float64 if dtype is float64 else float32
    elif dtype is uint64 and min(numbers) >= 0:
        natural = uint64
    else:
        return _from_ints(numbers, dtype)
    data = _number_data(numbers, natural)
    return constant(data, natural) if dtype in (None, natural) else _copied(data, dtype)


def _from_ints(numbers: list[int], dtype: Dtype | None) -> array:
    packed = _native.pack(numbers, False)
    if packed is None:
        largest = max(numbers, key=abs)
        raise ConversionError(f"[array] {largest} does not fit into {int64.name}.")
    return _from_packed(packed, dtype)


def _from_other_library(value: Any, dtype: Dtype | None) -> array | None:
    """An object of NumPy or another library as an array; None if it does not export its
    elements.
    """
    if isinstance(value, type):
        return None  # a class has the attributes of its instances
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
    token = _native.enter_numpy_memory()
    try:
        if data.dtype == dtype.numpy:
            copy = np.array(data, order="C")
        else:
            with np.errstate(all="ignore"):
                copy = np.asarray(converted(data, dtype.numpy), order="C")
    finally:
        _native.leave_numpy_memory(token)
    return constant(copy, dtype)


def _too_deep() -> ValueError:
    return ValueError(f"[array] an array has at most {MAX_AXES} axes; the list is nested deeper.")


def _refusal(value: Any) -> ValueError:
    way_out = ""
    if hasattr(value, "__array__"):  # data frames, for example
        way_out = " Convert it first: mx.array(np.asarray(x))."
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        way_out = " Make a list of it first: mx.array(list(x))."
    return ValueError(
        f"[array] cannot make an array of {type_name(value)}: "
        f"it takes numbers, nested lists of numbers or arrays, NumPy arrays and the like.{way_out}"
    )


def keyword_refused(keywords: dict[str, Any]) -> None:
    """TypeError with a hint for a keyword that `mx.array` does not have."""
    known = ("val", "dtype")
    for name in keywords:
        if name not in known:
            raise keyword_error("array", name, known)


_native.set_callbacks(
    construct=construct, coerce=coerce, scalar=scalar, keyword_refused=keyword_refused
)
