"""What optimizers look like when printed: hyperparameters, the step, and how much they keep.

Nothing is evaluated for it: a value that is still lazy is said to be so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ingot.core as mx
from ingot.graph.reporting.tables import amount_text, html_table
from ingot.graph.tree import arrays_in

__all__ = ["description_html", "description_text"]

MAX_LENGTH = 60  # of a value in the text

_HEADINGS = ("optimizer", "hyperparameters", "step", "arrays of state", "bytes")


def _value_text(value: Any) -> str:
    if not isinstance(value, mx.array):
        text = repr(value)
        return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
    if value.size != 1:
        return f"{value.dtype.name}{list(value.shape)}"
    return f"{value._node.data.item():.6g}" if value._node.evaluated else "not evaluated"


def _hyperparameters(optimizer: Any, schedules: Mapping[str, Callable[..., Any]]) -> str:
    """The numbers in the state's first level, and the public attributes."""
    found = {
        name: value
        for name, value in optimizer.state.items()
        if isinstance(value, mx.array) and name != "step"
    }
    found |= {name: value for name, value in vars(optimizer).items() if not name.startswith("_")}
    return ", ".join(
        f"{name}={_value_text(value)}" + (" (scheduled)" if name in schedules else "")
        for name, value in found.items()
    )


def _cells(optimizer: Any) -> tuple[str, str, str, int, int]:
    arrays = arrays_in(optimizer.state)
    return (
        type(optimizer).__name__,
        _hyperparameters(optimizer, optimizer._schedulers),
        _value_text(optimizer.state["step"]) if "step" in optimizer.state else "unknown",
        len(arrays),
        sum(x.nbytes for x in arrays),
    )


def description_text(optimizer: Any) -> str:
    """An optimizer in a line."""
    name, hyperparameters, step, count, nbytes = _cells(optimizer)
    arrays = "1 array" if count == 1 else f"{count} arrays"
    return f"{name}({hyperparameters}): step {step}, {arrays} of state, {amount_text(nbytes, 'B')}"


def description_html(optimizers: list[Any]) -> str:
    """Optimizers as a table, a row for each."""
    rows = [
        (name, hyperparameters, step, f"{count:,}", amount_text(nbytes, "B"))
        for name, hyperparameters, step, count, nbytes in map(_cells, optimizers)
    ]
    return html_table(_HEADINGS, rows, numbers=(2, 3, 4))
