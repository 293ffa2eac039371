"""Errors that several modules raise, with messages that tell the user what to do."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

from ingot import _native
from ingot._native import Node, array
from ingot.graph.reporting.source import Source

__all__ = [
    "ConversionError",
    "RangeError",
    "no_value_parts",
    "operand_error",
    "operation_text",
    "placeholder_error",
    "type_name",
    "value_text",
]

MAX_INPUTS = 4  # listed in a message


class ConversionError(ValueError, RuntimeError):
    """A value that no array can hold: MLX raises RuntimeError, Python's own is ValueError."""


class RangeError(TypeError, OverflowError):
    """An int that no parameter can hold: MLX raises TypeError or OverflowError."""


def type_name(value: object) -> str:
    """The type of a value as error messages name it."""
    kind = type(value)
    module = getattr(kind, "__module__", "builtins")  # classes made by `type` may have none
    if module.partition(".")[0] in ("builtins", "ingot"):
        return kind.__name__
    return f"{module}.{kind.__name__}"


def operation_text(op: Any, inputs: Sequence[Any], source: Any) -> str:
    """Describe an operation and the line that asked for it, as part of a sentence:
    "Take(float32[5], int32[1]), made at script.py:12: y = mx.take(x, i)".

    Args:
        op: The op, or a name for it.
        inputs: Whatever has the `shape` and the `dtype` of each input: nodes, arrays, or steps of a
            tape.
        source: The `Source` of the user's line: `origin` of a node, `source` of a step. Anything
            else stands for a line that is not known, and nothing is said of it.
    """
    name = op if isinstance(op, str) else op.title
    listed = [_kind_text(x) for x in inputs[:MAX_INPUTS]]
    if len(inputs) > MAX_INPUTS:
        listed.append(f"{len(inputs) - MAX_INPUTS} more")
    made = f", made at {source.quoted}" if isinstance(source, Source) else ""
    return f"{name}({', '.join(listed)}){made}"


def _kind_text(value: Any) -> str:
    """A dtype and a shape: float32[2, 3]."""
    if isinstance(value.dtype, tuple):
        pairs = zip(value.dtype, value.shape, strict=True)
        return "(" + ", ".join(f"{dtype.name}{list(shape)}" for dtype, shape in pairs) + ")"
    return f"{value.dtype.name}{list(value.shape)}"


class _Short(reprlib.Repr):
    """A short repr, also of nested values, that does not evaluate arrays."""

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, array):
            return f"array of shape {x.shape}, {x.dtype.name}"
        if isinstance(x, int) and abs(x) > 10**40:
            return f"an int of {x.bit_length()} bits"
        return super().repr1(x, level)


def value_text(value: Any) -> str:
    """A short text for a value, without evaluating anything."""
    if isinstance(value, array):
        return f"shape {value.shape}, {value.dtype.name}"
    return _Short().repr(value)


def operand_error(name: str, left: Any, right: Any) -> NoReturn:
    """Raises for operands of the operator called `name` that are neither arrays nor numbers."""
    other = right if isinstance(left, array) else left
    sentence = (
        f"[{name}] cannot be applied to {type_name(left)} and {type_name(right)}: "
        "an operand is an array or a number. Make an array of it with mx.array(...) first."
    )
    # MLX has no overload for None at all, and matmul has none for anything but arrays.
    if other is None or name == "matmul":
        raise TypeError(sentence)
    raise ValueError(sentence)


def placeholder_error(node: Node, wanted: Node) -> NoReturn:
    """Raise because the value of `wanted`, which depends on the placeholder `node`, was
    requested.
    """
    source = _nearest_source(wanted)
    # Nodes traced by compile or a loop have the user's line; inputs of compile have a name.
    if source is None:
        array_text = "the array"
    else:
        array_text = source if isinstance(source, str) else f"the array made at {source}"
    if node.source is None:  # of vmap, a loop or a branch: those have no name
        raise _no_value(
            f"[eval] {array_text} has no value while vmap or a loop like mx.scan traces its "
            "function: choose between values with mx.where or mx.cond instead of `if`, or return "
            "it from the function and look at the results.",
            array_text,
            "vmap or a loop like mx.scan",
        )
    raise _no_value(
        f"[eval] {array_text} has no value: compile only traces the function, with placeholders. "
        "Choose between values with mx.where or mx.cond instead of `if`; pass the array itself on, "
        "not its values; give lengths and counts as Python numbers; return it from the function; "
        "or capture the container that it is put into with outputs=. To look at values while "
        "debugging, call mx.disable_compile() first.",
        array_text,
        "compile",
    )


def _no_value(message: str, array_text: str, tracer_text: str) -> ValueError:
    """The error, with the names of the array and of what traces it, for callers that know another
    way out (`no_value_parts`).
    """
    error = ValueError(message)
    vars(error)["parts"] = (array_text, tracer_text)
    return error


def no_value_parts(error: ValueError) -> tuple[str, str] | None:
    """The names of the array without a value and of what traces it; None for other errors."""
    found: tuple[str, str] | None = vars(error).get("parts")
    return found


def _nearest_source(wanted: Node) -> Any:
    """The line that made `wanted`, or else one of its inputs."""
    waiting = [wanted]
    seen = {wanted}
    for node in waiting:
        if node.source is not None:
            return node.source
        fresh = [source for source in node.inputs if source not in seen]
        seen.update(fresh)
        waiting += fresh
    return None


_native.set_callbacks(operand_error=operand_error, placeholder_error=placeholder_error)
