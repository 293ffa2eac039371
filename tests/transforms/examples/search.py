"""Examples for the ops of `ingot.search`, as `ops.py` has them for the others."""

from __future__ import annotations

import numpy as np
from tests.transforms.examples.example import Example, apart, real, stretching
from tests.transforms.examples.ops import EXAMPLES

from ingot.search import factorizations, nearest_rows


def row_count(random: np.random.Generator) -> np.ndarray:
    """How many of 6 rows count."""
    return random.integers(4, 6)[...].astype(np.int64)


_SEARCHES = [
    Example(nearest_rows.Nearest(k, metric), (apart(3, 4), apart(6, 4), row_count))
    for metric, k in zip(nearest_rows.METRICS, (2, 3, 1, 4, 2), strict=True)
]

ALL_EXAMPLES: list[Example] = [
    *EXAMPLES,
    *_SEARCHES,
    Example(factorizations.TallQR(), (stretching(5, 2),)),
    Example(factorizations.TwoSidedProduct(2), (real(5, 3), real(3, 2))),
]
