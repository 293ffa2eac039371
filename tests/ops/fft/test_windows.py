"""Windows against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
@pytest.mark.parametrize("points", [-1, 0, 1, 2, 3, 4, 51])
def test_values(name: str, points: int) -> None:
    window = getattr(mx, name)(points)
    expected: Any = getattr(np, name)(points)
    assert window.dtype is mx.float32
    np.testing.assert_allclose(np.array(window), expected, rtol=1e-5, atol=2e-7)


def test_sentence() -> None:
    with pytest.raises(TypeError, match=r"^\[hanning\] M must be an int, got float: 2\.0\.$"):
        mx.hanning(2.0)
