"""Products against NumPy in float64, within the bound for rounded sums."""

from __future__ import annotations

import numpy as np

import ingot.core as mx

UNIT_ROUNDOFF = {"float32": 2**-24, "float64": 2**-53, "float16": 2**-11, "bfloat16": 2**-8}


def matrices(m: int, k: int, n: int, stack: tuple[int, ...] = ()) -> list[np.ndarray]:
    generator = np.random.default_rng(m * k + n)
    return [
        generator.standard_normal((*stack, *shape)).astype(np.float32) for shape in ((m, k), (k, n))
    ]


def require_close(found: mx.array, a: mx.array, b: mx.array) -> None:
    """Within the bound for sums of products that are rounded one after the other."""
    exact = [np.array(x.astype(mx.float32), np.float64) for x in (a, b)]
    expected = exact[0] @ exact[1]
    size = np.abs(exact[0]) @ np.abs(exact[1])
    name = str(a.dtype).rpartition(".")[2]
    sums = UNIT_ROUNDOFF["float64" if name == "float64" else "float32"]
    bound = size * sums * 600 + np.abs(expected) * UNIT_ROUNDOFF[name] * 1.01
    wide = mx.float64 if name == "float64" else mx.float32
    difference = np.abs(np.array(found.astype(wide), np.float64) - expected)
    assert found.shape == expected.shape
    assert (difference <= bound).all(), float((difference / np.maximum(bound, 1e-30)).max())
