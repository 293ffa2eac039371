"""Programs of symbolic code for one shape: NumPy's results, for contiguous inputs and others."""

from __future__ import annotations

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.run.shaped_program import ShapedProgram


def softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(4, 9), (31, 17), (100, 64)])
def test_results_of_many_shapes(shape: tuple[int, int]) -> None:
    compiled = mx.compile(softmax, shapeless=True)
    mx.eval(compiled(mx.zeros((5, 8))))
    x = np.random.default_rng(7).uniform(size=shape).astype(np.float32)
    for values in (x, x.T.copy().T, x[::-1].copy()[::-1]):
        e = np.exp(values.astype(np.float64))
        found = np.array(compiled(mx.array(values)))
        np.testing.assert_allclose(found, e / e.sum(axis=-1, keepdims=True), rtol=1e-5)


def test_programs_know_their_name_and_what_was_written() -> None:
    compiled = mx.compile(softmax, shapeless=True)
    x = mx.zeros((5, 8))
    mx.eval(compiled(x))
    program = compiled.explain(x).stages.program
    if isinstance(program, ShapedProgram):
        assert program.name
    assert [step.shape for step in program.traced.outputs] == [(5, 8)]
