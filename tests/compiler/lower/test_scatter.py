"""Scatters: ranges of rows that threads take, each with the updates that are for it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import numbers, texts_of

import ingot.core as mx


def indices(below: int, count: int) -> mx.array:
    return mx.array(np.random.default_rng(below).integers(0, below, count).astype(np.int32))


def add(x: mx.array, i: mx.array, u: mx.array) -> mx.array:
    return x.at[i].add(u)


def test_ranges_take_the_updates_that_are_theirs() -> None:
    x, i, u = numbers(2000, 64), indices(2000, 600), numbers(600, 64)
    text = texts_of(add, x, i, u)[-1]
    assert "parallel i in 0..4" in text
    assert "when checked(" in text
    assert "unless " in text  # the result may be the operand's memory already
    expected = np.array(x, np.float64)
    np.add.at(expected, np.array(i), np.array(u, np.float64))
    np.testing.assert_allclose(np.array(mx.compile(add)(x, i, u)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("rows", "width"), [(2000, 16), (400, 33)])
def test_narrow_rows_and_little_work_have_one_range(rows: int, width: int) -> None:
    text = texts_of(add, numbers(rows, width), indices(rows, 60), numbers(60, width))[-1]
    assert "when " not in text


def test_one_range_needs_no_condition() -> None:
    text = texts_of(add, numbers(3), indices(3, 9), numbers(9))[-1]
    assert "parallel i in 0..1" in text
    assert "when " not in text


@pytest.mark.parametrize("mode", ["add", "multiply", "maximum", "minimum"])
def test_every_mode_against_numpy(mode: str) -> None:
    x, i, u = numbers(20, 5), indices(20, 50), numbers(50, 5)
    found = np.array(mx.compile(lambda x, i, u: getattr(x.at[i], mode)(u))(x, i, u))
    expected = np.array(x, np.float64)
    function = {"maximum": np.maximum, "minimum": np.minimum}.get(mode, getattr(np, mode))
    function.at(expected, np.array(i), np.array(u, np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_indices_along_two_axes() -> None:
    x, u = numbers(6, 7), numbers(30)
    i, j = indices(6, 30), indices(7, 30)
    found = np.array(mx.compile(lambda x, i, j, u: x.at[i, j].add(u))(x, i, j, u))
    expected = np.array(x, np.float64)
    np.add.at(expected, (np.array(i), np.array(j)), np.array(u, np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
