"""Products as dot products along vectors, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.product_bounds import matrices, require_close

import ingot.core as mx
from ingot.compiler.lower.products import dots


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("k", [330, 331])
@pytest.mark.parametrize("m", [1, 2, 5, 9, 13, 17])
def test_dots(m: int, k: int, dtype: str) -> None:
    a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, 601))
    given = mx.contiguous(b.T)
    require_close(mx.compile(lambda x, y: x @ y.T)(a, given), a, b)


@pytest.mark.parametrize("k", [1, 15, 17, 63, 65, 127, 129, 1023])
def test_ends_of_chains(k: int) -> None:
    for dtype in (mx.float32, mx.bfloat16):
        a, b = (mx.array(x).astype(dtype) for x in matrices(1, k, 40_000 // k + 777))
        given = mx.contiguous(b.T)
        require_close(mx.compile(lambda x, y: x @ y.T)(a, given), a, b)


def test_nothing_behind_the_last_element_of_an_odd_sum_is_read() -> None:
    a, b = (mx.array(x).astype(mx.bfloat16) for x in matrices(1, 129, 700))
    wide = mx.concatenate([b.T, mx.full((700, 5), mx.nan, mx.bfloat16)], axis=1)
    row = mx.concatenate([a, mx.full((1, 5), mx.nan, mx.bfloat16)], axis=1)
    mx.eval(wide, row)
    require_close(mx.compile(lambda x, y: x[:, :129] @ y[:, :129].T)(row, wide), a, b)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_one_row_is_summed_alike_column_by_column(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    random = np.random.default_rng(3)
    x = mx.array(random.normal(size=(1, 577)).astype(np.float32)).astype(getattr(mx, dtype))
    w = mx.array(random.normal(size=(501, 577)).astype(np.float32)).astype(getattr(mx, dtype))

    def loops() -> tuple[str, np.ndarray]:
        product = mx.compile(lambda x, w: x @ w.T)
        explained = product.explain(x, w)
        text = "".join(explained.loops(work) for work in explained.work if work.kernel is not None)
        return text, np.array(product(x, w).astype(mx.float32))

    text, found = loops()
    monkeypatch.setattr(dots, "MIN_ORDERED_MATRIX_BYTES", 1 << 30)
    other_text, expected = loops()
    assert text != other_text  # one column after the other, instead of all of a tile
    np.testing.assert_array_equal(found, expected)
    require_close(mx.array(found).astype(x.dtype), x, w.T)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_columns_are_rows_of_the_transposed_product(
    n: int, is_transposed: bool, dtype: str
) -> None:
    def product(a: mx.array, b: mx.array) -> mx.array:
        return a @ (b.swapaxes(-1, -2) if is_transposed else b)

    for m, k, stack in ((131, 331, ()), (40, 320, (3,))):
        a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, n, stack))
        given = mx.contiguous(b.swapaxes(-1, -2)) if is_transposed else b
        compiled = mx.compile(product)
        assert "sums along vectors" in str(compiled.explain(a, given))
        found = compiled(a, given)
        require_close(found, a, b)
        assert mx.array_equal(found, product(a, given))  # uncompiled
