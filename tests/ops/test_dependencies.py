"""Arrays that wait for others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, value

import ingot.core as mx


def test_values_and_structure() -> None:
    a, b, c = mx.array([1.0, 2.0]), mx.array(3), mx.array([[4.0]])
    assert mx.depends(a, b).tolist() == [1.0, 2.0]
    first, second = mx.depends((a, b), [c])
    assert first.tolist() == [1.0, 2.0]
    assert second.dtype is mx.int32
    assert isinstance(mx.depends([a], c), list)
    assert mx.depends([], [a]) == []
    assert mx.depends([a], [])[0].tolist() == [1.0, 2.0]


def test_dependencies_are_computed() -> None:
    waited_for = mx.exp(mx.array([0.0]))
    mx.eval(mx.depends(mx.array(1.0), waited_for))
    assert waited_for._node.evaluated


def test_rules() -> None:
    x, y = doubles(3), doubles(3, seed=1)
    check_derivatives(lambda a: mx.depends(a, a * 2), x)
    check_vmap(lambda a, b: mx.depends(a, b), doubles(5, 3), doubles(5, 2), in_axes=[0, 0])
    check_vmap(lambda a, b: mx.depends(a, b), doubles(5, 3), y, in_axes=[0, None])
    check_vmap(lambda a, b: mx.depends(a, b), x, doubles(5, 3), in_axes=[None, 0])


def test_no_derivative_flows_to_dependencies() -> None:
    x, y = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])

    def total(a: mx.array, b: mx.array) -> mx.array:
        kept, other = mx.depends([a, a * a], [b])
        return (kept + other).sum()

    by_x, by_y = mx.grad(total, argnums=[0, 1])(x, y)
    np.testing.assert_array_equal(value(by_x), [3.0, 5.0])
    np.testing.assert_array_equal(value(by_y), [0.0, 0.0])


def test_sentence() -> None:
    with pytest.raises(RuntimeError, match=r"^\[depends\] takes arrays, got int: 1\.$"):
        mx.depends(1, mx.array(2))
