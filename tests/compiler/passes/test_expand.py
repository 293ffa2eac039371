"""Expansion: ops that kernels cannot hold give way to ops that they can, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced
from tests.compiler.lower.nests_of_calls import numbers

import ingot.core as mx
from ingot.compiler.forms.tape import Tape
from ingot.compiler.options import Options
from ingot.compiler.passes.expand import expand
from ingot.compiler.run.step_by_step import run_step_by_step

KEY = mx.random.key(3)
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "argmax": (lambda x: mx.argmax(x, axis=1), (numbers(5, 9),)),
    "argmin": (lambda x: mx.argmin(x, axis=0), (numbers(5, 9),)),
    "random": (lambda x: x + mx.random.uniform(shape=(9,), key=KEY), (numbers(5, 9),)),
    "arange": (lambda x: x * mx.arange(9), (numbers(5, 9),)),
    "take": (lambda x, i: mx.take(x, i, axis=0), (numbers(5, 9), mx.array([3, 0, -1]))),
}


def results(tape: Tape, args: tuple[Any, ...]) -> list[np.ndarray]:
    inputs = [np.array(x) for x in args]
    return list(run_step_by_step(tape, inputs, lambda *_: None))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_same(name: str) -> None:
    function, args = FUNCTIONS[name]
    tape = traced(function, *args).tape
    expanded = expand(tape, Options())
    expanded.verify()
    for found, expected in zip(results(expanded, args), results(tape, args), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize(("name", "op"), [("argmax", "ArgMax"), ("arange", "Arange")])
def test_expanded_ops_are_removed(name: str, op: str) -> None:
    function, args = FUNCTIONS[name]
    tape = traced(function, *args).tape
    before = {type(step.op).__name__ for step in tape.steps}
    after = {type(step.op).__name__ for step in expand(tape, Options()).steps}
    assert before != after


def test_what_does_not_expand_stays() -> None:
    tape = traced(lambda x: mx.exp(x) @ x.T, numbers(5, 9)).tape
    assert expand(tape, Options()).text() == tape.text()


def test_equal_expansions_are_shared() -> None:
    tape = traced(lambda x: (mx.argmax(x, axis=1), mx.argmax(x, axis=1)), numbers(5, 9)).tape
    once = traced(lambda x: mx.argmax(x, axis=1), numbers(5, 9)).tape
    assert len(expand(tape, Options()).steps) <= len(expand(once, Options()).steps) + 1
