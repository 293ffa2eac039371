"""Kinds of arguments: which values an annotation accepts, and what they are converted to.

Accepted is what MLX accepts: for ints whatever has `__index__`, for floats any real number or array
of one element, for sequences everything that has a length and items; but not 1 for True.
"""

from __future__ import annotations

import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from ingot._native import Dtype, array, class_kind
from ingot.graph.arrays.conversion import item
from ingot.graph.dimension import Dimension
from ingot.graph.dtype import is_complex, is_integer
from ingot.graph.lazy_dataclass import dataclass

__all__ = [
    "ANY_VALUE",
    "FUNCTION",
    "INTEGER",
    "INTEGERS",
    "MAX_INT",
    "MIN_INT",
    "REFUSED",
    "Between",
    "Kind",
    "Number",
    "Outside",
    "Size",
    "kind_of",
]

# Bits of the kinds that C recognises, in the order of the enum in _native/objects/checked.c.
NONE, FLAG, INTEGER, REAL_BIT, TEXT, ARRAY, DTYPE, INTEGERS, FUNCTION, ANYTHING = (
    1 << bit for bit in range(10)
)

MIN_INT, MAX_INT = -(2**63), 2**64 - 1  # ints: int64 and uint64
_LARGEST = int(sys.float_info.max)


@dataclass(frozen=True)
class Between:
    """Bounds in an annotation: `Annotated[int, Between(1)]`."""

    least: int
    most: int = 2**63


Size = Annotated[int, Between(1)]
Number = Annotated[int, Between(1, 2**16)]  # of things that are made one by one


@dataclass(frozen=True)
class Outside:
    """What `Kind.take` returns for an int that is out of bounds."""

    value: int
    limits: Between


REFUSED = object()  # what `Kind.take` returns for a value that the parameter rejects


@dataclass(frozen=True)
class Kind:
    """The values that a parameter accepts.

    Attributes:
        words: Its name in error messages.
        take: Converts a value to the annotated type (a NumPy int to an int), or returns REFUSED.
        bits: Which values C accepts without calling `take`.
        plural: The plural of the name.
    """

    words: str
    take: Callable[[Any], Any]
    bits: int = 0
    plural: str = ""


def _instance(words: str, expected: Any, bits: int, plural: str = "") -> Kind:
    return Kind(
        words, lambda value: value if isinstance(value, expected) else REFUSED, bits, plural
    )


def _take_int(value: Any) -> Any:
    if type(value) is Dimension:
        return value  # reading its value would add a guard
    if isinstance(value, (array, np.ndarray)):
        return _number(value) if value.size == 1 and _holds_ints(value) else REFUSED
    if not hasattr(type(value), "__index__"):
        return REFUSED
    number = operator.index(value)
    return number if MIN_INT <= number <= MAX_INT else REFUSED


def _number(value: array | np.ndarray) -> Any:
    return item(value) if isinstance(value, array) else value.item()


def _holds_ints(value: Any) -> bool:
    return is_integer(value.dtype) if isinstance(value, array) else value.dtype.kind in "iu"


def _take_real(value: Any) -> Any:
    if isinstance(value, (bool, int, float)) or type(value) is Dimension:
        return REFUSED if isinstance(value, int) and abs(value) > _LARGEST else value
    if isinstance(value, array):
        return _number(value) if value.size == 1 and not is_complex(value.dtype) else REFUSED
    if isinstance(value, np.ndarray):
        return value.item() if value.size == 1 and value.dtype.kind in "biuf" else REFUSED
    if isinstance(value, (str, np.complexfloating)) or not hasattr(type(value), "__float__"):
        return REFUSED
    return float(value)


def _take_convertible(value: Any) -> Any:
    if isinstance(value, array):
        return value
    numbers = (bool, int, float, complex, np.ndarray, np.generic)
    return array(value) if isinstance(value, numbers) else REFUSED


def _take_flag(value: Any, kinds: tuple[type, ...] = (bool, np.bool_)) -> Any:
    return bool(value) if isinstance(value, kinds) else REFUSED


ANY_VALUE = Kind("anything", lambda value: value, ANYTHING)
_INTEGER = Kind("an int", _take_int, INTEGER, "ints")
_REAL = Kind("a number", _take_real, REAL_BIT | INTEGER | FLAG, "numbers")
_TEXT = _instance("a string", str, TEXT, "strings")
_FUNCTION = Kind(
    "a function", lambda value: value if callable(value) else REFUSED, FUNCTION, "functions"
)

_ARRAY = _instance("an array", array, ARRAY, "arrays")
# Where MLX is written in Python, it takes numbers for arrays and 0 or 1 for flags.
_CONVERTING = {
    array: Kind("an array or a number", _take_convertible, ARRAY, "arrays"),
    bool: Kind("True or False", lambda x: _take_flag(x, (int, np.integer, np.bool_)), FLAG),
}

_PLAIN = {
    Any: ANY_VALUE,
    object: ANY_VALUE,
    inspect.Parameter.empty: ANY_VALUE,
    types.NoneType: _instance("None", types.NoneType, NONE),
    bool: Kind("True or False", _take_flag, FLAG),
    int: _INTEGER,
    typing.SupportsIndex: _INTEGER,
    float: _REAL,
    str: _TEXT,
    array: _ARRAY,
    Dtype: _instance("a dtype such as mx.float32", Dtype, DTYPE, "dtypes"),
}


@lru_cache(maxsize=1024)
def kind_of(annotation: Any, converts: bool = False) -> Kind:
    """The kind for an annotation."""
    if converts and annotation in _CONVERTING:
        return _CONVERTING[annotation]
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _limited(arguments[1])
    if origin in (typing.Union, types.UnionType):
        return _union([kind_of(one, converts) for one in arguments])
    if origin is typing.Literal:
        return _TEXT  # the function itself checks which strings are valid
    if origin is Callable:
        return _FUNCTION
    if origin is tuple and arguments[-1:] != (...,):
        return _tuple([kind_of(one, converts) for one in arguments])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(kind_of(arguments[0], converts), kind_of(arguments[1], converts))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _sequence(kind_of(arguments[0], converts))
    expected = origin or annotation
    if not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
        return ANY_VALUE  # a type variable, a typing alias or a protocol
    name = expected.__name__
    # C recognises what many functions take: streams, and groups of processes.
    bits = class_kind(expected) if expected.__module__.startswith("ingot.graph.") else 0
    return _instance(f"a {name}", expected, bits, f"{name}s")


def _limited(limits: Between) -> Kind:
    def take(value: Any) -> Any:
        number = _take_int(value)
        inside = number is REFUSED or limits.least <= number <= limits.most
        return number if inside else Outside(number, limits)

    return Kind(_INTEGER.words, take, 0, _INTEGER.plural)


def _union(kinds: list[Kind]) -> Kind:
    def take(value: Any) -> Any:
        if isinstance(value, array) and bits & ARRAY:
            return value  # not its number
        return next(
            (taken for kind in kinds if (taken := kind.take(value)) is not REFUSED), REFUSED
        )

    words = [kind.words for kind in kinds]
    if _REAL in kinds and _INTEGER in kinds:
        words.remove(_INTEGER.words)
    bits = 0
    for kind in kinds:
        bits |= kind.bits
    text = f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
    return Kind(text, take, bits)


def _items(value: Any) -> Sequence[Any] | None:
    """The items of a sequence-like value; None if it is not one."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return None
    if isinstance(value, (array, np.ndarray)):
        return list(value) if value.ndim > 0 else None
    return list(value) if isinstance(value, Sequence) else None


def _first_wrong(taken: Iterable[Any]) -> Any:
    """The first value that was rejected; None if all were accepted."""
    return next((one for one in taken if one is REFUSED or type(one) is Outside), None)


def _sequence(item: Kind) -> Kind:
    def take(value: Any) -> Any:
        items = _items(value)
        if items is None:
            return REFUSED
        taken = [item.take(one) for one in items]
        wrong = _first_wrong(taken)
        if wrong is not None:
            return wrong
        return tuple(taken) if isinstance(items, tuple) else taken

    bits = INTEGERS if item is _INTEGER else 0
    plural = item.plural or "items"
    return Kind(f"a sequence of {plural}", take, bits, f"sequences of {plural}")


def _tuple(kinds: list[Kind]) -> Kind:
    def take(value: Any) -> Any:
        items = _items(value)
        if items is None or len(items) != len(kinds):
            return REFUSED
        taken = tuple(kind.take(one) for kind, one in zip(kinds, items, strict=True))
        wrong = _first_wrong(taken)
        return taken if wrong is None else wrong

    plural = kinds[0].plural if len(set(kinds)) == 1 else "items"
    return Kind(f"a tuple of {len(kinds)} {plural}", take, 0, f"tuples of {len(kinds)} {plural}")


def _mapping(key: Kind, item: Kind) -> Kind:
    def take(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return REFUSED
        refused = any(
            key.take(name) is REFUSED or item.take(one) is REFUSED for name, one in value.items()
        )
        return REFUSED if refused else value

    plural = f" of {item.plural}" if item.plural else ""
    return Kind(f"a dict{plural}", take, 0, f"dicts{plural}")
