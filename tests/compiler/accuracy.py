"""Errors of the math library in units in the last place (ulp), and the samples that find them."""

from __future__ import annotations

import numpy as np


def ulp_errors(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """|found - reference| in units of the spacing of `found`'s type at the reference.

    The reference has a wider type. Results that agree in being NaN or infinite have no error; those
    that do not, an infinite one.
    """
    type = found.dtype
    limits = np.finfo(type)
    wide = reference.dtype.type
    with np.errstate(all="ignore"):
        expected = reference.astype(type)
        special = ~np.isfinite(expected) | ~np.isfinite(found)
        same = (expected == found) | (np.isnan(expected) & np.isnan(found))
        _, exponent = np.frexp(np.where(special, 1, reference))
        exponent = np.maximum(exponent, limits.minexp + 1)
        spacing = np.ldexp(wide(1), exponent - 1 - limits.nmant)
        errors = np.abs(found.astype(reference.dtype) - reference) / spacing
    return np.where(special, np.where(same, 0.0, np.inf), errors).astype(np.float64)


def sampled_bits(type: type[np.floating], count: int, seed: int = 0) -> np.ndarray:
    """Numbers of either sign whose bits are evenly spread: all exponents, denormals included."""
    generator = np.random.default_rng(seed)
    if type is np.float32:
        step = max(1, 2**32 // count)
        bits = np.arange(0, 2**32, step, dtype=np.uint64)
        bits = (bits + generator.integers(0, step, bits.size, dtype=np.uint64)).astype(np.uint32)
        return bits.view(np.float32)
    step = 2**64 // count
    bits = np.arange(count, dtype=np.uint64) * np.uint64(step)
    bits = bits + generator.integers(0, step, count, dtype=np.uint64)
    return bits.view(np.float64)


def sampled_between(
    type: type[np.floating], low: float, high: float, count: int, seed: int = 1
) -> np.ndarray:
    """Numbers evenly spread between two others."""
    generator = np.random.default_rng(seed)
    return generator.uniform(low, high, count).astype(type)
