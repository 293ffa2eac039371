"""Evaluation: computes lazy arrays when their values are needed.

The walk over the graph is native (`_native/evaluate.c`): it calls each op's `evaluate` rule in dependency order, in a
context in which NumPy neither warns about floating-point errors nor allocates outside ingot's memory.
"""

from __future__ import annotations

import contextvars
from typing import Any

import numpy as np

from ingot import _native
from ingot.graph.tree import arrays_in

__all__ = ["eval"]


def eval(*args: Any) -> None:
    """Compute all arrays in `args`, which may be arrays and nested lists, tuples and dicts of them."""
    _native.evaluate(arrays_in(args))


def _make_context() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    context.run(_native.enter_numpy_memory)
    return context


_native.set_hook("make_context", _make_context)
