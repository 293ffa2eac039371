"""What tests of compiled functions call, with what, and how results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import ingot.core as mx
from ingot.compiler.call.describe import contents_of
from ingot.compiler.call.lengths import NO_AXES, all_axes
from ingot.compiler.trace.call import Call
from ingot.compiler.trace.trace import Trace, trace


def exp_plus(x: Any, y: Any) -> Any:
    return mx.exp(-x) + y


X = mx.array([1.0, 2.0])
Y = mx.array([3.0, 4.0])
EXPECTED = np.exp(-np.array(X)) + np.array(Y)


def check(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)


def call_of(function: Any, *args: Any, **options: Any) -> Call:
    """A call without captured containers; `options` are other fields of it."""
    given = {"kwargs": {}, "inputs": None, "outputs": None, "bound": None, "has_receiver": False}
    return Call(function, args, **{**given, **options})


def traced(function: Any, *args: Any, shapeless: bool = False, word: str = "argument") -> Trace:
    """The trace of a call whose inputs are called by a word and their positions."""
    call = call_of(function, *args)
    contents = contents_of(call)
    contents.arrays = [
        (f"{word} {position}", *found[1:])  # type: ignore[misc]
        for position, found in enumerate(contents.arrays)
    ]
    axes = all_axes([value.shape for _, value, _ in contents.arrays]) if shapeless else NO_AXES
    found = trace(call, contents, axes)
    assert found is not None
    return found
