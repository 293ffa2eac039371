"""Manipulation functions."""

from __future__ import annotations

import numpy as np
from tests.array_api.comparison import DATA, compare

X = DATA["float64"]


def test_manipulation() -> None:
    compare(lambda ns, x: ns.concat([x, x], axis=1), X)
    compare(lambda ns, x, y: ns.concat([x, y], axis=None), X, DATA["float32"])
    compare(lambda ns, x: (ns.stack([x, x], axis=-1), ns.unstack(x, axis=1)), X)
    compare(lambda ns, x: (ns.expand_dims(x, axis=1), ns.squeeze(x[:1], axis=0)), X)
    compare(lambda ns, x: (ns.flip(x), ns.flip(x, axis=0), ns.permute_dims(x, (1, 0))), X)
    compare(lambda ns, x: (ns.moveaxis(x, 0, -1), ns.moveaxis(x, (0, 1), (1, 0))), X)
    compare(lambda ns, x: (ns.reshape(x, (2, -1)), ns.reshape(x, (12,), copy=True)), X)
    compare(lambda ns, x: (ns.roll(x, 2), ns.roll(x, (1, 2), axis=(0, 1))), X)
    compare(lambda ns, x: (ns.repeat(x, 2), ns.repeat(x, 3, axis=1), ns.tile(x, (2, 1, 2))), X)
    compare(lambda ns, x, n: ns.repeat(x, n, axis=0), X, np.array([2, 0, 1]))
    compare(lambda ns, x: (ns.broadcast_to(x, (2, 3, 4)), ns.broadcast_arrays(x, x[:1])), X)
