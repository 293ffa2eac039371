"""What programs call in Python, host steps and checks, and constants that depend on shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.compiler.machine.callbacks import checking, host, length_value, number_table
from ingot.graph.communication.order import Done
from ingot.graph.op import registry

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_host_steps_do_not_return_their_inputs() -> None:
    """The memory of inputs is reused."""

    class Same:
        def evaluate(self, x: np.ndarray) -> np.ndarray:
            return x

    op: Any = Same()
    (found,) = host(op, False)(X)
    np.testing.assert_array_equal(found, X)
    assert not np.shares_memory(found, X)


def test_ops_may_have_a_quicker_function() -> None:
    done = Done()
    assert host(done, False) == done.host_function()
    (token,) = host(done, False)(X)
    assert token is done.evaluate(X)


def test_checks_raise_their_own_errors() -> None:
    class Refuse:
        def evaluate(self, x: np.ndarray) -> None:
            raise ValueError(f"{x.size} are too many")

    op: Any = Refuse()
    with pytest.raises(ValueError, match="12 are too many"):
        checking(op)(X)


def test_numbers_of_a_shape() -> None:
    np.testing.assert_array_equal(number_table(3, 4, 12), [3, 4, 12])
    assert number_table(3).dtype == np.int64
    assert length_value(7, np.dtype(np.float32)) == np.float32(7)
    assert registry()
