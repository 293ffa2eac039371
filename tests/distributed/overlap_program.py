"""Run by test_overlap.py as two ranks: sums of gradients run while the backward pass does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.distributed.checks import RANK, SIZE, WORLD, run

import ingot.core as mx
from ingot import _native, nn
from ingot.graph.communication.transport import Transport

RNG = np.random.default_rng(3)
X = RNG.standard_normal((16 * SIZE, 160)).astype(np.float32)
Y = RNG.standard_normal((16 * SIZE, 160)).astype(np.float32)
SHARE = slice(16 * RANK, 16 * (RANK + 1))

# What happened, in order: a sum has begun or was awaited, and how many native instructions and
# nodes had run until then while a sum was in flight.
events: list[tuple[str, int]] = []


def _recorded(name: str) -> None:
    method: Callable[..., Any] = getattr(Transport, name)

    def record(self: Transport, *arguments: Any) -> Any:
        if name == "complete":
            events.append((name, _native.progress_polls()))
        found = method(self, *arguments)
        if name == "begin":
            events.append((name, _native.progress_polls()))
        return found

    setattr(Transport, name, record)


_recorded("begin")
_recorded("complete")


def _loss(weights: list[mx.array], x: mx.array, y: mx.array) -> mx.array:
    for weight in weights:
        x = mx.tanh(x @ weight)
    return mx.square(x - y).mean()


def _step(weights: list[mx.array], x: mx.array, y: mx.array) -> list[mx.array]:
    gradients = nn.average_gradients(mx.grad(_loss)(weights, x, y), all_reduce_size=1 << 16)
    return [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)]


def _backwards(weights: list[mx.array], x: mx.array, y: mx.array) -> list[mx.array]:
    """What waits for the first sum is asked for first."""
    return _step(weights, x, y)[::-1]


def _check_events() -> None:
    kinds = [kind for kind, _ in events]
    assert kinds == ["begin"] * 4 + ["complete"] * 4, kinds
    begun = [polls for kind, polls in events if kind == "begin"]
    assert all(a < b for a, b in pairwise(begun)), begun


def backward_passes_overlap() -> None:
    """Each sum begins as soon as its gradients are there, and what computes the others runs while
    it is in flight; it is awaited after that. The parameters become those of one process.
    """
    weights = [mx.array(RNG.standard_normal((160, 160)).astype(np.float32)) / 13 for _ in range(4)]
    whole = mx.grad(_loss)(weights, mx.array(X), mx.array(Y))
    wanted = [np.array(weight - 0.1 * g) for weight, g in zip(weights, whole, strict=True)]
    x, y = mx.array(X[SHARE]), mx.array(Y[SHARE])
    for function, is_reversed in ((_step, False), (_backwards, True)):
        for _ in range(3):
            for call in (function, mx.compile(function)):
                events.clear()
                found = call(weights, x, y)
                mx.eval(found)
                _check_events()
                for one, right in zip(found[:: -1 if is_reversed else 1], wanted, strict=True):
                    np.testing.assert_allclose(np.array(one), right, 1e-4, 1e-6)


def results_nobody_wants() -> None:
    """A sum whose result is dropped ends before its operand's memory is used again."""

    def program(x: mx.array) -> mx.array:
        nn.average_gradients([x + 1, x + 2], all_reduce_size=0)
        return ((x + 3) * 2).sum()

    x = mx.full((200, 200), float(RANK))
    wanted = 2 * (RANK + 3) * 40_000
    for function in (program, mx.compile(program)):
        for _ in range(3):
            assert function(x).item() == wanted
    total = mx.distributed.all_sum(x)
    assert (total == SIZE * (SIZE - 1) / 2).all()
    transport = WORLD._transport
    assert transport is not None
    assert not transport.in_flight


def mixed_with_others() -> None:
    """Blocking calls of the same group while sums are in flight, evaluated in any order."""
    pending = []
    for number in range(10):
        x = mx.full((130, 130), float(number + RANK))
        pending.append((nn.average_gradients(x), number + (SIZE - 1) / 2))
        pending.append((mx.distributed.all_max(x[0]), number + SIZE - 1))
    for found, wanted in pending[:: 1 if RANK else -1]:
        assert (found == wanted).all()
    gradient = mx.grad(lambda x: nn.average_gradients(x * 2).sum())(mx.ones((130, 130)))
    assert (gradient == 2 / SIZE).all()
    batched = mx.vmap(nn.average_gradients)(mx.full((3, 130, 130), float(RANK)))
    assert (batched == (SIZE - 1) / 2).all()
    half = nn.average_gradients(mx.full((300, 300), 1 + RANK, mx.bfloat16))
    assert half.dtype == mx.bfloat16
    assert (half == (1 + SIZE) / 2).all()


def in_loops() -> None:
    """Each iteration averages; with transforms around it, by blocking sums."""
    start = mx.full((200, 200), float(RANK + 1))
    rows = mx.array(RNG.standard_normal(4).astype(np.float32))

    def step(carry: mx.array, row: mx.array) -> tuple[mx.array, mx.array]:
        gradient = mx.grad(lambda x: mx.square(x * row).mean())(carry)
        return carry - nn.average_gradients(gradient), carry[0, 0]

    wanted = start
    for row in rows:
        wanted, _ = step(wanted, row)
    mx.eval(wanted)
    for loop in (
        lambda x: mx.scan(step, x, rows)[0],
        mx.compile(lambda x: mx.scan(step, x, rows)[0]),
    ):
        assert mx.allclose(loop(start), wanted)


def mismatches() -> None:
    with pytest.raises(ValueError, match=r"all_sum of average_gradients of float32 of shape"):
        mx.eval(nn.average_gradients(mx.ones((200, 200 + RANK))))
    big = mx.ones((200, 200))
    call = mx.distributed.all_sum if RANK else nn.average_gradients
    with pytest.raises(ValueError, match="all_sum of average_gradients"):
        mx.eval(call(big))
    assert (nn.average_gradients(mx.ones((200, 200))) == 1).all()


if __name__ == "__main__":
    run(backward_passes_overlap, results_nobody_wants, mixed_with_others, in_loops, mismatches)
