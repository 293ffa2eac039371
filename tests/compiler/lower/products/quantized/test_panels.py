"""Products of many rows with quantised matrices, which are unpacked to panels: against float64,
against MLX, verified and interpreted, and for narrower vectors.
"""

from __future__ import annotations

from typing import Any

import mlx.core as reference
import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import Memory, run_nest
from tests.compiler.lower.products.quantized.test_product import (
    FLOATS,
    Scheme,
    compiled,
    expected,
    kernels,
    matrix,
    options,
    rows_of,
)

import ingot.core as mx
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.verify import verify
from ingot.ops.quantized import rows

SCHEMES = [
    *[("affine", group, 4) for group in (32, 64, 128)],
    *[("affine", 64, bits) for bits in (1, 2, 3, 5, 6, 8)],
    ("affine", 128, 8),  # two chunks share a scale
    *FLOATS,
]
ROWS = 37


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_equals_float64(scheme: Scheme) -> None:
    """Whole chunks and a rest, whole panels and a rest, and long sums."""
    for columns, length in [(64, 256), (83, 640)]:
        parts = matrix(scheme, columns, length)
        x = rows_of(ROWS, length)
        wanted = expected(x, parts, scheme)
        found = np.array(compiled(scheme)(mx.array(x), *parts))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.sqrt(length))
        eager = mx.quantized_matmul(mx.array(x), *parts, **options(scheme))
        np.testing.assert_array_equal(np.array(eager), found)


@pytest.mark.parametrize("scheme", [("affine", 64, 4), ("affine", 128, 8), FLOATS[2]], ids=str)
def test_unpacking_is_verified_and_interpreted(scheme: Scheme) -> None:
    parts = matrix(scheme, 19, 384)
    found = kernels(scheme, mx.array(rows_of(ROWS, 384)), *parts)
    assert len(found) == 2
    assert found[0].nest.buffers[0].name == "codes"
    unpacking = found[0].nest
    verify(unpacking)
    one, other = (Memory(unpacking, 1, 200) for _ in range(2))
    interpret(unpacking, one.arrays)
    run_nest(unpacking, other.arrays, chunk=1)
    for a, b in zip(one.arrays, other.arrays, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-5)


def test_agrees_with_mlx() -> None:
    x, w = rows_of(2 * ROWS, 128).reshape(2, ROWS, 128), rows_of(50, 128)
    found = []
    for module in (mx, reference):
        parts = module.quantize(module.array(w), group_size=64, bits=4)
        product = module.quantized_matmul(module.array(x), *parts, group_size=64, bits=4)
        found.append(np.array(product))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=lambda dtype: dtype.name)
def test_half_types(dtype: Any) -> None:
    """MLX adds in the half type itself; this is rounded once."""
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 50, 256, dtype)
    x = mx.array(rows_of(ROWS, 256)).astype(dtype)
    found = mx.quantized_matmul(x, *parts, **options(scheme))
    assert found.dtype == dtype
    wanted = expected(np.array(x.astype(mx.float32)), parts, scheme)
    step = 2.0**-10 if dtype == mx.float16 else 2.0**-8
    np.testing.assert_allclose(np.array(found.astype(mx.float32)), wanted, rtol=step, atol=1e-4)


def test_rows_with_strides_and_axes() -> None:
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 10, 128)
    x = rows_of(96, 128).reshape(4, 12, 2, 128).transpose(2, 0, 1, 3)
    for inputs in (mx.array(x[:, ::-1]), mx.array(x).transpose(1, 2, 0, 3)[:, ::2]):
        rows = np.array(inputs)
        found = np.array(compiled(scheme)(inputs, *parts))
        wanted = expected(rows.reshape(-1, 128), parts, scheme).reshape(*rows.shape[:-1], 10)
        np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_large_matrices_are_multiplied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has a third of the columns, the last one fewer."""
    scheme = ("affine", 64, 4)
    parts = matrix(scheme, 70, 128)
    x = rows_of(ROWS, 128)
    monkeypatch.setattr(rows, "MAX_QUANTIZED_PANELS", 32 * 128 * 4)
    taken = [kernel.nest.buffers[0].shape[0] for kernel in kernels(scheme, mx.array(x), *parts)]
    assert taken.count(32) == 2
    found = compiled(scheme)(mx.array(x), *parts)
    np.testing.assert_allclose(np.array(found), expected(x, parts, scheme), atol=1e-4)


def test_derivatives_are_those_of_mlx() -> None:
    x, w = rows_of(ROWS, 64), rows_of(24, 64)

    def gradients(module: Any) -> list[np.ndarray]:
        packed, *parts = module.quantize(module.array(w), group_size=32, bits=4)

        def loss(x: Any, *parts: Any) -> Any:
            product = module.quantized_matmul(x, packed, *parts, group_size=32, bits=4)
            return (product * product).sum()

        found = module.grad(loss, argnums=(0, 1, 2))(module.array(x), *parts)
        return [np.array(each) for each in found]

    for ours, theirs in zip(gradients(mx), gradients(reference), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * abs(theirs).max())
