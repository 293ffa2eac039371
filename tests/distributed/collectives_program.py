"""Run by test_collectives.py as several ranks: every function of `mx.distributed` against NumPy on
the arrays of all ranks, which each rank makes itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.distributed.checks import (
    DTYPES,
    RANK,
    SHAPES,
    SIZE,
    WORLD,
    given,
    inputs,
    run,
    same,
    values,
)

import ingot.core as mx
from ingot.graph.communication import transport
from ingot.nn.layers.distributed import sum_gradients

d = mx.distributed


def summed(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.bool_:
        return np.asarray(x.any(0))
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x
    return np.asarray(wide.sum(0, dtype=wide.dtype)).astype(x.dtype)


def extreme(x: np.ndarray, largest: bool) -> np.ndarray:
    if x.dtype == np.bool_:
        return np.asarray(x.any(0) if largest else x.all(0))
    return np.asarray((np.maximum if largest else np.minimum).reduce(x, axis=0))


def gathered(x: np.ndarray) -> np.ndarray:
    return x if x.ndim == 1 else x.reshape(-1, *x.shape[2:])


def scattered(x: np.ndarray) -> np.ndarray:
    return np.split(summed(x), SIZE)[RANK]


def exchanged(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.split(one, SIZE)[RANK] for one in x])


COLLECTIVES: list[tuple[Callable[..., mx.array], Callable[[np.ndarray], np.ndarray], bool]] = [
    (d.all_sum, summed, False),
    (d.all_max, lambda x: extreme(x, True), False),
    (d.all_min, lambda x: extreme(x, False), False),
    (d.all_gather, gathered, False),
    (d.sum_scatter, scattered, True),
    (d.all_to_all, exchanged, True),
    (lambda x: d.broadcast(x, SIZE - 1), lambda x: x[-1], False),
]


def every_collective() -> None:
    for function, reference, in_blocks in COLLECTIVES:
        for dtype in DTYPES:
            found, wanted = [], []
            for shape in SHAPES:
                if in_blocks:
                    shape = (SIZE * shape[0], *shape[1:]) if shape else (SIZE,)
                x = inputs(shape, dtype)
                found.append(function(given(x[RANK])))
                wanted.append(reference(x))
            mx.eval(found)
            for one, right in zip(found, wanted, strict=True):
                same(one, right, f"{reference.__name__} {dtype}")


def compiled_collectives() -> None:
    def program(xs: list[mx.array]) -> list[mx.array]:
        return [
            function(x + x) + x[..., :1].sum().astype(x.dtype)
            for x in xs
            for function, _, _ in COLLECTIVES
        ]

    xs = [given(inputs((4 * SIZE, 3), dtype, seed=1)[RANK]) for dtype in DTYPES[1:]]
    plain, compiled = program(xs), mx.compile(program)
    for _ in range(2):
        for one, other in zip(plain, compiled(xs), strict=True):
            same(other, values(one), "compiled")
    doubled = mx.compile(lambda x: d.all_sum(x), shapeless=True)
    for n in (2, 5, 7):
        assert doubled(mx.ones((n, 3))).tolist() == [[SIZE] * 3] * n


def views_and_numbers() -> None:
    x = inputs((6, 8), "float32", seed=2)
    mine = mx.array(x[RANK])
    same(d.all_sum(mine.T), summed(x).T, "transposed")
    same(d.all_sum(mine[1:5:2, ::-1]), summed(x)[1:5:2, ::-1], "slice")
    same(
        d.all_gather(mx.broadcast_to(mine[0], (3, 8))), np.repeat(x[:, :1], 3, 1).reshape(-1, 8), ""
    )
    assert d.all_sum(3).item() == 3 * SIZE
    big = np.full(300_000, 1.0, np.float32)
    same(d.all_sum(mx.array(big)), big * SIZE, "large")
    # In float32 and rounded once: 2048 + 1 is 2048 in float16.
    ones = mx.array([2048.0 if RANK == 0 else 1.0] * 100, mx.float16)
    assert d.all_sum(ones).tolist() == [np.float16(2048 + SIZE - 1)] * 100
    numbers = mx.array([np.nan if RANK == 1 else 1.0] * 100)
    assert mx.isnan(d.all_max(numbers)).all()
    assert mx.isnan(d.all_min(numbers)).all()


def derivatives() -> None:
    x = inputs((2 * SIZE, 3), "float32", seed=3)
    w = inputs((2 * SIZE * SIZE, 3), "float32", seed=4)
    mine, weights = mx.array(x[RANK]), mx.array(w[RANK])

    def loss(function: Callable[..., mx.array]) -> Callable[[mx.array], mx.array]:
        def weighted(x: mx.array) -> mx.array:
            y = function(x)
            return (y * weights[: y.shape[0]]).sum()

        return weighted

    own = w[RANK][: 2 * SIZE]
    blocks = w[:, :2]
    wanted = {
        "all_sum": own,
        "all_max": own * (x[RANK] == x.max(0)),
        "all_min": own * (x[RANK] == x.min(0)),
        "all_gather": w[RANK][2 * SIZE * RANK : 2 * SIZE * (RANK + 1)],
        "sum_scatter": blocks.reshape(-1, 3),
        "all_to_all": np.stack([w[r][2 * RANK : 2 * RANK + 2] for r in range(SIZE)]).reshape(-1, 3),
        "broadcast": own * (RANK == 0),
    }
    for name, right in wanted.items():
        function = getattr(d, name)
        for transformed in (mx.grad(loss(function)), mx.compile(mx.grad(loss(function)))):
            same(transformed(mine), right.astype(np.float32), f"grad of {name}")
    tangents = inputs(x.shape[1:], "float32", seed=5)
    for name in ("all_sum", "all_gather", "sum_scatter", "all_to_all"):
        function = getattr(d, name)
        _, (along,) = mx.jvp(function, [mine], [mx.array(tangents[RANK])])
        same(along, np.array(function(mx.array(tangents[RANK]))), f"jvp of {name}")
    _, (along,) = mx.jvp(d.all_max, [mine], [mx.array(tangents[RANK])])
    same(along, (tangents * (x == x.max(0))).sum(0), "jvp of all_max")


def vectorised() -> None:
    x = inputs((5, 2 * SIZE), "float32", seed=6)
    for function, reference, _ in COLLECTIVES:
        wanted = np.stack([reference(x[:, row]) for row in range(5)])
        same(mx.vmap(function)(mx.array(x[RANK])), wanted, f"vmap of {reference.__name__}")
        compiled = mx.compile(mx.vmap(function))
        same(compiled(mx.array(x[RANK])), wanted, f"compiled vmap of {reference.__name__}")
    scalars = inputs((5,), "float32", seed=7)
    same(mx.vmap(d.all_gather)(mx.array(scalars[RANK])), scalars.T, "vmap of scalars")
    # What all examples share is communicated once, and what follows comes after it.
    both = mx.vmap(lambda row: d.all_sum(row) + d.all_sum(mx.ones(2 * SIZE)))
    same(both(mx.array(x[RANK])), summed(x) + SIZE, "vmap of shared")


def recomputed_and_looped() -> None:
    x = inputs((4,), "float32", seed=8)
    mine = mx.array(x[RANK]) / 8

    def body(x: mx.array) -> mx.array:
        return mx.sin(d.all_sum(mx.sin(x)))

    plain = mx.grad(lambda x: body(x).sum())(mine)
    for function in (mx.checkpoint(body), mx.compile(mx.checkpoint(body))):
        again = mx.grad(lambda x, f=function: f(x).sum())(mine)
        assert mx.allclose(again, plain), "checkpoint"

    def step(carry: mx.array, row: mx.array) -> tuple[mx.array, mx.array]:
        carry = d.all_sum(carry) / SIZE + row
        return carry, d.all_max(carry)

    rows = mx.array(inputs((3, 4), "float32", seed=9)[0])
    last, outs = mx.scan(step, mine, rows)
    carry, wanted = mine, []
    for row in rows:
        carry, out = step(carry, row)
        wanted.append(out)
    assert mx.allclose(last, carry)
    assert mx.allclose(outs, mx.stack(wanted))
    differentiated_loops(mine, rows)


@mx.custom_function
def averaged(x: mx.array) -> mx.array:
    """The identity, whose gradient is the mean over all ranks, as in data-parallel training."""
    return x * 1


@averaged.vjp
def averaged_vjp(_: Any, cotangent: mx.array, __: Any) -> mx.array:
    return d.all_sum(cotangent) / SIZE


def differentiated_loops(mine: mx.array, rows: mx.array) -> None:
    """Gradients of loops whose bodies, or the rules in them, communicate."""

    def step(carry: mx.array, row: mx.array) -> tuple[mx.array, mx.array]:
        carry = mx.sin(d.all_sum(carry * (RANK + 1)) / SIZE + row) + averaged(carry)
        return carry, d.all_sum(carry * row)

    def loss(x: mx.array, rows: mx.array, looped: bool) -> mx.array:
        if looped:
            last, outs = mx.scan(step, x, rows)
            return (last**2).sum() + outs.sum()
        total = mx.array(0.0)
        for row in rows:
            x, out = step(x, row)
            total = total + out.sum()
        return (x**2).sum() + total

    def gradient(looped: bool) -> Any:
        return mx.grad(lambda x, rows: loss(x, rows, looped), (0, 1))

    wanted = gradient(False)(mine, rows)
    for function in (gradient(True), mx.compile(gradient(True))):
        for found, each in zip(function(mine, rows), wanted, strict=True):
            assert mx.allclose(found, each, rtol=1e-5), "gradient of a loop that communicates"
    with pytest.raises(ValueError, match="communicate in each step"):
        mx.jvp(lambda x: mx.scan(step, x, rows)[0], [mine], [mine])
    assert d.all_sum(mx.array(1)).item() == SIZE, "nothing traced is left in the order"


def derivatives_in_loops() -> None:
    """Bodies that communicate, and whose derivatives do, against the same steps unrolled."""
    rows = mx.array(np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32))
    mine = mx.array(np.random.default_rng(2 + RANK).standard_normal(3).astype(np.float32))
    summed_later = sum_gradients(WORLD)

    def reduced(carry: mx.array, row: mx.array) -> tuple[mx.array, mx.array]:
        carry = mx.sin(d.all_sum(carry * row) / SIZE)
        return carry, d.all_max(carry).sum()

    def scattered(carry: mx.array, row: mx.array) -> tuple[mx.array, mx.array]:
        blocks = d.sum_scatter(mx.concatenate([carry * row] * SIZE))
        return mx.sin(blocks), d.all_to_all(mx.concatenate([blocks] * SIZE)).sum()

    def ruled(carry: mx.array, row: mx.array) -> tuple[mx.array, mx.array]:
        carry = mx.tanh(summed_later(carry) * row)
        return carry, carry.sum()

    for step in (reduced, scattered, ruled):

        def looped(x: mx.array, rows: mx.array, step: Any = step) -> mx.array:
            last, outs = mx.scan(step, x, rows)
            return (last**2).sum() + (outs**2).sum()

        def unrolled(x: mx.array, rows: mx.array, step: Any = step) -> mx.array:
            total = mx.array(0.0)
            for row in rows:
                x, out = step(x, row)
                total = total + out**2
            return (x**2).sum() + total

        wanted = mx.grad(unrolled, argnums=(0, 1))(mine, rows)
        mx.eval(wanted)
        gradient = mx.grad(looped, argnums=(0, 1))
        for function in (gradient, mx.compile(gradient)):
            for found, right in zip(function(mine, rows), wanted, strict=True):
                assert mx.allclose(found, right, 1e-4, 1e-5), step.__name__


def small_numbers() -> None:
    """Few bytes are reduced in the extension: overflow, NaN and infinities, against NumPy."""
    rng = np.random.default_rng(7)
    for dtype in DTYPES[1:9]:
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (SIZE, 5), dtype, endpoint=True)
        for function, reference, _ in COLLECTIVES[:3]:
            same(function(given(x[RANK])), reference(x), f"{reference.__name__} {dtype}")
    for dtype in ("float32", "float64"):
        x = rng.choice([np.nan, np.inf, -np.inf, 1.5, -2.5], (SIZE, 8)).astype(dtype)
        with np.errstate(invalid="ignore"):
            for function, reference, _ in COLLECTIVES[:3]:
                same(function(given(x[RANK])), reference(x), f"{reference.__name__} {dtype}")


def large_groups() -> None:
    """Groups with more ranks than are listed compare hashes of their headers."""
    transport.MAX_LISTED = 1
    group = WORLD.split(0)
    transport.MAX_LISTED = 16
    x = inputs((3,), "float32", seed=13)
    for _ in range(3):
        same(d.all_sum(mx.array(x[RANK]), group=group), summed(x), "hashes")
        same(d.all_gather(mx.array(x[RANK]), group=group), gathered(x), "hashes")
    with pytest.raises(ValueError, match=r"rank 0: all_sum of float32 of shape \(2\)"):
        mx.eval(d.all_sum(mx.ones(2 + RANK), group=group))
    same(d.all_sum(mx.array(x[RANK]), group=group), summed(x), "after a mismatch")


def several_machines() -> None:
    """Ranks that share no memory exchange headers and small data by MPI."""
    assert WORLD._transport is not None
    alone = type(WORLD._transport)
    on_one_machine = alone.is_on_one_machine
    alone.is_on_one_machine = lambda self: False  # type: ignore[method-assign]
    group = WORLD.split(0)
    alone.is_on_one_machine = on_one_machine  # type: ignore[method-assign]
    x = inputs((3,), "float32", seed=14)
    for _ in range(3):
        same(d.all_sum(mx.array(x[RANK]), group=group), summed(x), "without shared memory")
        same(d.all_gather(mx.array(x[RANK]), group=group), gathered(x), "without shared memory")
    with pytest.raises(ValueError, match=r"rank 0: all_sum of float32 of shape \(2\)"):
        mx.eval(d.all_sum(mx.ones(2 + RANK), group=group))
    same(d.all_sum(mx.array(x[RANK]), group=group), summed(x), "after a mismatch")


def messages_in_flight() -> None:
    """A rank that waits for others in shared memory goes on sending them what they wait for."""
    x = mx.full((5_000,), 3.0)
    for _ in range(1_000):  # more than fits into MPI's buffers
        if RANK == 0:
            d.send(x, 1)
        elif RANK == 1:
            assert d.recv_like(x, 0)[-1].item() == 3
    assert d.all_sum(mx.ones(2)).tolist() == [SIZE] * 2


def split_groups() -> None:
    pair = WORLD.split(RANK % 2)
    assert (pair.size(), pair.rank()) == ((SIZE + 1 - RANK % 2) // 2, RANK // 2)
    backwards = WORLD.split(0, SIZE - RANK)
    assert (backwards.size(), backwards.rank()) == (SIZE, SIZE - 1 - RANK)
    x = inputs((40,), "int32", seed=10)
    same(d.all_sum(mx.array(x[RANK]), group=pair), summed(x[RANK % 2 :: 2]), "pairs")
    same(d.all_gather(mx.array(x[RANK]), group=backwards), gathered(x[::-1]), "backwards")
    for _ in range(20):  # as many groups as one likes
        assert WORLD.split(0).size() == SIZE
    # A pending call comes before a split, though nothing has evaluated it.
    pending = d.all_sum(mx.array(x[RANK]))
    if RANK == 0:
        mx.eval(pending)
    WORLD.split(0)
    same(pending, summed(x), "pending")


def messages() -> None:
    left, right = (RANK - 1) % SIZE, (RANK + 1) % SIZE
    for dtype in DTYPES:
        for shape in ((), (3,), (2, 50)):
            x = inputs(shape, dtype, seed=11)
            # Everybody sends before anybody receives.
            sent = d.send(given(x[RANK]), right)
            same(sent, x[RANK], "what was sent")
            here = d.recv(shape, sent.dtype, left) if RANK % 2 else d.recv_like(sent, left)
            same(here, x[left], f"message of {dtype}")
    big = mx.full((500_000,), float(RANK))
    d.send(big, right)
    assert d.recv_like(big, left)[-1].item() == left
    doubled = mx.compile(lambda x: d.recv_like(d.send(x * 2, right), left) + 1)
    for _ in range(2):
        assert doubled(mx.array([float(RANK)])).item() == 2 * left + 1
    rows = mx.array(inputs((3, 2), "float32", seed=12)[RANK])
    mx.vmap(lambda row: d.send(row, right))(rows)
    same(
        mx.vmap(lambda r: d.recv_like(r, left))(rows), inputs((3, 2), "float32", seed=12)[left], ""
    )


def one_order() -> None:
    """Each rank evaluates the same calls in an order of its own, some in compiled functions."""
    group = WORLD.split(0)
    fused = mx.compile(lambda x: [d.all_sum(x * 2), d.all_max(x, group=group)])
    for seed in range(5):
        pending: list[tuple[mx.array, Any]] = []
        for number in range(20):
            x = mx.full((3,), float(RANK + number))
            total = SIZE * number + SIZE * (SIZE - 1) / 2
            pending.append((d.all_sum(x), total))
            pending.append((d.all_max(x, group=group), number + SIZE - 1))
            first, second = fused(x)
            pending += [(first, 2 * total), (second, number + SIZE - 1)]
        random.Random(seed * SIZE + RANK).shuffle(pending)
        for found, wanted in pending[: 20 + 10 * RANK]:
            assert found.tolist() == [wanted] * 3
    # Rank 0 evaluates in the background what the others read at once.
    later = [d.all_sum(mx.array([float(n)])) for n in range(10)]
    if RANK == 0:
        mx.async_eval(later[5])
    assert [x.item() for x in later] == [SIZE * n for n in range(10)]


def many_mixed_calls() -> None:
    """The same program on all ranks, evaluated wherever each likes."""
    program, own = random.Random(5), random.Random(RANK)
    x = mx.ones(4)
    for call in range(10_000 if SIZE == 2 else 500):
        function = program.choice((d.all_sum, d.all_max, d.all_min, d.broadcast))
        x = function(x) / (SIZE if function is d.all_sum else 1)
        if program.random() < 0.2:
            d.all_gather(mx.zeros(program.randrange(1, 40)))  # nobody wants it
        if own.random() < 0.1:
            assert x.tolist() == [1.0] * 4, f"call {call}"
    assert x.tolist() == [1.0] * 4


def mismatches_raise_everywhere() -> None:
    def refused(call: Callable[[], mx.array], *words: str) -> None:
        with pytest.raises(ValueError, match=r"rank|blocks") as caught:
            mx.eval(call())
        assert all(word in str(caught.value) for word in words), str(caught.value)

    last = RANK == SIZE - 1
    refused(lambda: d.all_sum(mx.ones((2, 3 + last))), "shape (2, 3)", "shape (2, 4)", "rank")
    refused(lambda: d.all_sum(mx.ones(3, mx.int32 if last else mx.float32)), "int32", "float32")
    refused(lambda: (d.all_max if last else d.all_sum)(mx.ones(3)), "all_max", "all_sum")
    refused(lambda: d.broadcast(mx.ones(3), int(last)), "from rank 0", "from rank 1")
    refused(lambda: d.sum_scatter(mx.ones((SIZE + 1,))), f"blocks for {SIZE} processes")
    assert d.all_sum(mx.ones(2)).tolist() == [SIZE] * 2  # and all go on


if __name__ == "__main__":
    run(
        every_collective,
        compiled_collectives,
        views_and_numbers,
        derivatives,
        vectorised,
        recomputed_and_looped,
        derivatives_in_loops,
        small_numbers,
        large_groups,
        several_machines,
        messages_in_flight,
        split_groups,
        messages,
        one_order,
        many_mixed_calls,
        mismatches_raise_everywhere,
    )
