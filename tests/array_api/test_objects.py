"""The array object: attributes and conversions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.array_api.comparison import DATA, compare

import ingot.array_api as xp


def test_attributes() -> None:
    x = xp.asarray(DATA["float64"])
    assert (x.shape, x.ndim, x.size) == ((3, 4), 2, 12)
    assert x.dtype is xp.float64
    assert x.device in xp.__array_namespace_info__().devices()
    assert x.to_device(x.device) is x
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="version"):
        x.__array_namespace__(api_version="1999.01")
    compare(lambda ns, x: (x.T, x.mT), DATA["float64"])
    assert (int(xp.asarray(3)), float(xp.asarray(1.5)), bool(xp.asarray(True))) == (3, 1.5, True)
    assert complex(xp.asarray(1j)) == 1j
    assert [10, 20, 30][xp.asarray(1)] == 20
    assert repr(xp.asarray([1])) == "Array([1], dtype=int64)"
    np.testing.assert_array_equal(np.from_dlpack(x), DATA["float64"])
    assert x.__dlpack_device__() == (1, 0)
