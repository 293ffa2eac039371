"""`debug_nans`: stops at the first operation that makes a NaN, or an infinity from finite numbers.

While it is on, `_native/evaluate/run_node.c` passes every node to `_run_checked` instead of running
it: ops are computed one by one by their `evaluate` rules, those of compiled functions too, without
donating inputs, and each result is inspected. When it is off, evaluation tests one pointer per
node.

An infinity propagated from an infinity, or a NaN from a NaN, is not an error of the op that reads
it; a NaN computed from infinities is. Ops that compute each element, or each row, separately are
judged by element or row, so that a mask of -inf next to finite numbers hides nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Node
from ingot.graph.errors import operation_text
from ingot.graph.op import Op
from ingot.graph.reporting.source import Source
from ingot.graph.roles import Map, Reduce
from ingot.runtime.failures import named

__all__ = ["debug_nans"]

MAX_INPUTS_SHOWN = 8
_VARIABLE = "INGOT_DEBUG_NANS"


class _Restore:
    """What `debug_nans` returns: restores the previous setting at the end of a `with` block."""

    def __init__(self, before: bool) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _switch(self._before)

    def __repr__(self) -> str:
        return f"debug_nans({_is_on})"


def debug_nans(on: bool = True) -> _Restore:
    """Stop at the first operation that produces a NaN, or an infinity from finite numbers.

    Evaluating it raises a FloatingPointError with the operation, the line of your program that
    made it, and the shapes, dtypes and ranges of its inputs. Compiled functions are checked too,
    and what `grad`, `vmap` and `async_eval` compute. All threads are.

    Everything then runs op by op, which is slow: switch it on to find an error. An infinity that
    you wrote down, as in `mx.full(shape, -mx.inf)` or a mask, is not an error, nor are infinities
    that operations make of it; `mx.log(0)` is one, and so is the NaN of a row that is masked as a
    whole.

    Args:
        on: Whether to check; False switches it off. The environment variable INGOT_DEBUG_NANS=1
            switches it on from the start, as `ingot run --check-nan` does.

    Returns:
        A context manager: `with mx.debug_nans():` checks what is evaluated inside.
    """
    if not isinstance(on, bool):
        raise TypeError(f"[debug_nans] takes True or False, got {type(on).__name__} {on!r}.")
    before = _is_on
    _switch(on)
    return _Restore(before)


def _switch(on: bool) -> None:
    global _is_on
    _is_on = on
    _native.set_callbacks(run_checked=_run_checked if on else None)


def _run_checked(node: Node, op: Op, inputs: tuple[np.ndarray, ...]) -> Any:
    """The value of a node, after checking it."""
    if op.step_by_step is not None:  # a compiled function
        return op.step_by_step(inputs, _check)
    results = op.evaluate(*inputs)
    _check(op, node.origin, inputs, results)
    return results


def _check(op: Op, source: Source | None, inputs: Sequence[np.ndarray], results: Any) -> None:
    """FloatingPointError if `results` of an op are not finite where `inputs` are, or NaN where no
    input is.
    """
    if not inputs or op.takes_bits:
        return
    for result in results if isinstance(results, tuple) else (results,):
        values = np.asarray(result)
        if not _can_be_infinite(values.dtype):
            continue
        finite = np.isfinite(values)
        if finite.all():
            continue
        wrong = ~finite & _made_of(np.isfinite, op, inputs, values.shape)
        if wrong.any():
            raise named(FloatingPointError(_message(op, source, inputs, values, wrong)))
        wrong = np.isnan(values) & _made_of(_is_number, op, inputs, values.shape)
        if wrong.any():
            text = _message(op, source, inputs, values, wrong, "infinities")
            raise named(FloatingPointError(text))


def _can_be_infinite(dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "biu"  # bfloat16 has its own kind


def _is_number(x: np.ndarray) -> np.ndarray:
    return ~np.isnan(x)


def _made_of(
    has_property: Callable[[np.ndarray], np.ndarray],
    op: Op,
    inputs: Sequence[np.ndarray],
    shape: tuple[int, ...],
) -> Any:
    """Which elements of the result depend only on elements with the property."""
    found: Any = True
    for value in inputs:
        if not _can_be_infinite(value.dtype):
            continue
        holds: Any = has_property(value)
        if isinstance(op, Reduce):
            holds = np.all(holds, axis=op.axes, keepdims=True)
        if holds.shape != shape or not isinstance(op, (Map, Reduce)):
            holds = holds.all()
        found = found & holds
    return found


def _message(
    op: Op,
    source: Source | None,
    inputs: Sequence[np.ndarray],
    values: np.ndarray,
    wrong: np.ndarray,
    made_of: str = "finite numbers",
) -> str:
    what = "a NaN" if np.isnan(values[wrong]).any() else "an infinity"
    operation = operation_text(op, inputs, source)
    lines = [f"[debug_nans] {what} came out of {made_of}: {operation}"]
    lines += [
        f"  input {number}: {_described(value)}"
        for number, value in enumerate(inputs[:MAX_INPUTS_SHOWN])
    ]
    if len(inputs) > MAX_INPUTS_SHOWN:
        lines.append(f"  and {len(inputs) - MAX_INPUTS_SHOWN} inputs more")
    first = ", ".join(str(int(index)) for index in np.argwhere(wrong)[0])
    index = f", the first at [{first}]" if values.ndim else ""
    lines.append(f"  result: {_described(values)}{index}")
    return "\n".join(lines)


def _described(value: np.ndarray) -> str:
    """Dtype, shape and range of an array, and how much of it is not finite."""
    text = f"{value.dtype.name}{list(value.shape)}"
    if value.size == 0:
        return f"{text}, empty"
    if not _can_be_infinite(value.dtype):
        return f"{text}, from {value.min()} to {value.max()}"
    finite = value[np.isfinite(value)]
    sizes = np.abs(finite) if value.dtype.kind == "c" else finite
    span = "nothing finite"
    if finite.size:
        low, high = float(sizes.min()), float(sizes.max())
        span = f"{'moduli ' if value.dtype.kind == 'c' else ''}from {low:.6g} to {high:.6g}"
    if finite.size == value.size:
        return f"{text}, {span}, all finite"
    nans = int(np.isnan(value).sum())
    infinities = value.size - finite.size - nans
    counts = [f"{nans:,} NaN"] if nans else []
    counts += [f"{infinities:,} infinite"] if infinities else []
    return f"{text}, {span}; {' and '.join(counts)} of {value.size:,}"


_is_on = False
_switch(os.environ.get(_VARIABLE, "") == "1")
