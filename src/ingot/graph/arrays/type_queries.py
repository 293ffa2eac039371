"""Queries on dtypes: categories, limits, promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot._native import Dtype, array, promote
from ingot.graph.deferred import Deferred
from ingot.graph.dtype import (
    DtypeCategory,
    bool_,
    complex64,
    float32,
    is_complex,
    is_floating,
    is_inexact,
    is_integer,
    is_signed_integer,
    is_unsigned_integer,
)
from ingot.graph.errors import type_name
from ingot.graph.reporting.hints import dtype_hint

if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = Deferred("ml_dtypes")

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "issubdtype", "result_type"]

_PARENTS = {
    DtypeCategory.complexfloating: DtypeCategory.inexact,
    DtypeCategory.floating: DtypeCategory.inexact,
    DtypeCategory.inexact: DtypeCategory.number,
    DtypeCategory.signedinteger: DtypeCategory.integer,
    DtypeCategory.unsignedinteger: DtypeCategory.integer,
    DtypeCategory.integer: DtypeCategory.number,
    DtypeCategory.number: DtypeCategory.generic,
}

_KINDS: dict[str, Callable[[Dtype], bool]] = {
    "bool": lambda dtype: dtype is bool_,
    "signed integer": is_signed_integer,
    "unsigned integer": is_unsigned_integer,
    "integral": is_integer,
    "real floating": is_floating,
    "complex floating": is_complex,
    "numeric": lambda dtype: dtype is not bool_,
}


def _category(dtype: Dtype) -> DtypeCategory:
    if is_signed_integer(dtype):
        return DtypeCategory.signedinteger
    if is_unsigned_integer(dtype):
        return DtypeCategory.unsignedinteger
    if is_floating(dtype):
        return DtypeCategory.floating
    return DtypeCategory.complexfloating if is_complex(dtype) else DtypeCategory.generic


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype or category is `arg2` or belongs to it."""
    for position, value in (("first", arg1), ("second", arg2)):
        if not isinstance(value, (Dtype, DtypeCategory)):
            raise (TypeError if value is None else ValueError)(
                f"[issubdtype] the {position} argument must be a dtype or a category, "
                f"got {type_name(value)}."
            )
    if isinstance(arg2, Dtype):
        return arg1 is arg2
    category: DtypeCategory | None = _category(arg1) if isinstance(arg1, Dtype) else arg1
    while category is not None and category is not arg2:
        category = _PARENTS.get(category)
    return category is arg2


def isdtype(dtype: Dtype, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a name of a kind, or a tuple of these.

    Names are "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating" and "numeric".
    """
    if not isinstance(dtype, Dtype):
        raise TypeError(f"[isdtype] takes a dtype, got {type_name(dtype)}.")
    return any(_is_kind(dtype, one) for one in (kind if isinstance(kind, tuple) else (kind,)))


def _is_kind(dtype: Dtype, kind: Any) -> bool:
    if isinstance(kind, Dtype):
        return dtype is kind
    if not isinstance(kind, str):
        raise (TypeError if kind is None else ValueError)(
            f"[isdtype] a kind must be a dtype, a string or a tuple, got {type_name(kind)}."
        )
    if kind not in _KINDS:
        raise ValueError(f"[isdtype] there is no kind {kind!r}, only {', '.join(_KINDS)}.")
    return _KINDS[kind](dtype)


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """The dtype that arrays and dtypes promote to together."""
    if not arrays_and_dtypes:
        raise ValueError("[result_type] takes at least one array or dtype.")
    dtypes = [_dtype_of("result_type", value) for value in arrays_and_dtypes]
    result = dtypes[0]
    for dtype in dtypes:
        result = promote(result, dtype)
    return result


def can_cast(from_: Any, to: Dtype) -> bool:
    """Whether promotion of the two together gives `to`."""
    if not isinstance(to, Dtype):
        raise TypeError(f"[can_cast] `to` must be a dtype, got {type_name(to)}.")
    if from_ is None:
        raise TypeError("[can_cast] takes an array or a dtype, got None.")
    return promote(_dtype_of("can_cast", from_), to) is to


def _dtype_of(name: str, value: Any) -> Dtype:
    if isinstance(value, Dtype):
        return value
    if not isinstance(value, array):
        raise ValueError(f"[{name}] takes arrays and dtypes, got {type_name(value)}.")
    return value.dtype


class finfo:
    """The limits of a floating-point dtype; of complex64, those of its parts."""

    def __init__(self, dtype: Dtype, /) -> None:
        if not isinstance(dtype, Dtype):
            raise TypeError(f"[finfo] takes a dtype, got {type_name(dtype)}.{dtype_hint(dtype)}")
        if not is_inexact(dtype):
            raise ValueError(f"[finfo] {dtype.name} is not a floating-point dtype: use mx.iinfo.")
        self.dtype = float32 if dtype is complex64 else dtype
        limits: Any = ml_dtypes.finfo(self.dtype.numpy)  # type: ignore[no-untyped-call]
        self.bits = 8 * self.dtype.size
        self.min = float(limits.min)
        self.max = float(limits.max)
        self.eps = float(limits.eps)
        self.smallest_normal = float(limits.smallest_normal)

    def __repr__(self) -> str:
        return f"finfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype.name})"


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, dtype: Dtype, /) -> None:
        if not isinstance(dtype, Dtype):
            raise TypeError(f"[iinfo] takes a dtype, got {type_name(dtype)}.{dtype_hint(dtype)}")
        if not is_integer(dtype):
            raise ValueError(f"[iinfo] {dtype.name} is not an integer dtype.")
        self.dtype = dtype
        self.min = int(np.iinfo(dtype.numpy).min)
        self.max = int(np.iinfo(dtype.numpy).max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"
