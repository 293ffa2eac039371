"""Creation functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.array_api.comparison import DATA, agree, compare

import ingot.array_api as xp
import ingot.core as mx


def test_creation() -> None:
    compare(lambda ns: (ns.zeros((2, 3)), ns.ones(4), ns.full((2,), 7), ns.full((2,), 1.5)))
    compare(lambda ns: (ns.arange(5), ns.arange(1, 9, 3), ns.arange(0.0, 1, 0.25)))
    compare(lambda ns: (ns.arange(5, 2), ns.arange(5, 0, -2), ns.arange(3, dtype=ns.float32)))
    compare(lambda ns: (ns.linspace(0, 1, 5), ns.linspace(0, 1, 5, endpoint=False)))
    compare(lambda ns: (ns.eye(3), ns.eye(2, 4, k=1), ns.eye(3, dtype=ns.int64)))
    compare(lambda ns, x: (ns.zeros_like(x), ns.ones_like(x), ns.full_like(x, 3)), DATA["int8"])
    compare(lambda ns, x: (ns.tril(x), ns.triu(x, k=1)), DATA["float64"])
    compare(lambda ns, x: (ns.tril(x), ns.triu(x)), DATA["bool"])
    compare(lambda ns, x, y: ns.meshgrid(x, y), np.arange(3), np.arange(2))
    compare(lambda ns, x, y: ns.meshgrid(x, y, indexing="ij"), np.arange(3), np.arange(2))
    assert xp.empty((2, 3)).shape == (2, 3)
    assert xp.empty_like(xp.ones(3, dtype=xp.int8)).dtype is xp.int8


@pytest.mark.parametrize(
    "value", [1, 1.5, True, [1, 2], [[1.5, 2]], [True], [], 2j, (1, 2.5), [1, 2.5]]
)
def test_asarray(value: Any) -> None:
    compare(lambda ns: ns.asarray(value))


def test_asarray_of_arrays() -> None:
    core = mx.array([1.0, 2.0])
    assert xp.asarray(core).core is core
    assert xp.asarray(xp.asarray(core), copy=True).core is not core
    assert xp.asarray(core, dtype=xp.float64).dtype is xp.float64
    for data in DATA.values():
        agree(xp.asarray(data), data)
        agree(xp.from_dlpack(data), data)
        agree(xp.asarray(xp.asarray(data)), data)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="CPU"):
        xp.zeros(3, device="gpu")
