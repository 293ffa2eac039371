"""Sums over several axes whose operands have fewer: the same bits as without fusion, in lanes of
adjacent elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import texts_of

import ingot.core as mx

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "row": lambda x, row, column: mx.sum(mx.square(x - row)),
    "row, and all elements": lambda x, row, column: (x - row, mx.sum(mx.square(x - row))),
    "column": lambda x, row, column: mx.sum((x - column) * row),
    "both, backwards": lambda x, row, column: mx.sum(x[::-1] * row[::-1] + column[::-1]),
    "columns of a wider array": lambda x, row, column: mx.sum(x[:, 1:] * x[:, :-1]),
    "transposed": lambda x, row, column: mx.mean(x.T * column[:, 0] + row[:, None]),
    "largest": lambda x, row, column: (mx.max(x - row), mx.min(x * column)),
    "several": lambda x, row, column: (mx.sum(x - row), mx.prod(1 + 1e-4 * x * column)),
}


def _arguments(rows: int, columns: int, dtype: str = "float32") -> list[Any]:
    generator = np.random.default_rng(rows + columns)
    shapes = (rows, columns), (columns,), (rows, 1)
    arrays = [mx.array(generator.normal(size=shape).astype(np.float32)) for shape in shapes]
    return [x.astype(getattr(mx, dtype)) for x in arrays]


def _assert_same_bits(function: Callable[..., Any], arguments: list[Any]) -> None:
    found = mx.compile(function)(*arguments)
    mx.set_eager_fusion(False)
    try:
        expected = function(*arguments)
        mx.eval(expected)
    finally:
        mx.set_eager_fusion(True)
    several = isinstance(expected, tuple)
    for ours, theirs in zip(
        found if several else [found], expected if several else [expected], strict=True
    ):
        np.testing.assert_array_equal(
            np.array(ours.astype(mx.float32)), np.array(theirs.astype(mx.float32))
        )


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("columns", [3, 7, 31, 33, 40, 100, 500])
def test_bits(name: str, columns: int) -> None:
    for rows in (13, 333, 1801):
        _assert_same_bits(FUNCTIONS[name], _arguments(rows, columns))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "bool_"])
def test_dtypes(dtype: str) -> None:
    arguments = _arguments(301, 40, dtype)
    for name in ("row", "column") if dtype != "bool_" else ():
        _assert_same_bits(FUNCTIONS[name], arguments)
    _assert_same_bits(lambda x, row, column: mx.sum((x > row) & (column > 0)), arguments)


def test_more_axes() -> None:
    """Operands repeat along several axes, or have gaps in the middle."""
    generator = np.random.default_rng(0)

    def made(*shape: int) -> Any:
        return mx.array(generator.normal(size=shape).astype(np.float32))

    x = made(9, 11, 13, 5)
    for other in (made(5), made(13, 5), made(11, 1, 5), made(9, 1, 1, 1), made(11, 13, 1)):
        _assert_same_bits(lambda x, y: mx.sum(mx.square(x - y)), [x, other])
        _assert_same_bits(lambda x, y: mx.sum(mx.square(x - y), axis=(1, 2, 3)), [x, other])
        _assert_same_bits(lambda x, y: mx.sum(mx.square(x - y), axis=(0, 2, 3)), [x, other])
    labels = mx.array(generator.integers(0, 5, (99,)))
    scores = made(99, 10)
    _assert_same_bits(
        lambda x, y: mx.sum(mx.where(y[:, None] == mx.arange(10), x, 0)), [scores, labels]
    )


def test_lanes_are_adjacent() -> None:
    """No lane divides its position by the length of a row: bundles begin somewhere in a row."""
    text = "\n".join(texts_of(FUNCTIONS["row"], *_arguments(1801, 40)))
    lanes = text.split("lanes\n", 1)[1]
    assert "repeated" in text
    assert "split" not in lanes.split("lanes3[", 1)[0], text


def test_changes_of_the_summand_are_seen() -> None:
    """The derivative of a squared loss with a bias, whose gradient has a term for each row."""
    x, row, _ = _arguments(257, 40)
    loss = mx.value_and_grad(lambda b, x: mx.mean(mx.square(x - b)))
    value, gradient = mx.compile(loss)(row, x)
    wide, bias = np.array(x, np.float64), np.array(row, np.float64)
    np.testing.assert_allclose(value.item(), np.mean((wide - bias) ** 2), rtol=1e-6)
    expected = 2 * (bias - wide).sum(0) / wide.size
    np.testing.assert_allclose(np.array(gradient), expected, rtol=1e-4, atol=1e-8)
