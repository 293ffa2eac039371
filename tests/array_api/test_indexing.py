"""Indexing: subscripts, masks, `take` and `take_along_axis`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.array_api.comparison import DATA, compare

import ingot.array_api as xp

X = DATA["float64"]


INDICES: list[Any] = [
    0, -1, slice(1, None), (slice(None), 2), (..., 1), None, (0, None, slice(None, None, -1)), (),
    (slice(None), slice(3, 0, -2)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_getitem(index: Any) -> None:
    compare(lambda ns, x: x[index], DATA["float64"])


def test_masks_and_integer_arrays() -> None:
    compare(lambda ns, x: x[x > 0], DATA["float64"])
    compare(lambda ns, x: x[x[:, 0] > 0], DATA["float64"])
    compare(lambda ns, x: x[ns.asarray([2, 0])], DATA["float64"])
    compare(lambda ns, x: x[ns.asarray([2, 0]), ns.asarray([1, 1])], DATA["float64"])

    def store(ns: Any, x: Any) -> Any:
        y = ns.asarray(x, copy=True)
        y[0] = 7
        y[y < 0] = 0
        y[1:, ::2] = y[:2, :2]
        return y, x

    compare(store, DATA["float64"])
    compare(store, DATA["int64"])


def test_setitem_refuses_loss() -> None:
    x = xp.asarray([1, 2])
    with pytest.raises(TypeError, match="without loss"):
        x[0] = xp.asarray(1.5)
    with pytest.raises(IndexError):
        _ = x[0, 0]
    with pytest.raises(IndexError):
        _ = x[5]


def test_indexing() -> None:
    compare(lambda ns, x, i: ns.take(x, i, axis=1), X, np.array([3, 0]))
    compare(lambda ns, x, i: ns.take_along_axis(x, i, axis=1), X, np.argsort(X, axis=1))
