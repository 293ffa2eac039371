"""Winograd's matrices, against correlations that NumPy computes."""

from __future__ import annotations

import numpy as np

from ingot.compiler.lower.products.convolution.transforms import (
    ELEMENTS,
    FILTER,
    INPUT,
    OUTPUT,
    OUTPUTS,
    TAPS,
)


def test_products_between_transforms_are_a_correlation() -> None:
    for element in range(ELEMENTS):
        for tap in range(TAPS):
            d, g = np.eye(ELEMENTS)[element], np.eye(TAPS)[tap]
            found = np.array(OUTPUT) @ ((np.array(FILTER) @ g) * (np.array(INPUT) @ d))
            np.testing.assert_array_equal(found, np.correlate(d, g, "valid"))
            assert len(found) == OUTPUTS
