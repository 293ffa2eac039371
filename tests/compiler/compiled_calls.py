"""What tests of compiled functions call, with what, and how results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import ingot.core as mx


def exp_plus(x: Any, y: Any) -> Any:
    return mx.exp(-x) + y


X = mx.array([1.0, 2.0])
Y = mx.array([3.0, 4.0])
EXPECTED = np.exp(-np.array(X)) + np.array(Y)


def check(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)
