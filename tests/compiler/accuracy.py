"""Errors of the math library in units in the last place (ulp), and the samples that find them."""

from __future__ import annotations

import numpy as np

Type = type[np.float32] | type[np.float64]


def ulp_errors(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """|found - reference| in units of the spacing of `found`'s type at the reference.

    The reference has a wider type. Results that agree in being NaN or infinite have no error; those
    that do not, an infinite one.
    """
    limits = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        expected = reference.astype(found.dtype)
        special = ~np.isfinite(expected) | ~np.isfinite(found)
        same = (expected == found) | (np.isnan(expected) & np.isnan(found))
        _, exponent = np.frexp(np.where(special, 1, reference))
        exponent = np.maximum(exponent, limits.minexp + 1)
        spacing = np.ldexp(reference.dtype.type(1), exponent - 1 - limits.nmant)
        errors = np.abs(found.astype(reference.dtype) - reference) / spacing
    return np.where(special, np.where(same, 0.0, np.inf), errors).astype(np.float64)


def sampled_bits(type: Type, count: int, seed: int = 0) -> np.ndarray:
    """Numbers of either sign whose bits are evenly spread: all exponents, denormals included."""
    generator = np.random.default_rng(seed)
    unsigned, width = (np.uint32, 32) if type is np.float32 else (np.uint64, 64)
    step = 2**width // count
    bits = np.arange(count, dtype=np.uint64) * np.uint64(step)
    bits += generator.integers(0, step, count, dtype=np.uint64)
    return bits.astype(unsigned).view(type)


def sampled_between(type: Type, low: float, high: float, count: int, seed: int = 1) -> np.ndarray:
    """Numbers evenly spread between two others."""
    return np.random.default_rng(seed).uniform(low, high, count).astype(type)
