"""Products, quotients and moduli of complex NumPy arrays, bit-identical to those of kernels.

NumPy's own loops round differently across processors and memory layouts, because some of them use
FMA. Here every product and sum is rounded separately.
"""

from __future__ import annotations

import numpy as np

__all__ = ["modulus", "product", "quotient"]


def product(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """x * y by the textbook formula."""
    real = x.real * y.real - x.imag * y.imag
    imaginary = x.real * y.imag + x.imag * y.real
    result = np.empty(real.shape, x.dtype) if out is None else out
    result.real = real
    result.imag = imaginary
    return result


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y by Smith's formula in double precision; division by zero acts on each part
    separately.
    """
    result = np.empty(x.shape, x.dtype)
    x, y = x.astype(np.complex128), y.astype(np.complex128)
    upright = np.abs(y.real) >= np.abs(y.imag)
    large, small = np.where(upright, y.real, y.imag), np.where(upright, y.imag, y.real)
    p, q = np.where(upright, x.real, x.imag), np.where(upright, x.imag, x.real)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    imaginary = (q - p * ratio) * scale
    by_zero = y == 0
    zero = np.abs(large)
    result.real = np.where(by_zero, x.real / zero, (p + q * ratio) * scale)
    result.imag = np.where(
        by_zero, x.imag / zero, np.where(upright, imaginary, np.negative(imaginary))
    )
    return result


def modulus(x: np.ndarray) -> np.ndarray:
    """|x|, computed in double precision; infinite if a part is."""
    real, imaginary = x.real.astype(np.float64), x.imag.astype(np.float64)
    found = np.sqrt(real * real + imaginary * imaginary)
    infinite = np.isinf(real) | np.isinf(imaginary)
    return np.where(infinite, np.inf, found).astype(x.real.dtype)
