"""Bodies that native code loops over, whatever they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.transforms.control.unrolled import close, scanned

import ingot.core as mx
from ingot.transforms.control.programs import program_of

XS = mx.array(np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32))
STEPS: dict[str, Callable[[mx.array, mx.array], Any]] = {
    "one value": lambda c, x: (c * 0.5 + x, x * 2),
    "the same value twice": lambda c, x: (0.9 * c + 0.1 * x, 0.9 * c + 0.1 * x),
    "its inputs": lambda c, x: (x, c),
    "no-ops": lambda c, x: (x.astype(mx.float32), (c.reshape(5), x + c)),
    "a constant": lambda c, x: (c + x, mx.ones(3) * 2),
}


@pytest.mark.parametrize("name", STEPS)
def test_bodies_become_native_loops(name: str) -> None:
    step = STEPS[name]
    found = mx.scan(step, XS[0], XS)
    op: Any = found[0]._node.inputs[0].op
    assert program_of(op.body, op.carries, op.slices).executable.native.can_loop
    close(found, scanned(step, XS[0], XS))


def _fibonacci(i: Any, v: mx.array) -> mx.array:
    return v.at[i].add(v[i - 1] + v[i - 2])


def _followed(state: tuple[mx.array, mx.array]) -> tuple[mx.array, mx.array]:
    place, found = state
    return NEXT[place], found + VALUES[place]


NEXT = mx.array([3, 5, 1, 2, 0, 7])  # from 0 on: 3, 2, 1, 5 and 7, which is not there
VALUES = mx.array([1.0, 10.0, 100.0, 1000.0, 1e4, 1e5])


@pytest.mark.parametrize("options", [None, {}, {"shapeless": True}], ids=str)
def test_checked_indices_in_bodies(options: dict[str, bool] | None) -> None:
    def numbers(v: mx.array) -> Any:
        return mx.fori_loop(2, 20, _fibonacci, v)

    def collected(end: mx.array) -> Any:
        start = mx.array(0), mx.array(0.0)
        return mx.while_loop(lambda state: state[0] != end, _followed, start)

    runs = [numbers, collected]
    if options is not None:
        runs = [mx.compile(run, **options) for run in runs]
    expected = [1, 1]
    for _ in range(18):
        expected.append(expected[-1] + expected[-2])
    start = mx.array([1, 1] + [0] * 18)
    assert runs[0](start).tolist() == expected
    assert start.tolist() == [1, 1] + [0] * 18
    assert runs[1](mx.array(5))[1].item() == 1111.0
    for run, argument, index in ((runs[0], start[:9], 9), (runs[1], mx.array(-1), 7)):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            mx.eval(run(argument))


def test_native_code_checks_indices() -> None:
    loop: Any = mx.fori_loop(2, 20, _fibonacci, mx.zeros(20))._node.inputs[0].op
    native = program_of(loop.body, loop.carries).executable.native
    assert native.can_loop
    assert not native.can_nest
