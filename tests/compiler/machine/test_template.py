"""Program templates: programs for other shapes, made without Python, are those of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call.symbolic_program import SymbolicProgram

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "two kernels": (lambda x: mx.cumsum(x.sum(axis=0)), lambda x: np.cumsum(x.sum(axis=0))),
    "product": (lambda x: x @ x.T + 1, lambda x: x @ x.T + 1),
    "length": (lambda x: x / x.shape[0] + x.shape[1], lambda x: x / x.shape[0] + x.shape[1]),
    "length of ints": (
        lambda x: x.astype(mx.int8) + x.shape[1],
        lambda x: x.astype(np.int8) + np.int8(x.shape[1]),
    ),
    "two results": (lambda x: (x * 2, x.sum()), lambda x: (x * 2, x.sum())),
}


def symbolic(compiled: Any) -> list[SymbolicProgram]:
    """The symbolic programs of a compiled function."""
    variants = [x for entry in compiled._cache.entries.values() for x in entry.variants]
    return [program for variant in variants for program in variant.programs]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_of_a_template(name: str) -> None:
    function, in_numpy = FUNCTIONS[name]
    compiled = mx.compile(function, shapeless=True)
    compiled.cache_clear()
    for shape in ((5, 7), (6, 9), (33, 65), (90, 21), (6, 9)):
        x = np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)
        found = compiled(mx.array(x))
        expected = in_numpy(x)
        if not isinstance(found, tuple):
            found, expected = (found,), (expected,)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.array(a), b, rtol=1e-4, atol=1e-5)


def test_a_template_makes_what_python_makes() -> None:
    compiled = mx.compile(lambda x: x.sum(axis=0, keepdims=True) * x, shapeless=True)
    compiled.cache_clear()
    mx.eval(compiled(mx.ones((40, 50))))
    (program,) = symbolic(compiled)
    assert program.template is not None
    x = np.random.default_rng(1).uniform(size=(45, 60)).astype(np.float32)
    values = [45, 60]
    made = program.template.make(values)
    assert made is not None
    assert made.values[:2] == values
    assert program._programs is not None
    parts = program._programs._parts(values)
    assert made.shapes == parts[1]
    by_python = type(made)(*parts)
    np.testing.assert_array_equal(made.run((x,))[0], by_python.run((x,))[0])
    assert program.template.make([1, 60]) is None  # lengths of 1 have programs of their own


def test_programs_that_call_python_have_none() -> None:
    compiled = mx.compile(lambda x: mx.sort(x * 2, axis=-1) + x, shapeless=True)
    compiled.cache_clear()
    for shape in ((4, 5), (6, 7), (8, 9)):
        x = np.random.default_rng(1).uniform(size=shape).astype(np.float32)
        np.testing.assert_array_equal(np.array(compiled(mx.array(x))), np.sort(x * 2) + x)
    assert all(each.template is None for each in symbolic(compiled))
