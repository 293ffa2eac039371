"""Searching functions."""

from __future__ import annotations

import numpy as np
from tests.array_api.comparison import DATA, compare

X = DATA["float64"]


def test_searching() -> None:
    for dtype in ("float64", "int8", "bool"):
        compare(lambda ns, x: (ns.argmax(x, axis=1), ns.argmin(x, axis=0)), DATA[dtype])
        compare(lambda ns, x: ns.nonzero(x), DATA[dtype])
        compare(lambda ns, x: ns.count_nonzero(x, axis=0), DATA[dtype])
    compare(lambda ns, x: ns.argmax(x, axis=1, keepdims=True), X)
    compare(lambda ns, x: ns.where(x > 0, x, -x), X)
    compare(lambda ns, x: ns.where(x > 0, x, 0), X)
    compare(lambda ns, x, y: ns.searchsorted(x, y), np.sort(X[0]), X)
    compare(lambda ns, x, y: ns.searchsorted(x, y, side="right"), np.arange(5), np.arange(7))
