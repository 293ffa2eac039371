"""Sorting functions."""

from __future__ import annotations

import numpy as np
from tests.array_api.comparison import DATA, agree, compare

import ingot.array_api as xp


def test_sorting() -> None:
    for dtype in ("float64", "int8", "uint8"):
        data = DATA[dtype]
        compare(lambda ns, x: (ns.sort(x), ns.sort(x, axis=0)), data)
        order = np.argsort(data, axis=-1, stable=True)
        agree(xp.argsort(xp.asarray(data)), order)
        backwards = xp.argsort(xp.asarray(data), descending=True)
        taken = np.take_along_axis(data, np.asarray(backwards), -1)
        np.testing.assert_array_equal(taken, np.sort(data)[:, ::-1])
    ties = np.array([1, 0, 1, 0])
    assert np.asarray(xp.argsort(xp.asarray(ties), descending=True)).tolist() == [0, 2, 1, 3]
