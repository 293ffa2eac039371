"""Rows of bytes multiplied with a lane for each column: against float64, verified, on threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.products.quantized import test_bytes as int8
from tests.compiler.lower.products.quantized import test_product as exact
from tests.support.processes import output_of

import ingot.core as mx
from ingot.runtime.processor import processor_features

SCHEMES = [("affine", 64, 4), ("affine", 32, 4), ("affine", 128, 2), ("affine", 32, 1)]
# (columns, length, rows): tiles that are not whole, a single column, lengths in equal pieces and in
# others (37 groups), several blocks of rows
SHAPES = [(7, 256, 5), (33, 640, 8), (16, 5632, 9), (1, 384, 13), (50, 2368, 32)]


@pytest.fixture(autouse=True)
def float32_activations() -> Iterator[None]:
    yield
    mx.set_quantized_activations("float32")


def is_by_columns(kernel: Any) -> bool:
    return any(buffer.name == "tile.codes" for buffer in kernel.nest.buffers)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_equals_float64(scheme: exact.Scheme) -> None:
    for columns, length, rows in SHAPES:
        length = -(-length // scheme[1]) * scheme[1]
        parts, x = exact.matrix(scheme, columns, length), exact.rows_of(rows, length)
        x[:, ::7] *= 100
        x[0, 32:64] = 0
        wanted = exact.expected(x, parts, scheme)
        size = np.linalg.norm(wanted) / np.sqrt(wanted.size)
        found = np.array(exact.compiled(scheme)(mx.array(x), *parts))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-6 * size)
        (_, product) = exact.kernels(scheme, mx.array(x), *parts)
        assert is_by_columns(product) is ("avx512_vnni" in processor_features())


@pytest.mark.parametrize("scheme", [*SCHEMES, ("affine", 64, 8)], ids=str)
def test_int8_equals_rows_in_blocks(scheme: exact.Scheme) -> None:
    mx.set_quantized_activations("int8")
    for columns, length, rows in [*SHAPES, (20, 384, 70)]:
        length = -(-length // scheme[1]) * scheme[1]
        parts, x = exact.matrix(scheme, columns, length), exact.rows_of(rows, length)
        wanted = exact.expected(int8.in_blocks(x), parts, scheme)
        found = np.array(exact.compiled(scheme)(mx.array(x), *parts))
        # a tie of the rounding may go either way, which is a step of one element
        assert np.quantile(abs(found - wanted), 0.9) < 2e-5 * np.sqrt(length)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=0.1)


@pytest.mark.parametrize("activations", ["float32", "int8"])
@pytest.mark.parametrize("scheme", [("affine", 64, 4), ("affine", 128, 2)], ids=str)
def test_nests_are_verified_and_interpreted(scheme: exact.Scheme, activations: str) -> None:
    mx.set_quantized_activations(activations)
    for columns, length, rows in [(3, 256, 5), (35, 128, 9), (16, 384, 8)]:
        parts = exact.matrix(scheme, columns, length)
        found = exact.kernels(scheme, mx.array(exact.rows_of(rows, length)), *parts)
        for number, kernel in enumerate(found):
            exact.check_nest(kernel.nest, number)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3e38])
def test_rows_that_are_not_finite(special: float) -> None:
    scheme = ("affine", 64, 4)
    parts = exact.matrix(scheme, 21, 1152)
    numbers = np.array(mx.dequantize(*parts, **exact.options(scheme))).astype(np.float64)
    x = exact.rows_of(11, 1152)
    x[1, 70] = special
    x[10, 1151] = special
    found = np.array(exact.compiled(scheme)(mx.array(x), *parts))
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = (x.astype(np.float64) @ numbers.T).astype(np.float32)
    assert np.isfinite(np.delete(found, (1, 10), axis=0)).all()
    for row, column in ((1, 70), (10, 1151)):
        is_clear = abs(numbers[:, column]) > 1e-3  # not 0, which rounding may miss
        np.testing.assert_allclose(found[row, is_clear], wanted[row, is_clear], rtol=1e-5)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=lambda dtype: dtype.name)
def test_half_types(dtype: mx.Dtype) -> None:
    scheme = ("affine", 64, 4)
    parts = exact.matrix(scheme, 18, 320, dtype)
    x = mx.array(exact.rows_of(14, 320)).astype(dtype).reshape(7, 2, 320).transpose(1, 0, 2)
    found = exact.compiled(scheme)(x, *parts)
    wanted = exact.expected(np.array(x.astype(mx.float32)), parts, scheme)
    step = 2.0**-10 if dtype == mx.float16 else 2.0**-8
    np.testing.assert_allclose(np.array(found.astype(mx.float32)), wanted, rtol=step, atol=1e-4)


def test_bits_depend_neither_on_threads_nor_on_other_rows() -> None:
    scheme = ("affine", 64, 4)
    parts, x = exact.matrix(scheme, 1500, 1152), mx.array(exact.rows_of(20, 1152))
    whole = np.array(exact.compiled(scheme)(x, *parts))
    np.testing.assert_array_equal(np.array(exact.compiled(scheme)(x[:7], *parts)), whole[:7])
    script = (
        "import sys, numpy as np, ingot.core as mx\n"
        "from tests.compiler.lower.products.quantized import test_product as here\n"
        f"scheme = {scheme}\n"
        "parts = here.matrix(scheme, 1500, 1152)\n"
        "found = here.compiled(scheme)(mx.array(here.rows_of(20, 1152)), *parts)\n"
        "sys.stdout.buffer.write(np.array(found).tobytes())\n"
    )
    for threads in ("1", "3"):
        assert output_of(script, INGOT_NUM_THREADS=threads) == whole.tobytes()
