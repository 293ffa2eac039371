"""Narrow: what nobody reads of a result is not computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.options import Options
from ingot.compiler.passes.narrow import narrow
from ingot.compiler.passes.simplify import simplify


def ops(function: Any, *args: Any) -> list[str]:
    """The names of the ops that are left."""
    tape = narrow(simplify(traced(function, *args).tape, Options()), Options())
    tape.verify()
    return [type(step.op).__name__ for step in tape.steps if step.op is not None]


def normal(*shape: int) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("axis", [0, 1])
def test_positions_of_the_largest_alone(axis: int) -> None:
    def largest(x: mx.array) -> mx.array:
        order = mx.argpartition(x, -3, axis=axis)
        return order[:, -3:] if axis else order[-3:]

    x = normal(50, 60)
    assert ops(largest, x) == ["PartOfPartition"]
    found = np.sort(np.array(mx.compile(largest)(x)), axis)
    wanted = np.argsort(np.array(x), axis)
    np.testing.assert_array_equal(found, np.sort(np.take(wanted, range(-3, 0), axis), axis))


def test_the_largest_and_the_middle() -> None:
    x = normal(40, 30)
    assert "Partition" not in ops(lambda x: mx.topk(x, 4), x)
    assert "Partition" not in ops(lambda x: mx.median(x, axis=1), x)
    found = np.sort(np.array(mx.compile(lambda x: mx.topk(x, 4))(x)), 1)
    np.testing.assert_array_equal(found, np.sort(np.array(x), 1)[:, -4:])
    np.testing.assert_array_equal(
        np.array(mx.compile(lambda x: mx.median(x, axis=1))(x)), np.median(np.array(x), 1)
    )


def test_what_others_read_stays_whole() -> None:
    def both(x: mx.array) -> tuple[mx.array, mx.array]:
        order = mx.argpartition(x, 3)
        return order[:, :4], order * 2

    x = normal(20, 30)
    assert "ArgPartition" in ops(both, x)
    few, doubled = mx.compile(both)(x)
    np.testing.assert_array_equal(2 * np.array(few), np.array(doubled)[:, :4])
    for view in (
        lambda order: order[:, ::2],
        lambda order: order[1:, :4],
        lambda order: order[:, 3],
        lambda order: order.T,
    ):
        assert "ArgPartition" in ops(lambda x, view=view: view(mx.argpartition(x, 3)), x)


@pytest.mark.parametrize(
    ("decompose", "index", "op"),
    [
        (mx.linalg.svd, 1, "SingularValues"),
        (mx.linalg.eigh, 0, "SymmetricEigenvalues"),
        (mx.linalg.eig, 0, "Eigenvalues"),
    ],
)
def test_values_without_vectors(decompose: Callable[..., Any], index: int, op: str) -> None:
    x = normal(12, 12)
    x = x + x.T

    def values(x: mx.array) -> mx.array:
        return decompose(x)[index]

    assert ops(values, x) == [op]
    found, wanted = np.array(mx.compile(values)(x)), np.array(values(x))
    np.testing.assert_allclose(np.sort(found), np.sort(wanted), 1e-4, 1e-4)
    assert op not in ops(lambda x: decompose(x), x)
    assert op not in ops(lambda x: decompose(x)[1 - index if index else 1], x)


def test_a_tape_with_nothing_to_narrow_stays_itself() -> None:
    tape = simplify(traced(lambda x: mx.exp(x)[1:].sum(), normal(5)).tape, Options())
    assert narrow(tape, Options()) is tape


@pytest.mark.parametrize(("rows", "columns"), [(50, 7), (7, 50), (9, 8), (8, 8)])
def test_as_many_singular_vectors_as_are_read(rows: int, columns: int) -> None:
    def approximation(x: mx.array) -> mx.array:
        left, values, right = mx.linalg.svd(x)
        return (left[:, :3] * values[:3]) @ right[:3]

    def reversed_vectors(x: mx.array) -> tuple[mx.array, mx.array]:
        left, _, right = mx.linalg.svd(x)
        return left[:, 4::-2] * 2, right[2]

    def whole(x: mx.array) -> tuple[mx.array, mx.array]:
        left, values, _ = mx.linalg.svd(x)
        return left[:, :2], values

    x = normal(rows, columns)
    for function in (approximation, reversed_vectors, whole):
        shapes = {
            shape[-1]
            for step in narrow(traced(function, x).tape, Options()).steps
            if isinstance(step.dtype, tuple)
            for shape in step.shape
        }
        assert max(shapes) == (columns if columns > rows else min(rows, columns))
        for found, expected in zip(mx.compile(function)(x), function(x), strict=True):
            np.testing.assert_allclose(np.array(found), np.array(expected), atol=1e-4)
    assert np.array(mx.compile(mx.linalg.svd)(x)[0]).shape == (rows, rows)
