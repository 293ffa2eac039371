"""Arrays of the Python array API standard: thin wrappers of ingot's arrays.

The standard and MLX disagree about arrays themselves: default dtypes, promotion with Python
numbers, boolean masks, the dtype of a sum. Wrapping keeps `ingot.core` MLX's. The array inside is
`x.core`; nothing is copied.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import ingot.core as mx

__all__ = ["Array", "common", "default_float", "default_int", "unwrap", "wrap"]

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

default_int = mx.int64
default_float = mx.float64
_KINDS = {
    "bool": (mx.bool_,),
    "signed integer": (mx.int8, mx.int16, mx.int32, mx.int64),
    "unsigned integer": (mx.uint8, mx.uint16, mx.uint32, mx.uint64),
    "real floating": (mx.float32, mx.float64),
    "complex floating": (mx.complex64,),
}


def kind_of(dtype: Any) -> str:
    """The kind of a dtype in the standard's words; `mx.float16` and `mx.bfloat16` have one too."""
    for kind, dtypes in _KINDS.items():
        if dtype in dtypes:
            return kind
    return "real floating"


def wrap(x: mx.array) -> Array:
    """An array of the standard that holds an array of ingot."""
    made = object.__new__(Array)
    made.core = x
    return made


def unwrap(x: Any) -> mx.array:
    """The array inside."""
    if not isinstance(x, Array):
        raise TypeError(
            f"[array_api] takes arrays of ingot.array_api, got {type(x).__name__}: use asarray."
        )
    return x.core


def dtype_for(value: Any, beside: Any) -> Any:
    """The dtype that a Python number takes beside an array of a dtype."""
    kind = kind_of(beside)
    if isinstance(value, bool):
        return beside
    if isinstance(value, int):
        return default_int if kind == "bool" else beside
    if isinstance(value, float):
        return beside if kind in ("real floating", "complex floating") else default_float
    if isinstance(value, complex):
        return mx.complex64
    raise TypeError(f"[array_api] {type(value).__name__} is neither an array nor a number.")


def common(*values: Any) -> list[mx.array]:
    """Operands in their common dtype: arrays promote each other, numbers follow arrays."""
    arrays = [value.core for value in values if isinstance(value, Array)]
    if not arrays:
        raise TypeError("[array_api] at least one operand must be an array of ingot.array_api.")
    dtype = arrays[0].dtype
    for array in arrays[1:]:
        dtype = mx.result_type(dtype, array.dtype)
    for value in values:
        if not isinstance(value, Array):
            dtype = dtype_for(value, dtype)
    return [
        value.core.astype(dtype) if isinstance(value, Array) else mx.array(value, dtype)
        for value in values
    ]


def _namespace() -> Any:
    return importlib.import_module("ingot.array_api")


def _by_function(name: str, reverse: bool = False) -> Any:
    """An operator that is a function of the namespace."""

    def method(self: Array, other: Any) -> Any:
        if not isinstance(other, (Array, bool, int, float, complex)):
            return NotImplemented
        function = getattr(_namespace(), name)
        return function(other, self) if reverse else function(self, other)

    return method


class Array:
    """An array of the Python array API standard. Make them with `asarray` and its like."""

    core: mx.array

    def __new__(cls, *args: Any, **kwargs: Any) -> Array:
        raise TypeError("[array_api] arrays are made by functions: asarray, zeros, arange ...")

    # Attributes

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.core.dtype

    @property
    def device(self) -> Any:
        """The CPU."""
        return mx.Device(mx.cpu)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.core.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.core.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.core.size

    @property
    def mT(self) -> Array:
        """The matrices in the last two axes, transposed."""
        if self.ndim < 2:
            raise ValueError(f"[mT] takes at least 2 axes, got {self.ndim}.")
        return wrap(mx.swapaxes(self.core, -1, -2))

    @property
    def T(self) -> Array:
        """A matrix, transposed."""
        if self.ndim != 2:
            raise ValueError(f"[T] takes 2 axes, got {self.ndim}: use permute_dims or mT.")
        return wrap(self.core.T)

    # The standard's methods

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in VERSIONS:
            raise ValueError(f"[array_api] version {api_version!r} is not one of {VERSIONS}.")
        found: ModuleType = _namespace()
        return found

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """The array on a device, of which there is one."""
        check_device(device)
        return self

    def __dlpack__(self, **options: Any) -> Any:
        return self.core.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self.core.__dlpack_device__()
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.core, dtype, copy=copy)

    def __bool__(self) -> bool:
        return bool(self.core)

    def __int__(self) -> int:
        return int(self.core)

    def __float__(self) -> float:
        return float(self.core)

    def __complex__(self) -> complex:
        return complex(self.core.item())

    def __index__(self) -> int:
        return self.core.__index__()

    def __len__(self) -> int:
        return len(self.core)

    def __repr__(self) -> str:
        return f"Array{repr(self.core).removeprefix('array')}"

    # Indexing

    def __getitem__(self, key: Any) -> Array:
        index = _index(key)
        if isinstance(index, np.ndarray):
            return wrap(mx.array(np.asarray(self.core)[index], self.dtype))
        _check_bounds(self.shape, index)
        return wrap(self.core[index])

    def __setitem__(self, key: Any, value: Any) -> None:
        index = _index(key)
        new = value.core if isinstance(value, Array) else mx.array(value, self.dtype)
        if mx.result_type(self.dtype, new.dtype) is not self.dtype:
            raise TypeError(
                f"[setitem] {new.dtype.name} cannot be stored in {self.dtype.name} without loss."
            )
        if isinstance(index, np.ndarray):
            changed = np.array(self.core)
            changed[index] = np.asarray(new)
            self.core = mx.array(changed, self.dtype)
            return
        _check_bounds(self.shape, index)
        handle = self.core[...]  # other arrays may hold the same one
        handle[index] = new.astype(self.dtype)
        self.core = handle

    # Operators

    def __neg__(self) -> Array:
        return wrap(-self.core)

    def __pos__(self) -> Array:
        return self

    def __abs__(self) -> Array:
        return wrap(mx.abs(self.core))

    def __invert__(self) -> Array:
        return wrap(mx.bitwise_invert(self.core))

    __eq__ = _by_function("equal")
    __ne__ = _by_function("not_equal")
    __hash__ = None  # type: ignore[assignment]


_OPERATORS = {
    "add": "add",
    "and": "bitwise_and",
    "floordiv": "floor_divide",
    "lshift": "bitwise_left_shift",
    "matmul": "matmul",
    "mod": "remainder",
    "mul": "multiply",
    "or": "bitwise_or",
    "pow": "pow",
    "rshift": "bitwise_right_shift",
    "sub": "subtract",
    "truediv": "divide",
    "xor": "bitwise_xor",
}
_COMPARISONS = {"ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less"}


def _in_place(name: str) -> Callable[[Array, Any], Any]:
    def method(self: Array, other: Any) -> Any:
        result = _by_function(name)(self, other)
        if result is NotImplemented:
            return result
        if result.shape != self.shape or result.dtype is not self.dtype:
            raise TypeError(
                f"[{name}] in place, a result of {result.dtype.name} and shape {result.shape} does "
                f"not fit {self.dtype.name} of shape {self.shape}."
            )
        self.core = result.core
        return self

    return method


for _operator, _name in _OPERATORS.items():
    setattr(Array, f"__{_operator}__", _by_function(_name))
    setattr(Array, f"__r{_operator}__", _by_function(_name, reverse=True))
    setattr(Array, f"__i{_operator}__", _in_place(_name))
for _operator, _name in _COMPARISONS.items():
    setattr(Array, f"__{_operator}__", _by_function(_name))


def check_device(device: Any) -> None:
    """ValueError unless a device is the CPU, or none in particular."""
    if device is not None and device not in (mx.Device(mx.cpu), mx.cpu, "cpu"):
        raise ValueError(f"[array_api] there is one device, the CPU, got {device!r}.")


def _index(key: Any) -> Any:
    """A key with arrays of ingot.core; a mask, whose result has as many elements as it has Trues,
    as one of NumPy.
    """
    if isinstance(key, Array):
        return np.asarray(key.core) if key.dtype is mx.bool_ else key.core
    if isinstance(key, tuple):
        if len(key) == 1:
            return _index(key[0])
        if any(isinstance(part, Array) and part.dtype is mx.bool_ for part in key):
            raise IndexError("[getitem] a mask must be the only index.")
        return tuple(part.core if isinstance(part, Array) else part for part in key)
    return key


def _check_bounds(shape: tuple[int, ...], key: Any) -> None:
    parts = key if isinstance(key, tuple) else (key,)
    named = [part for part in parts if part is not None and part is not Ellipsis]
    if len(named) > len(shape):
        raise IndexError(f"[getitem] {len(named)} indices are too many for shape {shape}.")
