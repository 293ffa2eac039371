"""Implicit state: lists of arrays that functions read and update without taking them as arguments.

The random state is one, the vectors of a search index are another. While `compile` traces a
function, that thread sees a list of placeholders in place of each state that the function reads, so
that it is tracked whether or not the user captures it: random numbers differ from call to call and
equal the uncompiled ones, and a search finds what was added after the compilation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ingot._native import array, set_callbacks

__all__ = [
    "Follower",
    "State",
    "current_state",
    "followed_states",
    "implicit_states",
    "register_implicit_state",
    "state_lock",
]

State = list[array]

# Held while a call reads the states and stores new ones; an RLock, because garbage collection may
# draw random numbers meanwhile.
state_lock = threading.RLock()
set_callbacks(state_lock=state_lock)
_states: list[State] = []
_thread = threading.local()


def register_implicit_state(state: State) -> State:
    """Make `compile(verify=True)`, which calls functions twice, restore `state`; returns it."""
    _states.append(state)
    return state


def implicit_states() -> tuple[State, ...]:
    """All states registered so far."""
    return tuple(_states)


def current_state(state: State, name: str = "the random state") -> State:
    """The list that this thread reads and updates as `state`: a stand-in while compile traces, else
    the state itself. `name` is for error messages.
    """
    follower: Callable[[State, str], State] | None = getattr(_thread, "follower", None)
    return state if follower is None else follower(state, name)


Follower = Callable[[State, str], State]


@contextmanager
def followed_states(follower: Follower) -> Iterator[Follower]:
    """Let `follower` decide which list this thread reads and updates as a state; yields the
    previous one.
    """
    before: Follower | None = getattr(_thread, "follower", None)
    _thread.follower = follower
    try:
        yield _itself if before is None else before
    finally:
        _thread.follower = before


def _itself(state: State, name: str) -> State:
    return state
