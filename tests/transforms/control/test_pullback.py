"""Backward loops: rules that users wrote in bodies, and the memory that they take."""

from __future__ import annotations

from functools import partial
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.transforms.control.unrolled import close, scanned

import ingot.core as mx

rng = np.random.default_rng(0)
XS = mx.array(rng.normal(size=(7, 3, 4)).astype(np.float32))
H = mx.array(rng.normal(size=(3, 4)).astype(np.float32))


@pytest.mark.parametrize("compiled", [False, True])
def test_custom_rules_in_bodies(compiled: bool) -> None:
    """The rule replaces the derivative in every step, as in MLX with the loop written out."""

    def ruled(m: Any) -> Any:
        @m.custom_function
        def clipped(x: Any, w: Any) -> Any:
            return m.sin(x) * w

        @clipped.vjp
        def clipped_vjp(primals: Any, cotangent: Any, _: Any) -> Any:
            x, w = primals
            return m.clip(cotangent, -0.1, 0.1) * x, cotangent * w

        return clipped

    def loss(scan: Any, function: Any, h: Any, xs: Any) -> Any:
        end, ys = scan(lambda c, x: (function(c, x) + c, function(x, x)), h, xs)
        return (end**2).sum() + ys.sum()

    by_ingot, by_mlx = ruled(mx), ruled(mlx)
    gradient = mx.grad(lambda h, xs: loss(mx.scan, by_ingot, h, xs), (0, 1))
    found = (mx.compile(gradient) if compiled else gradient)(H, XS)
    unrolled = partial(scanned, library=mlx)
    expected = mlx.grad(lambda h, xs: loss(unrolled, by_mlx, h, xs), (0, 1))(
        mlx.array(np.array(H)), mlx.array(np.array(XS))
    )
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-5, atol=1e-6)


def _gradient_and_peak(loss: Any, start: mx.array) -> tuple[mx.array, int]:
    """A gradient, and the most memory that computing it took."""
    mx.eval(mx.grad(loss)(start))  # machine code
    mx.clear_cache()  # free blocks are used for values that are up to an eighth smaller
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    gradient = mx.grad(loss)(start)
    mx.eval(gradient)
    return gradient, mx.get_peak_memory() - before


def test_memory_of_the_backward_pass() -> None:
    """It grows with the saved values, one a step here; a checkpointed segment saves its inputs
    only, so with sqrt(T) segments of sqrt(T) steps it grows as sqrt(T).
    """
    width = 1000
    start = mx.linspace(0, 1, width)
    mx.eval(start)

    def step(c: mx.array, x: mx.array) -> Any:
        return mx.sin(c + x), None

    plain, segmented = [], []
    for side in (10, 20, 40):

        def loss(c: mx.array, xs: mx.array) -> mx.array:
            return mx.scan(step, c, xs)[0].sum()

        def in_segments(c: mx.array, xs: mx.array) -> mx.array:
            segment = mx.checkpoint(lambda c, x: mx.scan(step, c, x)[0])
            return mx.scan(lambda c, x: (segment(c, x), None), c, xs)[0].sum()

        xs = mx.zeros((side * side,))
        rows = xs.reshape(side, side)
        mx.eval(xs, rows)
        expected, peak = _gradient_and_peak(lambda c, xs=xs: loss(c, xs), start)
        plain.append(peak / (4 * width))
        found, peak = _gradient_and_peak(lambda c, xs=rows: in_segments(c, xs), start)
        segmented.append(peak / (4 * width))
        close(found, expected)
    # in vectors of `width`, whose 4000 bytes take 4096: one saved in each step, and a few besides
    assert plain == pytest.approx([102, 402, 1602], rel=0.03)
    # segments are in the memory of the outer body, one block, rounded up by as much as an eighth
    assert segmented == pytest.approx([25, 45, 85], rel=0.05)
