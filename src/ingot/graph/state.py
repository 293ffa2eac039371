"""Implicit state: lists of arrays that functions read and update without being given them.

The random state is one. While `compile` traces a function, that thread sees a list of placeholders
in its place, so that the state is followed through the function whether or not the user captures
it: random numbers differ from call to call and equal the uncompiled ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ingot._native import array

__all__ = [
    "current_state",
    "implicit_states",
    "register_implicit_state",
    "replaced_states",
    "state_lock",
]

State = list[array]

# Held while a call takes the states and puts new ones; garbage collection may draw numbers then.
state_lock = threading.RLock()
_states: list[State] = []
_thread = threading.local()


def register_implicit_state(state: State) -> State:
    """Makes every compiled function follow `state`; returns it."""
    _states.append(state)
    return state


def implicit_states() -> tuple[State, ...]:
    """All states registered so far."""
    return tuple(_states)


def current_state(state: State) -> State:
    """What this thread reads and updates as `state`: a stand-in while compile traces, else the
    state itself.
    """
    stand_ins: dict[int, State] | None = getattr(_thread, "stand_ins", None)
    return state if stand_ins is None else stand_ins.get(id(state), state)


@contextmanager
def replaced_states(stand_ins: dict[int, State]) -> Iterator[None]:
    """Gives this thread stand-ins for states, by the id of the state."""
    before = getattr(_thread, "stand_ins", None)
    _thread.stand_ins = stand_ins
    try:
        yield
    finally:
        _thread.stand_ins = before
