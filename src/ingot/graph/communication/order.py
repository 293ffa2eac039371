"""One order of communication: the order in which the program calls, whatever is evaluated when.

Arrays are lazy, so two ranks may evaluate the same collectives in different orders, each waiting
for the other forever. Every communication therefore takes a token as its last input and makes the
next: it depends on the one called before, in any group, and evaluating it evaluates those first.
The current token is an implicit state like that of random numbers, so that compiled functions and
loops take it as an input and return the next one.

A communication that other work can overlap with is two nodes: one begins it and makes the token,
the other waits for its end and returns the result. The ends have tokens of their own, so that
compiled programs and evaluations leave none out, and what is sent stays in memory until then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, constant, make
from ingot.graph.dtype import int32
from ingot.graph.op import Op, no_rule, zero_jvp, zero_vjp
from ingot.graph.roles.host import Host
from ingot.graph.shape import Shape
from ingot.graph.state import State, current_state, register_implicit_state, state_lock

_TOKEN = np.zeros((), np.int32)
_TOKEN.flags.writeable = False

__all__ = [
    "Begin",
    "Communication",
    "Done",
    "Finish",
    "Ordered",
    "calls_so_far",
    "current_token",
    "finish",
    "in_order",
    "in_two_steps",
    "order",
    "restart",
    "set_token",
]


class Ordered(Host, role=True):
    """A host step that communicates, or that orders those that do."""


class Communication(Ordered, role=True):
    """A host step that communicates; its last input is the token of the one before."""

    why_host = "it communicates with other processes"

    emit = no_rule("MPI does it")


class Begin(Ordered, role=True):
    """Begins a communication: (token, x) -> its ticket, which is the next token. Evaluation reaches
    the token first, so the communication before has begun when `x` is computed.
    """

    why_host = "it communicates with other processes"


class Finish(Ordered, role=True):
    """Waits for a communication: (ticket, x, token of the last one that ended) -> its result."""

    why_host = "it communicates with other processes"


class Done(Ordered):
    """The token of a communication, whose result is the input."""

    why_host = "it orders communication"

    def infer(self, result: array) -> tuple[Shape, Dtype]:
        return (), int32

    def evaluate(self, result: np.ndarray) -> np.ndarray:
        return _TOKEN

    def host_function(self) -> Callable[..., list[np.ndarray]]:
        return _tokens_of

    vjp = zero_vjp
    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool, ...], result: array) -> array:
        return make(_DONE, (result,), (), int32)  # all examples communicate at once


def _tokens_of(result: np.ndarray) -> list[np.ndarray]:
    return [_TOKEN]


_DONE = Done()
_NAME = "the order of communication"
_native.set_callbacks(ordered_type=Ordered, token=(_DONE, (), int32, _TOKEN))

# Of all groups: ranks that are in two of them must not enter those in different orders.
order: State = register_implicit_state([])

# The token of the last communication that was begun by itself and has ended.
ended: State = register_implicit_state([])


class _Thread(threading.local):
    calls = 0  # in functions that are transformed or compiled


_thread = _Thread()


def in_order(
    op: Op, inputs: tuple[Any, ...], shape: Shape, dtype: Dtype, stream: Any = None
) -> array:
    """The lazy result of a communication after all that were called before."""
    if not _native.in_tracing():
        return _native.in_order(op, inputs, shape, dtype, stream, order)
    _thread.calls += 1
    return _native.in_order(op, inputs, shape, dtype, stream, _tokens())


def in_two_steps(begin: Begin, finish: Finish, x: array, stream: Any = None) -> array:
    """The lazy result of a communication like `x` that begins after all that were called before,
    and that later work need not wait for.
    """
    _native.set_callbacks(finish_type=Finish)
    with state_lock:
        tokens, ends = _tokens(), current_state(ended, _NAME)
        tokens[0] = make(begin, (tokens[0], x), (), int32, stream)
        result = make(finish, (tokens[0], x, ends[0]), x.shape, x.dtype, stream)
        ends[0] = make(_DONE, (result,), (), int32)
    _thread.calls += 1
    return result


def calls_so_far() -> int:
    """How many communications this thread has called in functions that are transformed."""
    return _thread.calls


def current_token() -> array:
    """The token of the last communication that this thread, or the trace that it runs, called."""
    return _tokens()[0]


def set_token(token: array) -> None:
    """Let the next communication come after `token`."""
    _tokens()[0] = token


def _tokens() -> State:
    return current_state(order, _NAME)


def restart() -> None:
    """Let what is called from now on not depend on a communication that failed on all ranks."""
    for state in (order, ended):
        state[:] = [constant(np.zeros((), np.int32), int32)]


def finish() -> None:
    """Performs all communication that was called so far."""
    _native.evaluate([order[0], ended[0]])


restart()
