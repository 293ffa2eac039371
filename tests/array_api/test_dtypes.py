"""Data types and their functions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.array_api.comparison import DATA, compare

import ingot.array_api as xp


def test_dtypes() -> None:
    for name in ("int8", "uint32", "float64"):
        dtype = getattr(xp, name)
        assert xp.isdtype(dtype, "numeric")
        assert xp.isdtype(dtype, "integral") == ("int" in name)
        assert xp.isdtype(dtype, ("bool", dtype))
    assert xp.isdtype(xp.bool, "bool")
    assert not xp.isdtype(xp.complex64, "real floating")
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.float64, xp.float32)
    assert xp.iinfo(xp.int16).max == 2**15 - 1
    assert xp.finfo(xp.float64).eps == np.finfo(np.float64).eps
    assert xp.finfo(xp.complex64).dtype is xp.float32
    assert xp.result_type(xp.float32, 1.5) is xp.float32
    assert xp.result_type(xp.int8, 1.5) is xp.float64
    compare(lambda ns, x: ns.astype(x, ns.float32), DATA["int64"])
    with pytest.raises(TypeError, match="complex"):
        xp.astype(xp.asarray(1j), xp.float64)
