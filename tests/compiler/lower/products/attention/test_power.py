"""The exponential of attention: against NumPy in float64, with its special values."""

from __future__ import annotations

import numpy as np
from tests.compiler.forms.nest.nest_runner import run_nest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.lower.products.attention.power import power
from ingot.graph.dtype import float32, float64

LANES = 8


def powers(x: np.ndarray) -> np.ndarray:
    dtype = float32 if x.dtype == np.float32 else float64
    builder = NestBuilder()
    source, target = (
        builder.buffer(name, dtype, x.shape, x.strides, number)
        for number, name in enumerate(("x", "y"))
    )
    with builder.parallel((x.size // LANES,)) as (block,):
        at = (affine(block) * LANES,)
        builder.store(power(builder, builder.load_lanes(source, at, LANES)), target, at)
    found = np.empty_like(x)
    run_nest(builder.nest, [x, found])
    return found


def test_errors() -> None:
    x = np.linspace(-87.3, 1.0, 1 << 16).astype(np.float32)
    wanted = np.exp(x.astype(np.float64))
    assert (np.abs(powers(x) - wanted) <= 1.5 * np.spacing(wanted.astype(np.float32))).all()


def test_doubles() -> None:
    x = np.linspace(-700.0, 1.0, 1 << 10)
    np.testing.assert_allclose(powers(x), np.exp(x), rtol=1e-15)


def test_special_values() -> None:
    lowest = np.finfo(np.float32).min
    x = np.array([0, -0.0, -np.inf, lowest, lowest / 2, -89, np.nan, -1000], np.float32)
    np.testing.assert_array_equal(powers(x), np.array([1, 1, 0, 0, 0, 0, np.nan, 0], np.float32))
