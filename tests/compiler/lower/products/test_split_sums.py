"""Long sums of few results, cut into chunks, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.products.test_matmul import matrices, require_close
from tests.support.processes import has_one_output

import ingot.core as mx
from ingot.compiler.lower.products.operands import Matrices, Product
from ingot.compiler.lower.products.split_sums import split
from ingot.graph.dtype import float32
from ingot.tuning_products import MAX_SPLIT_RESULTS, MIN_SPLIT_LENGTH


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("transposed", ["", "left", "right", "left and right"])
def test_long_sums_of_few_results(dtype: str, transposed: str) -> None:
    for m, k, n in ((7, 2 * MIN_SPLIT_LENGTH, 9), (3, 2 * MIN_SPLIT_LENGTH + 5, 300)):
        a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, n))
        left = mx.contiguous(a.T).T if "left" in transposed else a
        right = mx.contiguous(b.T).T if "right" in transposed else b
        require_close(left @ right, a, b)


def test_chunks_and_stacks_have_kernels_of_their_own() -> None:
    """Chunks are a stack of products, but their results are in another argument."""
    for m, k, n in ((8, 100_000, 8), (16, 100_000, 16)):
        stacks = [mx.array(np.stack([x] * 3)) for x in matrices(m, 2048, n)]
        found = stacks[0] @ stacks[1]
        mx.eval(found)
        require_close(found[0], stacks[0][0], stacks[1][0])
        a, b = (mx.array(x) for x in matrices(m, k, n))
        require_close(a @ b, a, b)


def test_a_matrix_of_few_rows_times_a_vector() -> None:
    a, b = (mx.array(x) for x in matrices(5, 3 * MIN_SPLIT_LENGTH + 1, 1))
    require_close(a @ b, a, b)
    np.testing.assert_array_equal(np.array(a @ b[:, 0]), np.array(a @ b)[:, 0])


def test_long_vectors() -> None:
    for k in (2 * MIN_SPLIT_LENGTH, 5 * MIN_SPLIT_LENGTH + 3):
        a, b = (mx.array(x) for x in matrices(1, k, 1))
        require_close(a @ b, a, b)
        require_close((a[0] @ b[:, 0]).reshape(1, 1), a, b)
        strided = mx.contiguous(mx.concatenate([b, b], 1))[:, 1]
        require_close((a[0] @ strided).reshape(1, 1), a, b)
        both = mx.compile(lambda x, y: 2 * (x[0] @ y[:, 0]) + 1)(a, b)
        np.testing.assert_allclose(np.array(both), 2 * np.array(a @ b)[0, 0] + 1, rtol=1e-6)


def test_what_follows_is_computed_of_the_whole_sum() -> None:
    a, b = (mx.array(x) for x in matrices(6, 2 * MIN_SPLIT_LENGTH + 77, 10))
    compiled = mx.compile(lambda x, y: mx.maximum(x @ y, 0) - mx.arange(10))
    expected = np.maximum(np.array(a @ b), 0) - np.arange(10, dtype=np.float32)
    np.testing.assert_allclose(np.array(compiled(a, b)), expected, rtol=1e-6)


def test_chunks_cover_the_sums() -> None:
    def matrix(rows: int, columns: int) -> Matrices:
        return Matrices(None, float32, (), rows, columns, (4 * columns, 4))

    def product(m: int, k: int, n: int) -> Product:
        return Product(matrix(m, k), matrix(k, n), matrix(m, n), float32)

    for k in (2 * MIN_SPLIT_LENGTH, 2 * MIN_SPLIT_LENGTH + 1, 9 * MIN_SPLIT_LENGTH - 1):
        found = split(product(4, k, 6))
        assert found is not None
        lengths = [part.k * (part.stack[0] if part.stack else 1) for part in found.products]
        assert sum(lengths) == k
    assert split(product(4, 2 * MIN_SPLIT_LENGTH - 1, 6)) is None
    assert split(product(MAX_SPLIT_RESULTS, 2 * MIN_SPLIT_LENGTH, 2)) is None


def test_the_same_bits_with_any_number_of_threads() -> None:
    program = (
        "import numpy as np, ingot.core as mx\n"
        "g = np.random.default_rng(0)\n"
        "a, b = (g.standard_normal(s).astype('f') for s in ((3, 30000), (30000, 20)))\n"
        "print(bytes(np.array(mx.array(a) @ mx.array(b))).hex())\n"
    )
    assert has_one_output(program)
