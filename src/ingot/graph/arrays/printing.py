"""Printing of arrays in MLX's format, and the options for the number of digits."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from ingot._native import array
from ingot.graph.arrays.conversion import item
from ingot.graph.dtype import bool_, is_complex, is_integer
from ingot.graph.errors import value_text

__all__ = ["PrintOptions", "get_printoptions", "printoptions", "set_printoptions"]

EDGE = 3  # how many items are shown at each end of an axis that is too long
LONGEST = 2 * EDGE  # the longest axis that is shown in full


def _checked_precision(precision: Any) -> int:
    if not isinstance(precision, int):
        raise TypeError(
            f"[set_printoptions] the precision must be an int, got {value_text(precision)}."
        )
    return precision


class PrintOptions:
    """How arrays are printed: `precision` is the number of decimal places; below 0, six digits."""

    __slots__ = ("precision",)

    def __init__(self, precision: int = -1) -> None:
        self.precision = _checked_precision(precision)


_options = PrintOptions()


def set_printoptions(precision: int = -1) -> None:
    """Print floating-point numbers with `precision` decimal places; -1: six significant digits."""
    _options.precision = _checked_precision(precision)


def get_printoptions() -> PrintOptions:
    """A copy of the current options."""
    return PrintOptions(_options.precision)


class _Context:
    """Sets the precision inside a `with` block."""

    def __init__(self, precision: int) -> None:
        self.precision = _checked_precision(precision)
        self.before = _options.precision

    def __enter__(self) -> _Context:
        self.before = _options.precision
        _options.precision = self.precision
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _options.precision = self.before


def printoptions(precision: int = -1) -> _Context:
    """A context manager in which floats are printed with `precision` decimal places."""
    return _Context(precision)


def text_of_array(a: array) -> str:
    """The text of `repr(a)` and `print(a)`; evaluates the array."""
    if a.dtype is bool_ or is_integer(a.dtype):
        number: Callable[[Any], str] = str
    elif is_complex(a.dtype):
        number = _complex_text
    else:
        number = _float_text
    return f"array({_text(a._data, number, len('array(') + 1)}, dtype={a.dtype.name})"


def format_array(a: array, spec: str, /) -> str:
    """The text of `f"{a:spec}"`: a 0-d array is formatted as the number it holds."""
    if a.ndim == 0:
        return format(item(a), spec)
    if spec:
        raise TypeError(
            f"[format] {spec!r} formats one number, but this array has shape {a.shape}: "
            "format its elements instead."
        )
    return text_of_array(a)


def _text(data: Any, number: Callable[[Any], str], indent: int) -> str:
    """The items along the first axis, each on a line of its own if they are arrays themselves."""
    if data.ndim == 0:
        return number(data[()])
    length = len(data)
    shown: Iterable[int] = range(length)
    if length > LONGEST:
        shown = (*range(EDGE), *range(length - EDGE, length))
    items = [_text(data[position], number, indent + 1) for position in shown]
    if length > LONGEST:
        items.insert(EDGE, "...")
    separator = ", " if data.ndim == 1 else ",\n" + " " * indent
    return "[" + separator.join(items) + "]"


def _float_text(value: Any) -> str:
    if _options.precision < 0:
        return f"{float(value):g}"
    return f"{float(value):.{_options.precision}f}"


def _complex_text(value: Any) -> str:
    sign = "" if value.imag < 0 else "+"
    return f"{_float_text(value.real)}{sign}{_float_text(value.imag)}j"


_text_of_standard_array = reprlib.Repr.repr_array


def _shortened(self: reprlib.Repr, value: Any, level: int) -> str:
    # Up to Python 3.11, reprlib, which pytest and debuggers use to show values, takes every type
    # named "array" for Python's array.array.
    if isinstance(value, array):
        return self.repr_instance(value, level)
    return _text_of_standard_array(self, value, level)


reprlib.Repr.repr_array = _shortened  # type: ignore[method-assign, assignment]
