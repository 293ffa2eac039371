"""Loops as functions of their own against NumPy, step by step."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.machine.repeated import RepeatedBody
from ingot.transforms.control.programs import program_of

Step = Callable[[Any, Any, Any], tuple[Any, Any]]  # of the array module, carry and slice

STEPS: dict[str, tuple[Any, Step]] = {
    "scalar": (np.float32(0.5), lambda m, c, x: (c * np.float32(0.5) + x, c)),
    "exchanged": (
        (np.float32(1), np.float32(2)),
        lambda m, c, x: ((c[1], c[0] * np.float32(0.5) + x), c[1] + x),
    ),
    "vector": (
        np.arange(16, dtype=np.float32),
        lambda m, c, x: (c * np.float32(0.5) + x, c - x),
    ),
    "reversed vector": (
        np.arange(5, dtype=np.float32),
        lambda m, c, x: (c[::-1] * np.float32(0.5) + x, c[1:4]),
    ),
    "half": (np.arange(3, dtype=np.float16), lambda m, c, x: (c * np.float16(0.5), c + c)),
    "mixed": (
        (np.bool_(True), np.int8(3), np.complex64(1 + 2j)),
        lambda m, c, x: ((c[0] ^ (x > 0), c[1] + np.int8(5), c[2] * np.complex64(1j)), c[1]),
    ),
    "nothing stacked": (np.float32(1), lambda m, c, x: (m.maximum(c * np.float32(0.25), x), None)),
}


def repeated(op: Any) -> RepeatedBody | None:
    """The function of a loop, if it has one."""
    body = op.body if hasattr(op, "slices") else op.step
    rest = (op.slices,) if hasattr(op, "slices") else (0, True)
    found: RepeatedBody | None = program_of(body, op.carries, *rest).executable.repeated
    return found


def as_arrays(tree: Any) -> Any:
    return tuple(map(mx.array, tree)) if isinstance(tree, tuple) else mx.array(tree)


@pytest.mark.parametrize("length", [1, 2, 7, 1024, 1025, 3000])
@pytest.mark.parametrize("name", STEPS)
def test_scans(name: str, length: int) -> None:
    init, step = STEPS[name]
    xs = np.random.default_rng(length).normal(size=length).astype(np.float32)
    reverse = length % 3 == 1
    found = mx.scan(lambda c, x: step(mx, c, x), as_arrays(init), mx.array(xs), reverse=reverse)
    first = found[0][0] if isinstance(found[0], tuple) else found[0]
    assert repeated(first._node.inputs[0].op) is not None
    carry, ys = init, []
    with np.errstate(over="ignore"):
        for x in xs[::-1] if reverse else xs:
            carry, y = step(np, carry, x)
            ys.append(y)
    expected = list(carry) if isinstance(carry, tuple) else [carry]
    ends = list(found[0]) if isinstance(found[0], tuple) else [found[0]]
    if ys[0] is not None:
        ends.append(found[1])
        expected.append(np.stack(ys[::-1] if reverse else ys))
    for one, other in zip(ends, expected, strict=True):
        assert np.array(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(np.array(one), other)


@pytest.mark.parametrize("end", [1, 2, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("most", [None, 1, 1024, 1500])
def test_while_loops(end: int, most: int | None) -> None:
    def step(state: tuple[mx.array, mx.array]) -> tuple[mx.array, mx.array]:
        return state[0] + 1, state[1] * 3 + state[0].astype(mx.uint32)

    start = mx.array(0), mx.array(1, mx.uint32)
    assert (start[1] * 3).dtype == mx.uint32
    count, value = mx.while_loop(lambda state: state[0] < end, step, start, max_steps=most)
    assert repeated(count._node.inputs[0].op) is not None
    steps = end if most is None else min(end, most)
    expected = 1
    for number in range(steps):
        expected = (expected * 3 + number) % 2**32
    assert (count.item(), value.item()) == (steps, expected)


def test_inner_loops_and_branches() -> None:
    def step(c: mx.array, x: mx.array) -> Any:
        c = mx.fori_loop(0, 3, lambda i, v: v * 0.5 + x, c)
        c = mx.cond(x > 0, lambda v: v * 2, lambda v: v + 1, c)
        return mx.while_loop(lambda v: v > 1, lambda v: v * 0.5, c), c

    xs = np.random.default_rng(0).normal(size=50).astype(np.float32)
    end, ys = mx.compile(lambda xs: mx.scan(step, mx.array(0.5), xs))(mx.array(xs))
    c, half, expected = np.float32(0.5), np.float32(0.5), []
    for x in xs:
        for _ in range(3):
            c = c * half + x
        c = c * 2 if x > 0 else c + 1
        expected.append(c)
        while c > 1:
            c = c * half
    assert end.item() == c
    np.testing.assert_array_equal(np.array(ys), np.array(expected))


def test_which_bodies_are_repeated() -> None:
    def of(step: Any, init: Any, xs: Any) -> RepeatedBody | None:
        return repeated(mx.scan(step, init, xs)[0]._node.inputs[0].op)

    xs = mx.ones((4, 17))
    assert of(lambda c, x: (c * 0.5 + x[0], None), mx.zeros(16), xs) is not None
    assert of(lambda c, x: (c * 0.5 + x, None), mx.zeros(17), xs) is None  # more than 64 bytes
    assert of(lambda c, x: (c @ c + x[0], None), mx.zeros((4, 4)), xs) is None  # not one kernel


def test_loops_that_are_interrupted_and_checks_that_fail() -> None:
    forever = mx.compile(lambda x: mx.while_loop(lambda v: v > -1, lambda v: v * 0.5, x))

    def step(c: mx.array, x: mx.array) -> Any:
        return mx.while_loop(lambda v: v > -1, lambda v: v * 0.5, c + x), None

    for run in (forever, lambda x: mx.scan(step, x, mx.ones(3))[0]):
        threading.Timer(0.2, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            mx.eval(run(mx.array(1.0)))
    values = mx.array([1.0, 2.0, 4.0])
    loop = mx.fori_loop(0, 4, lambda i, total: total + values[i], mx.array(0.0))
    assert repeated(loop._node.inputs[0].op) is not None
    with pytest.raises(IndexError, match="index 3 is out of range"):
        mx.eval(loop)


def test_programs_refuse_functions_that_are_not_theirs() -> None:
    op: Any = (
        mx.scan(lambda c, x: (c * 0.5 + x, None), mx.array(1.0), mx.ones(3))[0]._node.inputs[0].op
    )
    executable = program_of(op.body, op.carries, op.slices).executable
    code = executable.repeated.code
    with pytest.raises(ValueError, match="not the body"):
        executable.native.repeat_by(code, (4,))  # it has one
    with pytest.raises(TypeError):
        executable.native.repeat_by(None, (4,))
