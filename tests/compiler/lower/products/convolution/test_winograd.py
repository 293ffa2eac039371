"""Winograd's convolutions, against sums over taps that NumPy adds up in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tests.compiler.lower.products.convolution.reference import Case, convolution

import ingot.core as mx

CASES = [
    Case((2, 14, 14, 32), (64, 3, 3, 32), padding=1),
    Case((2, 33, 31, 17), (35, 3, 3, 17), padding=1),
    Case((3, 17, 19, 20), (100, 3, 3, 20)),
    Case((2, 13, 14, 32), (32, 3, 3, 16), padding=(1, 4), groups=2),
]


def uses_winograd(function: Any, *arguments: Any) -> bool:
    """Whether a kernel has transformed windows."""
    kernels = [work.kernel for work in function.explain(*arguments).work]
    return any(b.name == "windows" for kernel in kernels for b in kernel.nest.buffers)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_small_integers_are_exact(case: Case) -> None:
    random = np.random.default_rng(0)
    x = random.integers(-8, 9, case.x).astype(np.float32)
    filters = random.integers(-8, 9, case.filters).astype(np.float32)
    compiled = mx.compile(lambda x, w: mx.conv_general(x, w, **case.options))
    found = compiled(mx.array(x), mx.array(filters))
    np.testing.assert_array_equal(np.asarray(found), convolution(case, x, filters))


def largest_of_tiles(case: Case, x: np.ndarray) -> np.ndarray:
    """The input of an imaginary convolution of 1 x 1: for each result and channel, the largest
    element that its tile meets.
    """
    padded = np.abs(case.padded(x))
    height, width = case.lengths()
    padded = np.pad(padded, [(0, 0), (0, 2), (0, 2), (0, 0)])
    squares = sliding_window_view(padded, (4, 4), axis=(1, 2)).max((-2, -1))[:, ::2, ::2]
    return squares.repeat(2, 1).repeat(2, 2)[:, :height, :width]


@pytest.mark.parametrize("case", [CASES[1], CASES[2]], ids=str)
def test_errors_are_small_beside_what_a_tile_meets(case: Case) -> None:
    """The bound that the documentation states: eight roundings of the sum of all |filters|, each
    times the largest element of its channel in the 4 x 4 of a tile.
    """
    random = np.random.default_rng(0)
    scales = 10.0 ** random.integers(-4, 5, (*case.x[:-1], 1))
    x = (random.normal(size=case.x) * scales).astype(np.float32)
    filters = random.normal(size=case.filters).astype(np.float32)
    compiled = mx.compile(lambda x, w: mx.conv_general(x, w, **case.options))
    found = np.asarray(compiled(mx.array(x), mx.array(filters)))
    bound = largest_of_tiles(case, x.astype(np.float64)) @ np.abs(filters).sum((1, 2)).T
    assert (np.abs(found - convolution(case, x, filters)) <= 8 * 2.0**-24 * bound).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_not_finite_stays_where_it_is_met(case: Case) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=case.x).astype(np.float32)
    x[0, 2, 3, 1] = np.inf
    x[1, 5, 5, 0] = np.nan
    x[1, 9, 8, 3] = 3e38  # finite, but sums of the transforms are not
    x[1, 9, 10, 3] = -3e38
    filters = random.normal(size=case.filters).astype(np.float32) * np.float32(0.1)
    compiled = mx.compile(lambda x, w: mx.conv_general(x, w, **case.options))
    found = np.asarray(compiled(mx.array(x), mx.array(filters)))
    expected = convolution(case, x, filters)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    finite = np.isfinite(expected)
    bound = convolution(case, np.abs(x), np.abs(filters))
    difference = np.abs(found[finite] - expected[finite])
    assert (difference <= 100 * 2.0**-24 * bound[finite]).all()


def test_few_channels_or_results_are_summed_directly() -> None:
    def chosen(case: Case) -> bool:
        compiled = mx.compile(lambda x, w: mx.conv_general(x, w, **case.options))
        return uses_winograd(compiled, mx.zeros(case.x), mx.zeros(case.filters))

    assert chosen(CASES[0])
    assert not chosen(Case((2, 14, 14, 4), (64, 3, 3, 4), padding=1))
    assert not chosen(Case((1, 7, 7, 64), (64, 3, 3, 64), padding=1))
    assert not chosen(Case((2, 14, 14, 32), (64, 3, 3, 32), 2, 1))
