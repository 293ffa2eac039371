"""What tests of compiled methods compare: all that is in an object, as plain Python values."""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

import numpy as np

import ingot.core as mx


def _rounded(values: Any) -> Any:
    return [float(f"{value:.4g}") for value in values.ravel()], values.shape


def state_of(item: Any, seen: tuple[int, ...] = ()) -> Any:
    """Arrays as nested lists, containers and objects as what they hold, by type."""
    if isinstance(item, mx.array):
        return ("array", str(item.dtype), _rounded(np.array(item.astype(mx.float32))))
    if id(item) in seen:
        return "the same as outside"
    seen = (*seen, id(item))
    found: list[Any] = [type(item).__name__]
    if isinstance(item, dict):
        found.append([(key, state_of(value, seen)) for key, value in item.items()])
    elif isinstance(item, (list, tuple)):
        found.append([state_of(value, seen) for value in item])
    elif isinstance(item, types.MethodType):
        return ("method", item.__func__.__name__, state_of(item.__self__, seen))
    elif isinstance(item, functools.partial):
        return ("partial", state_of(item.args, seen), state_of(item.keywords, seen))
    elif isinstance(item, (type, types.FunctionType)) or not hasattr(item, "__dict__"):
        names = [name for name in getattr(item, "__slots__", ()) if hasattr(item, name)]
        return [item if not names else type(item), *(state_of(getattr(item, n)) for n in names)]
    if hasattr(item, "__dict__"):
        found.append(sorted((name, state_of(value, seen)) for name, value in vars(item).items()))
    return found


def check_calls(compiled: Any, uncompiled: Any, steps: list[tuple[Any, ...]]) -> None:
    """Calls both for each step, each with a copy of its own of the first argument, which persists,
    and compares results and what the argument holds afterwards. A step begins with a function that
    changes the argument before the call, or None.
    """
    first, *_ = steps
    mine, theirs = copy.deepcopy(first[1]), copy.deepcopy(first[1])
    for number, (change, _, *rest) in enumerate(steps):
        if change is not None:
            change(mine)
            change(theirs)
        found = compiled(mine, *copy.deepcopy(rest))
        expected = uncompiled(theirs, *copy.deepcopy(rest))
        assert state_of(found) == state_of(expected), f"result of call {number}"
        assert state_of(mine) == state_of(theirs), f"state after call {number}"
