"""Arrays on memory that a program wrote."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from ingot.compiler.machine.views import view_at


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.complex64, np.bool_])
def test_elements_are_where_offset_and_strides_say(dtype: type) -> None:
    owner = np.arange(24).astype(dtype)
    size = owner.itemsize
    found = view_at(owner, 5 * size, (2, 3), owner.dtype, (8 * size, -2 * size))
    expected = owner[[[5, 3, 1], [13, 11, 9]]]
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == owner.dtype


def test_views_keep_their_owner_alive() -> None:
    owner = np.arange(6.0)
    gone = weakref.ref(owner)
    view = view_at(owner, 8, (2,), owner.dtype, (8,))
    del owner
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(view, [1.0, 2.0])
    del view
    gc.collect()
    assert gone() is None
