"""Errors of products by length of their sums, against NumPy in float64, and special values.

Partial sums have at most 512 products (`SUM_BLOCK`), or, with few rows, are added to the result
after every 8 of them at least. So the error of a sum of k products is at most 512 + k / 8 roundings
of the sum of their magnitudes, and half a unit of the result's dtype.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import ingot.core as mx

ROUNDOFF = {"float32": 2**-24, "float64": 2**-53, "float16": 2**-11, "bfloat16": 2**-8}
# rows, and products in a sum: streams or dots, strips or dots, panels
SIZES = [(1, 1), (1, 9001), (3, 700), (20, 37), (20, 9001), (70, 700)]


def operands(m: int, k: int, dtype: str, transposed: bool) -> tuple[mx.array, mx.array]:
    random = np.random.default_rng(m + k)
    shapes = ((m, k), (321, k) if transposed else (k, 321))
    a, b = (mx.array(random.normal(size=x)).astype(getattr(mx, dtype)) for x in shapes)
    mx.eval(a, b)
    return a, b.T if transposed else b


def exact(x: mx.array) -> np.ndarray:
    wide = x if x.dtype in (mx.float64, mx.complex64) else x.astype(mx.float32)
    return np.array(wide).astype(np.complex128 if x.dtype == mx.complex64 else np.float64)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [*ROUNDOFF, "complex64"])
def test_errors_by_length(dtype: str, transposed: bool) -> None:
    sums = ROUNDOFF["float64" if dtype == "float64" else "float32"]
    result = ROUNDOFF.get(dtype, sums)
    for m, k in SIZES:
        a, b = operands(m, k, dtype, transposed)
        found, left, right = exact(a @ b), exact(a), exact(b)
        size, wanted = np.abs(left) @ np.abs(right), left @ right
        steps = (min(k, 512) + k / 8 + 2) * (2 if dtype == "complex64" else 1)
        bound = size * sums * steps + np.abs(wanted) * result * 1.01
        assert found.shape == (m, 321)
        assert (np.abs(found - wanted) <= bound).all(), (m, k)


def test_errors_with_narrower_vectors() -> None:
    names = [f"test_errors_by_length[{dtype}-True]" for dtype in ("float32", "bfloat16")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "INGOT_VECTOR_BITS": "256", "PYTEST_XDIST_WORKER": ""}
    subprocess.run(
        [*command, *(f"{__file__}::{name}" for name in names)],
        env=environment,
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_special_values_stay_in_their_rows_and_columns(dtype: str, transposed: bool) -> None:
    for m in (1, 20):
        a, b = operands(m, 700, dtype, transposed)
        a[m - 1, 699], a[0, 3], b[5, 320] = mx.nan, mx.inf, -mx.inf
        with np.errstate(invalid="ignore"):
            wanted = exact(a) @ exact(b)
        found = exact(a @ b)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
        np.testing.assert_array_equal(found[np.isinf(found)], wanted[np.isinf(wanted)])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
def test_empty_and_single(dtype: str) -> None:
    given = getattr(mx, dtype)
    for m, k, n in ((0, 5, 4), (4, 0, 5), (4, 5, 0), (0, 0, 0)):
        found = mx.zeros((m, k), given) @ mx.zeros((k, n), given)
        assert found.shape == (m, n)
        assert not np.array(found.astype(mx.float32)).any()
    assert exact(mx.full((1, 1), 3, given) @ mx.full((1, 1), 2, given)).item() == 6


@pytest.mark.parametrize("m", [1, 70])
def test_enormous_strides(m: int) -> None:
    stride = 1 << 16
    memory = np.random.default_rng(0).normal(size=(80, stride)).astype(np.float32)
    x = mx.array(memory)
    right = mx.as_strided(x, (66, 70), (1, stride), 123)
    for one in (x[:m, : 997 * 65 + 1 : 997], x.T[5 : 5 + m, :66]):
        wanted = np.array(one, np.float64) @ memory.ravel()[123:][
            np.arange(66)[:, None] + stride * np.arange(70)
        ].astype(np.float64)
        found = mx.compile(lambda a, b: a @ b)(one, right)
        np.testing.assert_allclose(np.array(found), wanted, rtol=1e-4, atol=1e-4)
