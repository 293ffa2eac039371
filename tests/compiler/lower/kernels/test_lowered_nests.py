"""The nests of all kinds of kernels: verified, and the same in NumPy and as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import Memory, run_nest

import ingot.core as mx
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import verify


def numbers(*shape: int, dtype: Any = mx.float32) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).uniform(-1, 1, shape)).astype(dtype)


def indices(below: int, *shape: int) -> mx.array:
    return mx.array(np.random.default_rng(below).integers(0, below, shape).astype(np.int32))


KEY = mx.random.key(3)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "map": (lambda x, y: x * y + 1, (numbers(40), numbers(40))),
    "rows of a map": (lambda x, y: x * y - y, (numbers(3, 1, 5), numbers(4, 5))),
    "long rows of a map": (lambda x, y: x + y, (numbers(2, 8200), numbers(2, 1))),
    "one element": (lambda x, y: x * y, (mx.array(2.0), mx.array(3.0))),
    "backwards": (lambda x, y: x[:, ::-1] - y, (numbers(3, 20), numbers(3, 20))),
    "transposed": (lambda x, y: x.T + y, (numbers(20, 67), numbers(67, 20))),
    "transposed backwards": (lambda x: x[::-1, ::-1].T * 2, (numbers(20, 35),)),
    "transposed bool": (lambda x: mx.logical_not((x > 0).T), (numbers(33, 40),)),
    "transposed half": (lambda x: x.T * 2, (numbers(40, 36, dtype=mx.float16),)),
    "axes in another order": (lambda x: mx.transpose(x, (2, 0, 1)) + 0, (numbers(3, 20, 18),)),
    "positions": (lambda x: x * mx.arange(12), (numbers(5, 12),)),
    "random bits": (lambda: mx.random.uniform(shape=(21,), key=KEY), ()),
    "random bits in rows": (lambda: mx.random.uniform(shape=(6, 5), key=KEY), ()),
    "gathered rows": (lambda x, i: x[i] * 2, (numbers(7, 5), indices(7, 4))),
    "gathered elements": (lambda x, i, j: x[i, j], (numbers(4, 5), indices(4, 6), indices(5, 6))),
    "joined": (lambda x, y: mx.concatenate([x, y], axis=1), (numbers(4, 3), numbers(4, 2))),
    "complex": (lambda x: x * x + x, (numbers(9).astype(mx.complex64),)),
    "scattered rows": (
        lambda x, i, u: x.at[i].add(u),
        (numbers(40, 33), indices(40, 6), numbers(6, 33)),
    ),
    "scattered elements": (
        lambda x, i, j, u: x.at[i, j].maximum(u),
        (numbers(4, 5, 3), indices(4, 7), indices(5, 7), numbers(7, 3)),
    ),
    "scanned rows": (lambda x, y: mx.cumsum(x * y, axis=1) + y, (numbers(19, 40), numbers(19, 40))),
    "scanned long rows": (lambda x: mx.cumsum(x * 2) - x, (numbers(8200),)),
    "scanned columns": (lambda x: mx.cummax(x * 2, axis=0, reverse=True) - x, (numbers(20, 11),)),
    "sum": (lambda x: x.sum(), (numbers(45),)),
    "long sum": (lambda x: x.sum(), (numbers(33000),)),
    "distances of points": (
        lambda x, y: ((x[:, None] - y) ** 2).sum(-1),
        (numbers(4, 3), numbers(19, 3)),
    ),
    "sums of rows": (lambda x: x.sum(1), (numbers(3, 600),)),
    "sums of columns": (lambda x: x.sum(0), (numbers(70, 9),)),
    "sums of few rows": (lambda x: (x * x).sum(0), (numbers(5, 9),)),
    "sums in the middle": (lambda x: x.sum(1), (numbers(3, 40, 5),)),
    "sums of outer axes": (lambda x: x.sum((0, 2)), (numbers(3, 4, 5),)),
    "sums of half": (lambda x: x.sum(1), (numbers(3, 40, dtype=mx.bfloat16),)),
    "maximum": (lambda x: x.max(1), (numbers(3, 45),)),
    "largest": (lambda x: mx.argmax(x, axis=1), (numbers(3, 45),)),
    "all": (lambda x: mx.all(x > -0.9), (numbers(45),)),
    "complex product": (lambda x: mx.prod(x), (numbers(45).astype(mx.complex64),)),
    "softmax": (lambda x: mx.softmax(x, axis=-1), (numbers(3, 45),)),
    "two reductions": (
        lambda x: (x - x.mean(1, keepdims=True)) * x.max(1, keepdims=True),
        (numbers(3, 600),),
    ),
}
SMALL_INTEGERS = 2  # valid indices along all axes above


@pytest.mark.parametrize("name", CASES)
def test_interpreter_and_machine_code_agree(name: str) -> None:
    function, args = CASES[name]
    report = mx.compile(function).explain(*args)
    kernels = [work.kernel for work in report.work if work.kernel is not None]
    assert kernels
    for number, kernel in enumerate(kernels):
        verify(kernel.nest)
        expected = Memory(kernel.nest, number, SMALL_INTEGERS)
        found = Memory(kernel.nest, number, SMALL_INTEGERS)
        interpret(kernel.nest, expected.arrays)
        run_nest(kernel.nest, found.arrays, chunk=3)
        for a, b in zip(expected.arrays, found.arrays, strict=True):
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                a.astype(wide),
                b.astype(wide),
                rtol=1e-6,
                atol=1e-6,
                err_msg=nest_text(kernel.nest),
            )
