"""Statistical and utility functions."""

from __future__ import annotations

import pytest
from tests.array_api.comparison import DATA, compare

X = DATA["float64"]


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any"])
def test_reductions(name: str) -> None:
    for dtype, data in DATA.items():
        if name in ("max", "min") and dtype == "complex64":
            continue
        compare(lambda ns, x: getattr(ns, name)(x), data)
        compare(lambda ns, x: getattr(ns, name)(x, axis=1, keepdims=True), data)
        compare(lambda ns, x: getattr(ns, name)(x, axis=(0, 1)), data)


def test_statistics() -> None:
    for data in (X, DATA["float32"]):
        compare(lambda ns, x: (ns.mean(x), ns.mean(x, axis=0), ns.std(x, axis=1)), data)
        compare(lambda ns, x: (ns.var(x), ns.var(x, axis=0, correction=1)), data)
    compare(lambda ns, x: ns.sum(x, dtype=ns.float32), X)
    for dtype in ("float64", "int8", "uint8"):
        compare(lambda ns, x: ns.cumulative_sum(x, axis=1), DATA[dtype])
        compare(lambda ns, x: ns.cumulative_prod(x, axis=0, include_initial=True), DATA[dtype])
    compare(lambda ns, x: (ns.diff(x), ns.diff(x, axis=0, n=2), ns.diff(x, prepend=x[:, :1])), X)
