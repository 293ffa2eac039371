"""Set functions."""

from __future__ import annotations

import numpy as np
from tests.array_api.comparison import DATA, compare

import ingot.array_api as xp


def test_sets() -> None:
    for dtype in ("float64", "int8", "bool"):
        compare(lambda ns, x: (ns.sort(ns.unique_values(x)), ns.unique_counts(x)), DATA[dtype])
        compare(lambda ns, x: (ns.unique_inverse(x), ns.unique_all(x)), DATA[dtype])
    assert xp.unique_values(xp.asarray([np.nan, np.nan])).shape == (2,)
