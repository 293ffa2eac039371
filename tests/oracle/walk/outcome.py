"""What a call did, in a form that goes through a pipe and that does not name the library."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MAX_ELEMENTS = 1 << 22  # larger results are compared by shape and dtype alone
MAX_DEPTH = 6


@dataclass(frozen=True)
class Raised:
    """An exception: its type by name, those that it derives from, and its message."""

    kind: str
    kinds: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Values:
    """An array: its elements are None where it is too large to be evaluated."""

    dtype: str
    shape: tuple[int, ...]
    elements: np.ndarray | None = field(repr=False)


@dataclass(frozen=True)
class Crashed:
    """The process ended, or gave no answer in time."""

    reason: str


def raised(error: BaseException) -> Raised:
    kinds = tuple(kind.__name__ for kind in type(error).__mro__)
    return Raised(type(error).__name__, kinds, " ".join(str(error).split())[:300])


def call(text: str, known: dict[str, Any]) -> Any:
    """The outcome of an expression."""
    mx = known["mx"]
    try:
        mx.random.seed(7)
        return described(eval(text, dict(known)), mx)
    except Exception as error:  # every exception is an outcome to compare
        return raised(error)


def described(value: Any, mx: Any, depth: int = 0) -> Any:
    """A result without objects of the library; raises what evaluating it raises."""
    if isinstance(value, mx.array):
        return _values(value, mx)
    if isinstance(value, mx.Dtype):
        return f"dtype {str(value).rpartition('.')[2]}"
    if depth < MAX_DEPTH and isinstance(value, dict):
        items = {str(key): described(item, mx, depth + 1) for key, item in value.items()}
        return type(value).__name__, items
    if depth < MAX_DEPTH and isinstance(value, (list, tuple)):
        name = "list" if isinstance(value, list) else "tuple"
        return name, [described(item, mx, depth + 1) for item in value[:20]]
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, np.ndarray):
        return Values(f"numpy {value.dtype}", value.shape, value)
    return f"a {_class_name(value)}"


def _class_name(value: Any) -> str:
    kind = type(value)
    return "function" if callable(value) and not isinstance(value, type) else kind.__name__


def _values(value: Any, mx: Any) -> Values:
    name = str(value.dtype).rpartition(".")[2]
    if math.prod(value.shape) > MAX_ELEMENTS:
        return Values(name, tuple(value.shape), None)
    plain = value.astype(mx.float32) if name == "bfloat16" else value
    return Values(name, tuple(value.shape), np.array(plain))
