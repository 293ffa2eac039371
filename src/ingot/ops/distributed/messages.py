"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot._native import Dtype, array, make
from ingot.graph.communication.groups import Group, init
from ingot.graph.communication.order import Communication, in_order
from ingot.graph.device import StreamLike
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule, zero_jvp, zero_vjp
from ingot.graph.shape import Shape
from ingot.ops.elementwise.casting import as_array
from ingot.ops.shape.creation import zeros_like
from ingot.ops.shape.movement import broadcast_to

__all__ = ["recv", "recv_like", "send"]


@dataclass(frozen=True)
class Send(Communication):
    """Sends the first input, and returns it."""

    group: Group
    to: int

    def infer(self, x: array, token: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def evaluate(self, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        transport = self.group._transport
        assert transport is not None
        transport.send(x, self.to)
        return x

    vjp = no_rule("what is sent leaves the process")
    jvp = no_rule("what is sent leaves the process")

    def vmap(self, size: int, batched: tuple[bool, ...], x: array, token: array) -> array:
        """One message with all examples."""
        if batched[0]:
            return make(self, (x, token), x.shape, x.dtype)
        return broadcast_to(make(self, (x, token), x.shape, x.dtype), (size, *x.shape))


@dataclass(frozen=True)
class Receive(Communication):
    """An array from another process."""

    group: Group
    source: int
    shape: Shape
    dtype: Dtype

    def infer(self, token: array) -> tuple[Shape, Dtype]:
        return self.shape, self.dtype

    def evaluate(self, token: np.ndarray) -> np.ndarray:
        transport = self.group._transport
        assert transport is not None
        return transport.receive(self.shape, self.dtype.numpy, self.source)

    vjp = zero_vjp
    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool, ...], token: array) -> array:
        """One message for all examples."""
        found = make(self, (token,), self.shape, self.dtype)
        return broadcast_to(found, (size, *self.shape))


@dataclass(frozen=True)
class ReceiveLike(Communication):
    """An array from another process with the shape and dtype of the first input."""

    group: Group
    source: int

    def infer(self, x: array, token: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def evaluate(self, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        transport = self.group._transport
        assert transport is not None
        return transport.receive(x.shape, x.dtype, self.source)

    def vjp(self, cotangent: array, out: array, x: array, token: array) -> tuple[Any, ...]:
        return zeros_like(x), None

    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool, ...], x: array, token: array) -> array:
        """One message, with all examples if they are like batched ones."""
        found = make(self, (x, token), x.shape, x.dtype)
        return found if batched[0] else broadcast_to(found, (size, *x.shape))


def _partner(name: str, group: Group | None, number: int) -> Group:
    """The group, checked for a process of that number."""
    group = init() if group is None else group
    if group.size() == 1:
        raise ValueError(f"[{name}] there is no process {number}: the group has one process.")
    if not 0 <= number < group.size():
        raise ValueError(
            f"[{name}] there is no process {number} in a group of size {group.size()}."
        )
    return group


def send(x: Any, dst: int, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """Send an array to another process, which calls `recv` or `recv_like`.

    Like everything, it is lazy: it is sent when the result, or that of a later communication, is
    evaluated, at the latest when the program ends.

    Args:
        x: The array to send.
        dst: The number of the process to send it to.
        group: The group, all processes by default.
        stream: The stream or device to run on.

    Returns:
        The array, once it is on its way.
    """
    x = as_array("send", x)
    group = _partner("send", group, dst)
    return in_order(Send(group, dst), (x,), x.shape, x.dtype, stream)


def recv(
    shape: Sequence[int],
    dtype: Dtype,
    src: int,
    *,
    group: Group | None = None,
    stream: StreamLike = None,
) -> array:
    """Receive an array from another process.

    Args:
        shape: The shape of the array that was sent.
        dtype: Its dtype.
        src: The number of the process that sends it.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    group = _partner("recv", group, src)
    op = Receive(group, src, tuple(shape), dtype)
    return in_order(op, (), op.shape, dtype, stream)


def recv_like(
    x: array, src: int, *, group: Group | None = None, stream: StreamLike = None
) -> array:
    """Receive an array from another process.

    Args:
        x: An array with the shape and dtype of the one that was sent.
        src: The number of the process that sends it.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    group = _partner("recv_like", group, src)
    return in_order(ReceiveLike(group, src), (x,), x.shape, x.dtype, stream)
