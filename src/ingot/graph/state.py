"""Implicit state: containers of arrays that functions read and update without being given them.

The random state is one: `compile` follows it through every traced function, so that random numbers differ from call to call and
equal the uncompiled ones, whether or not the user captures it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["implicit_states", "register_implicit_state"]

_states: list[Any] = []


def register_implicit_state(state: Any) -> None:
    """Makes every compiled function capture `state`, a list of arrays, if it changes it."""
    _states.append(state)


def implicit_states() -> tuple[Any, ...]:
    """All states registered so far."""
    return tuple(_states)
