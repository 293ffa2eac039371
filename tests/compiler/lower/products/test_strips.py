"""Products of few rows in strips and streams, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.products.test_matmul import matrices, require_close
from tests.support.processes import has_one_output

import ingot.core as mx

# Streams take up to 4 rows, strips more if the matrix does not stay in L2. Lengths are below and
# beyond a block of k, a strip of columns and a strip of rows, and hardly one is round.
STREAMED = [(1, 7, 5000), (1, 300, 500), (2, 129, 1031), (3, 40, 800), (4, 515, 600)]
STRIPS = [(5, 523, 601), (17, 1030, 515), (70, 300, 1101)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("m", "k", "n"), STREAMED)
def test_streams(dtype: str, m: int, k: int, n: int) -> None:
    a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, n))
    require_close(mx.compile(lambda x, y: x @ y)(a, b), a, b)
    require_close(a @ b, a, b)


@pytest.mark.parametrize(("m", "k", "n"), STRIPS)
def test_strips(m: int, k: int, n: int) -> None:
    a, b = (mx.array(x) for x in matrices(m, k, n))
    require_close(mx.compile(lambda x, y: x @ y)(a, b), a, b)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(589, 485, 12), (1100, 300, 100), (4001, 100, 9), (520, 1030, 6)]
)
def test_strips_of_the_transposed_product(dtype: str, m: int, k: int, n: int) -> None:
    """Both operands are transposed, and the left one, which does not stay in L2, is the right one
    of the transposed product.
    """
    a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, n))
    given = [mx.contiguous(x.T) for x in (a, b)]
    require_close(mx.compile(lambda x, y: x.T @ y.T)(*given), a, b)
    require_close(given[0].T @ given[1].T, a, b)
    residual = mx.array(matrices(m, 1, n)[0] @ matrices(m, 1, n)[1])
    compiled = mx.compile(lambda x, y, r: mx.maximum(x.T @ y.T + r, 0))
    found = np.array(compiled(*given, residual).astype(mx.float32))
    expected = np.maximum(np.array((a @ b).astype(mx.float32)) + np.array(residual), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-2 if dtype != "float32" else 1e-4, atol=0.2)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("m", [3, 9])
def test_other_dtypes(dtype: str, m: int) -> None:
    a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, 1030, 611))
    require_close(a @ b, a, b)


@pytest.mark.parametrize("m", [2, 9])
def test_stacks_and_strided_operands(m: int) -> None:
    a, b = matrices(m, 550, 2 * 530, stack=(3,))
    left, right = mx.array(a), mx.array(b)[:, :, 7:537]
    require_close(left @ right, left, mx.contiguous(right))
    across = mx.contiguous(left.swapaxes(-1, -2)).swapaxes(-1, -2)
    require_close(across @ right, left, mx.contiguous(right))


@pytest.mark.parametrize("m", [1, 3, 9])
def test_what_follows_is_computed_of_the_strip(m: int) -> None:
    a, b = (mx.array(x) for x in matrices(m, 530, 603))
    bias, residual = mx.arange(603) / 603, mx.ones((m, 603)) / 2
    compiled = mx.compile(lambda x, y: mx.maximum(x @ y + bias, 0) - residual)
    expected = np.maximum(np.array(a @ b) + np.array(bias), 0) - 0.5
    np.testing.assert_allclose(np.array(compiled(a, b)), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("m", [1, 9])
def test_what_is_not_finite_stays_in_its_column(m: int) -> None:
    a, b = matrices(m, 529, 603)
    b[3, 5], b[500, 0], b[528, 602] = np.nan, np.inf, -np.inf
    found = np.array(mx.array(a) @ mx.array(b))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(np.isinf(found), np.isinf(expected))


@pytest.mark.parametrize("bits", ["512", "256", "128"])
def test_the_same_bits_with_any_number_of_threads(bits: str) -> None:
    program = (
        "import numpy as np, ingot.core as mx, hashlib\n"
        "g = np.random.default_rng(0)\n"
        "found = b''\n"
        "for m, k, n in ((1, 700, 3100), (3, 77, 5000), (70, 300, 1101)):\n"
        "    a, b = (g.standard_normal(s).astype('f') for s in ((m, k), (k, n)))\n"
        "    c = np.array(mx.array(a) @ mx.array(b))\n"
        "    np.testing.assert_allclose(c, a.astype('d') @ b, rtol=1e-3, atol=1e-4)\n"
        "    found += bytes(c)\n"
        "print(hashlib.sha256(found).hexdigest())\n"
    )
    assert has_one_output(program, INGOT_VECTOR_BITS=bits)


@pytest.mark.parametrize("rows", [300, 1003])
def test_a_column_of_a_matrix_with_narrow_last_tiles(rows: int) -> None:
    """One row of results in two parallel loops: the verifier must see that neither has more."""
    generator = np.random.default_rng(rows)
    x = generator.standard_normal((rows, 500)).astype(np.float32)
    w = generator.standard_normal((500, 7)).astype(np.float32)
    found = np.array(mx.array(x) @ mx.array(w)[:, :1])
    expected = x.astype(np.float64) @ w[:, :1]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
