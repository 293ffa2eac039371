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
    """Raises where the value of `wanted` is asked for, which depends on the placeholder `node`."""
    source = _nearest_source(wanted)
    if source is None:
        raise ValueError(
            "[eval] the array has no value while vmap traces the function it is in, once for all "
            "examples: return it from the function and look at the results."
        )
    # What compile traces has the user's line; its inputs have a name.
    array_text = source if isinstance(source, str) else f"the array made at {source}"
    raise ValueError(
        f"[eval] {array_text} has no value: compile only traces the function, with placeholders. "
        "Pass the array itself on, not its values; return it from the function; or capture the "
        "container that it is put into with outputs=. To look at values while debugging, call "
        "mx.disable_compile() first."
    )


def _nearest_source(wanted: Node) -> Any:
    """Where `wanted` was made, or else one of the arrays that it was made of."""
    waiting = [wanted]
    seen = {wanted}
    for node in waiting:
        if node.source is not None:
            return node.source
        fresh = [source for source in node.inputs if source not in seen]
        seen.update(fresh)
        waiting += fresh
    return None


_native.set_hook("operand_error", operand_error)
_native.set_hook("placeholder_error", placeholder_error)
