"""Errors that several places raise, in sentences that name the way out."""

from __future__ import annotations

from typing import Any, NoReturn

from ingot import _native
from ingot._native import Node, array

__all__ = ["ConversionError", "operand_error", "placeholder_error", "type_name"]


class ConversionError(ValueError, RuntimeError):
    """A value that no array can hold: MLX raises RuntimeError, Python's own is ValueError."""


def type_name(value: object) -> str:
    """The type of a value as error sentences call it."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if package in ("builtins", "ingot"):
        return kind.__name__
    return f"{kind.__module__}.{kind.__name__}"


def operand_error(name: str, left: Any, right: Any) -> NoReturn:
    """Raises for operands of the operator called `name` that are neither arrays nor numbers."""
    other = right if isinstance(left, array) else left
    sentence = (
        f"[{name}] cannot be applied to {type_name(left)} and {type_name(right)}: "
        "an operand is an array or a number. Make an array of it with mx.array(...) first."
    )
    # MLX has no overload for None at all, and none of matmul for anything but arrays.
    if other is None or name == "matmul":
        raise TypeError(sentence)
    raise ValueError(sentence)


def placeholder_error(node: Node, wanted: Node) -> NoReturn:
    """Raises where the value of `wanted`, which depends on `node`, is asked for while tracing."""
    source = wanted.source if node.source is None else node.source
    place = "" if source is None else f" made at {source}"
    raise ValueError(
        f"[eval] the array{place} has no value yet: compile or another transform only traces the "
        "function it is in. Return it from the function, or capture it with outputs=; to look at "
        "values while debugging, call mx.disable_compile() first."
    )


_native.set_hook("operand_error", operand_error)
_native.set_hook("placeholder_error", placeholder_error)
