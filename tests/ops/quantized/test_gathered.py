"""Products with chosen quantised matrices: one node without compile, array operations inside it."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

EXPERTS = 5


def gathered(module: Any, rows: int, right: Any, left: Any, dtype: str = "float32") -> Any:
    generator = np.random.default_rng(rows)
    w = module.array(generator.normal(size=(EXPERTS, 24, 64)).astype(np.float32))
    x = module.array(generator.normal(size=(7, rows, 64)).astype(np.float32))
    parts = module.quantize(w.astype(getattr(module, dtype)), 32, 4)
    chosen = [None if index is None else module.array(index) for index in (left, right)]

    def product(x: Any, *parts: Any) -> Any:
        options = {"transpose": True, "group_size": 32, "bits": 4}
        found = module.gather_qmm(
            x, *parts, lhs_indices=chosen[0], rhs_indices=chosen[1], **options
        )
        return found.astype(module.float32)

    return product, (x.astype(getattr(module, dtype)), *parts)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("rows", "right", "left"),
    [
        (1, [3, 1], [0, 0]),  # a token and its experts
        (1, [[4, 4, 0], [1, 4, 0]], [[6, 0, 2], [3, 3, 1]]),
        (3, [0, 1, 2, 3, 4, 4, 4], None),
        (20, [2, 0, 2, 2], [0, 1, 2, 3]),  # many rows of one matrix: its panels
    ],
)
def test_products_equal_mlx(rows: int, right: Any, left: Any, dtype: str) -> None:
    found, expected = (
        np.array(function(*inputs))
        for function, inputs in (gathered(m, rows, right, left, dtype) for m in (mx, mlx))
    )
    tolerance = 1e-4 if dtype == "float32" else 0.3
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=tolerance)


def test_compiled_products_are_the_same() -> None:
    function, inputs = gathered(mx, 2, [1, 4, 1], [0, 5, 6])
    plain, compiled = function(*inputs), mx.compile(function)(*inputs)
    np.testing.assert_allclose(np.array(plain), np.array(compiled), rtol=1e-5, atol=1e-4)


def test_negative_indices_count_from_the_end() -> None:
    (function, inputs), (other, _) = (gathered(mx, 1, right, [0]) for right in ([-1], [4]))
    np.testing.assert_array_equal(np.array(function(*inputs)), np.array(other(*inputs)))


def test_no_products() -> None:
    function, inputs = gathered(mx, 1, np.zeros(0, np.int32), np.zeros(0, np.int32))
    assert function(*inputs).shape == (0, 1, 24)
    mx.eval(function(*inputs))


def test_indices_out_of_range_raise() -> None:
    for right, left in (([EXPERTS], [0]), ([0], [7])):
        function, inputs = gathered(mx, 1, right, left)
        with pytest.raises(IndexError, match=r"gather_qmm.*out of range"):
            mx.eval(function(*inputs))
