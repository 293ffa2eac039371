"""What programs call in Python: views, host steps, checks and tables of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compiler.machine.callbacks import (
    checking,
    finishing,
    host,
    length_value,
    number_table,
    viewer,
)
from ingot.graph.op import registry

X = np.arange(12, dtype=np.float32).reshape(3, 4)
WHOLE = viewer(0, 0, (3, 4), X.dtype, (16, 4))


def test_whole_arrays_are_handed_on() -> None:
    assert WHOLE([X]) is X


def test_parts_are_views() -> None:
    column = viewer(1, 4, (3,), X.dtype, (16,))([None, X])
    np.testing.assert_array_equal(column, X[:, 1])
    assert np.shares_memory(column, X)
    in_bytes = viewer(0, 16, (4,), X.dtype, (4,))([X.tobytes()])
    np.testing.assert_array_equal(in_bytes, X[1])


def test_host_steps_do_not_hand_out_their_inputs() -> None:
    """The memory of inputs is used again."""

    class Same:
        def evaluate(self, x: np.ndarray) -> np.ndarray:
            return x

    (found,) = host(Same(), [WHOLE], False)([X])
    np.testing.assert_array_equal(found, X)
    assert not np.shares_memory(found, X)


def test_checks_raise_their_own_errors() -> None:
    class Refuse:
        def evaluate(self, x: np.ndarray) -> None:
            raise ValueError(f"{x.size} are too many")

    with pytest.raises(ValueError, match="12 are too many"):
        checking(Refuse(), [WHOLE])([X])


def test_outputs_are_found() -> None:
    row = viewer(0, 32, (4,), X.dtype, (4,))
    whole, last = finishing([WHOLE, row])([X])
    assert whole is X
    np.testing.assert_array_equal(last, X[2])


def test_numbers_of_a_shape() -> None:
    np.testing.assert_array_equal(number_table(3, 4, 12), [3, 4, 12])
    assert number_table(3).dtype == np.int64
    assert length_value(7, np.dtype(np.float32)) == np.float32(7)
    assert registry()
