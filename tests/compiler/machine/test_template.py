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
    "views": (
        lambda x: (mx.exp(x).T, mx.exp(x)[1:, ::-1], x),
        lambda x: (np.exp(x).T, np.exp(x)[1:, ::-1], x),
    ),
    "host step": (
        lambda x: mx.sort(x * 2, axis=-1) + x,
        lambda x: np.sort(x * 2) + x,
    ),
    "host step with lengths": (
        lambda x: mx.slice(x * 2, mx.array([1]), [0], [x.shape[0] - 1, x.shape[1]]),
        lambda x: x[1:] * 2,
    ),
    "check": (
        lambda x: mx.take(x, mx.argmax(x, axis=0), axis=0)[0],
        lambda x: x[np.argmax(x, axis=0)][0],
    ),
    "length as a result": (
        lambda x: (x + 1, mx.array(x.shape[1]) * mx.array([1, 1])[0]),
        lambda x: (x + 1, x.shape[1]),
    ),
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
    assert all(each.template is not None for each in symbolic(compiled))


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


def test_checks_name_the_lengths_of_the_call() -> None:
    compiled = mx.compile(lambda x, index: x[index] * 2, shapeless=True)
    compiled.cache_clear()
    for rows in (4, 6, 9):
        x = mx.ones((rows, 3))
        np.testing.assert_array_equal(np.array(compiled(x, mx.array([rows - 1]))), [[2, 2, 2]])
        with pytest.raises(IndexError, match=f"{rows + 1}.* {rows}\\b"):
            mx.eval(compiled(x, mx.array([rows + 1])))
    assert [each.template is not None for each in symbolic(compiled)] == [True]


def test_random_numbers() -> None:
    """The state advances as it does without a template."""

    def noise(x: mx.array) -> mx.array:
        return x + mx.random.normal(x.shape)

    compiled = mx.compile(noise, shapeless=True)
    compiled.cache_clear()
    shapes = ((5, 7), (6, 9), (33, 65), (6, 9))
    mx.random.seed(3)
    expected = [np.array(noise(mx.zeros(shape))) for shape in shapes]
    mx.random.seed(3)
    for shape, numbers in zip(shapes, expected, strict=True):
        np.testing.assert_allclose(np.array(compiled(mx.zeros(shape))), numbers, atol=1e-6)
    assert compiled.cache_info().misses == 1
