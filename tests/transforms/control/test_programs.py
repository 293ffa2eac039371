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


def _native(result: mx.array) -> Any:
    """The native program of the loop that a result comes from."""
    loop: Any = result._node.inputs[0].op
    return program_of(loop.body, loop.carries, loop.slices).executable.native


def _improved(x: mx.array, shift: mx.array) -> tuple[mx.array, mx.array]:
    inverse = mx.linalg.inv(x + shift * mx.eye(3))
    spectrum = mx.fft.fft(inverse[0])
    total = mx.cumsum(mx.real(spectrum))
    place = mx.searchsorted(mx.array([0.0, 1.0, 2.0]), total)
    return inverse + 3 * mx.eye(3), total + place


def _expected(x: np.ndarray, shifts: list[float]) -> list[np.ndarray]:
    found = []
    for shift in shifts:
        inverse = np.linalg.inv(x + shift * np.eye(3))
        total = np.cumsum(np.fft.fft(inverse[0]).real)
        found.append(total + np.searchsorted([0.0, 1.0, 2.0], total))
        x = inverse + 3 * np.eye(3)
    return found


@pytest.mark.parametrize("compiled", [False, True])
def test_routines_in_loops_are_native(compiled: bool) -> None:
    start, shifts = mx.eye(3) * 2 + 0.1, [0.1, 0.5, 0.2, 0.3]

    def run(x: mx.array, shifts: mx.array) -> mx.array:
        return mx.scan(_improved, x, shifts)[1]

    assert _native(run(start, mx.array(shifts))).can_loop
    function = mx.compile(run) if compiled else run
    found = np.array(function(start, mx.array(shifts)))
    np.testing.assert_allclose(found, _expected(np.array(start), shifts), rtol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_routines_that_fail_in_loops(compiled: bool, nested: bool) -> None:
    def inverses(x: mx.array) -> mx.array:
        return mx.fori_loop(0, 3, lambda _, x: mx.linalg.inv(x), x)

    def outer(x: mx.array) -> mx.array:
        return mx.fori_loop(0, 5, lambda i, x: inverses(x) * (i < 3), x)

    run = (
        outer
        if nested
        else lambda x: mx.fori_loop(0, 5, lambda i, x: mx.linalg.inv(x) * (i < 3), x)
    )
    function = mx.compile(run) if compiled else run
    if nested:
        assert _native(run(mx.eye(2) * 2)).can_loop
    for _ in range(2):
        with pytest.raises(RuntimeError, match="singular"):
            mx.eval(function(mx.eye(2) * 2))

    def factors(x: mx.array, scale: mx.array) -> tuple[mx.array, mx.array]:
        factor = mx.linalg.cholesky(x * scale)
        return x, factor

    scales = mx.array([1.0, -1.0, 0.0, 2.0])  # definite, indefinite, semi-definite, definite
    stacked = mx.scan(factors, mx.eye(2) * 4, scales)[1]
    np.testing.assert_array_equal(np.array(stacked)[[0, 2]], [np.eye(2) * 2, np.zeros((2, 2))])
    assert np.isnan(np.array(stacked[1])).any()
    np.testing.assert_allclose(np.array(stacked[3]), np.eye(2) * 8**0.5)


@pytest.mark.parametrize("compiled", [False, True])
def test_checks_in_inner_loops(compiled: bool) -> None:
    table = mx.arange(10.0)

    def inner(i: mx.array, x: mx.array) -> mx.array:
        return mx.fori_loop(0, 4, lambda k, x: x + table[i + k], x)

    def run(x: mx.array, length: mx.array) -> mx.array:
        return mx.fori_loop(0, length, inner, x)

    function = mx.compile(run) if compiled else run
    expected = sum(i + k for i in range(7) for k in range(4))
    assert function(mx.array(0.0), mx.array(7)).item() == expected
    with pytest.raises(IndexError, match="index 10 is out of range"):
        mx.eval(function(mx.array(0.0), mx.array(8)))
