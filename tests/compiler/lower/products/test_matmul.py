"""Products of matrices by loop nests, against NumPy in float64."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.support.campaigns import some
from tests.support.processes import has_one_output, require_passing
from tests.support.product_bounds import matrices, require_close

import ingot.core as mx
from ingot import _native
from ingot.compiler.lower.products.builder import ProductBuilder
from ingot.compiler.lower.products.register_tile import (
    dot_shape,
    has_many_registers,
    tile_shape,
    wide_shape,
)
from ingot.graph.dtype import float32, float64
from ingot.runtime.processor import vector_bytes

# rows, products in a sum, columns: all edges of tiles, each way, sums in several blocks
SIZES = [
    (8, 100, 48),
    (33, 65, 97),
    (40, 128, 64),
    (257, 129, 131),
    (1, 300, 500),
    (3, 300, 500),
    (30, 1300, 50),
    (130, 700, 520),
    (500, 300, 1),
    (700, 40, 10),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("stack", [(), (2, 3)])
def test_all_layouts(dtype: str, transposed: tuple[bool, bool], stack: tuple[int, ...]) -> None:
    def product(a: mx.array, b: mx.array) -> mx.array:
        left = a.swapaxes(-1, -2) if transposed[0] else a
        right = b.swapaxes(-1, -2) if transposed[1] else b
        return left @ right

    compiled = mx.compile(product)
    sizes = SIZES[:7] if stack or dtype.endswith("16") else SIZES
    for m, k, n in some(sizes, 2 if stack else 1):
        a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, n, stack))
        given = [
            mx.contiguous(x.swapaxes(-1, -2)) if is_transposed else x
            for x, is_transposed in zip((a, b), transposed, strict=True)
        ]
        found = compiled(*given)
        require_close(found, a, b)
        assert mx.array_equal(found, product(*given))  # uncompiled


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
def test_stacks_of_tiny_matrices(dtype: str, transposed: tuple[bool, bool]) -> None:
    def product(a: mx.array, b: mx.array) -> mx.array:
        left = a.swapaxes(-1, -2) if transposed[0] else a
        right = b.swapaxes(-1, -2) if transposed[1] else b
        return mx.maximum(left @ right, 0) + 1

    sizes = [(2, 2, 2), (3, 3, 3), (4, 4, 4), (1, 3, 3), (3, 3, 1), (5, 7, 9), (13, 2, 17)]
    for m, k, n in some(sizes, 3):
        for count in (40, 77):
            operands = matrices(m, k, n, (count,))
            a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in operands)
            given = [
                mx.contiguous(x.swapaxes(-1, -2)) if is_transposed else x
                for x, is_transposed in zip((a, b), transposed, strict=True)
            ]
            lying = [
                x.swapaxes(-1, -2) if is_transposed else x
                for x, is_transposed in zip(given, transposed, strict=True)
            ]
            require_close(lying[0] @ lying[1], a, b)
            assert mx.array_equal(mx.compile(product)(*given), product(*given))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", [(2, 1, 1), (9, 1, 3), (0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_long_stacks_of_outer_products_and_of_empty_matrices(
    dtype: str, sizes: tuple[int, int, int]
) -> None:
    m, k, n = sizes
    a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, n, (70,)))
    for function in (mx.matmul, mx.compile(mx.matmul), mx.compile(mx.matmul, shapeless=True)):
        found = function(a, b)
        assert found.shape == (70, m, n)
        require_close(found, a, b)


def test_operands_that_are_views() -> None:
    a, b = (mx.array(x) for x in matrices(120, 140, 160))
    for function in (
        lambda a, b: a[::2, ::3][:, :46] @ b[:46, ::2],
        lambda a, b: a[::-1, :100] @ b[40:, ::-1],
        lambda a, b: mx.broadcast_to(a[:1], (90, 140)) @ b,
        lambda a, b: a @ mx.broadcast_to(b[:, :1], (140, 70)),
        lambda a, b: a.reshape(10, 12, 140) @ b,
    ):
        found = mx.compile(function)(a, b)
        mx.set_product_engine("blas")
        wanted = np.array(function(a, b))
        mx.set_product_engine("ingot")
        np.testing.assert_allclose(np.array(found), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("k", [128, 129])
def test_left_operands_without_contiguous_rows(dtype: str, k: int) -> None:
    a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(150, k, 200))
    tall = mx.contiguous(a.T)
    wide = mx.contiguous(mx.repeat(a, 2, axis=1))
    high = mx.contiguous(mx.repeat(tall, 3, axis=1))
    for given, view in ((tall, lambda x: x.T), (wide, lambda x: x[:, ::2])):
        require_close(mx.compile(lambda x, y, view=view: view(x) @ y)(given, b), a, b)
    found = mx.compile(lambda x, y: x[:, ::3].T[::-1] @ y)(high, b)
    require_close(found, a[::-1], b)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stack", [(), (2,)])
def test_transposed_operands_give_few_columns(dtype: str, stack: tuple[int, ...]) -> None:
    for m, k, n in ((131, 130, 9), (20, 600, 16), (150, 77, 100)):
        a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, k, n, stack))
        given = [mx.contiguous(x.swapaxes(-1, -2)) for x in (a, b)]
        bias = mx.array(np.random.default_rng(0).normal(size=(m, n))).astype(a.dtype)

        def product(x: mx.array, y: mx.array) -> mx.array:
            return x.swapaxes(-1, -2) @ y.swapaxes(-1, -2)

        found = mx.compile(product)(*given)
        require_close(found, a, b)
        after = mx.compile(lambda x, y, z: (product(x, y) + z) * 2)(*given, bias)
        assert mx.array_equal(after, (found + bias) * 2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("m", [1, 2, 3, 12])
def test_few_rows_that_are_not_contiguous(dtype: str, m: int) -> None:
    a, b = (mx.array(x).astype(getattr(mx, dtype)) for x in matrices(m, 333, 150))
    right = mx.contiguous(b.T)
    for left, view in (
        (mx.repeat(a, 2, axis=1), lambda x: x[:, ::2]),
        (mx.contiguous(a.T), lambda x: x.T),
        (mx.repeat(a[::-1], 2, axis=0), lambda x: x[::-2]),
    ):
        found = mx.compile(lambda x, y, view=view: view(x) @ y.T)(left, right)
        require_close(found, a, b)


@pytest.mark.parametrize("k", [129, 1027, 1029])
def test_odd_sums_of_bfloat16_of_rows_in_place(k: int) -> None:
    a, b = (mx.array(x).astype(mx.bfloat16) for x in matrices(41, k, 70))
    wide = mx.concatenate([a, mx.full((41, 6), mx.nan, mx.bfloat16)], axis=1)
    require_close(mx.compile(lambda x, y: x[:, :k] @ y)(wide, b), a, b)
    found = mx.compile(lambda x, y: x @ y)(a, b)
    after = mx.compile(lambda x, y: mx.maximum(x @ y, 0))(a, b)
    assert mx.array_equal(after, mx.maximum(found, 0))


@pytest.mark.parametrize("transposed", [False, True])
def test_odd_sums_of_bfloat16_pair_their_last_element_with_zero(transposed: bool) -> None:
    a, b = (mx.array(x).astype(mx.bfloat16) for x in matrices(40, 129, 70))
    # what lies behind the last elements in memory must not get in
    a = mx.concatenate([a, mx.full((40, 5), mx.nan, mx.bfloat16)], axis=1)
    b = mx.concatenate([b, mx.full((5, 70), mx.nan, mx.bfloat16)], axis=0)
    given = [mx.contiguous(x.T) if transposed else x for x in (a, b)]

    def product(x: mx.array, y: mx.array) -> mx.array:
        return (x.T[:, :129] @ y.T[:129]) if transposed else (x[:, :129] @ y[:129])

    require_close(mx.compile(product)(*given), a[:, :129], b[:129])


@pytest.mark.parametrize("m", [2, 3, 6, 12])
def test_few_rows_times_rows_that_are_fetched_ahead(m: int) -> None:
    a, b = (mx.array(x) for x in matrices(m, 200, 1003))
    require_close(mx.compile(lambda x, y: x @ y)(a, b), a, b)


def test_what_is_not_finite_stays_where_it_is() -> None:
    a, b = matrices(50, 60, 70)
    a[3, 5], a[7, 0], b[2, 69] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    found = np.array(mx.compile(lambda x, y: x @ y)(mx.array(a), mx.array(b)))
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(np.isinf(found), np.isinf(expected))


def test_the_same_bits_with_any_number_of_threads() -> None:
    program = (
        "import numpy as np, ingot.core as mx, hashlib\n"
        "g = np.random.default_rng(0)\n"
        "found = b''\n"
        "for m, k, n in ((300, 700, 310), (5, 900, 1000), (64, 64, 64)):\n"
        "    a, b = (mx.array(g.standard_normal(s).astype('f')) for s in ((m, k), (k, n)))\n"
        "    found += bytes(np.array(a @ b))\n"
        "    found += bytes(np.array(mx.compile(lambda x, y: x @ y)(a, b)))\n"
        "print(hashlib.sha256(found).hexdigest())\n"
    )
    assert has_one_output(program)


@pytest.mark.parametrize("bits", ["256", "128"])
def test_narrower_vectors(bits: str) -> None:
    cases = ("stack0-transposed1-float32", "stack1-transposed0-bfloat16")
    chosen = [f"{__file__}::test_all_layouts[{case}]" for case in cases]
    require_passing(chosen, INGOT_VECTOR_BITS=bits)


def test_a_width_that_there_is_not() -> None:
    program = "import ingot.core as mx; mx.eval(mx.ones((99, 99)) @ mx.ones((99, 99)))"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "INGOT_VECTOR_BITS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "INGOT_VECTOR_BITS must be one of 128, 256, 512, got '300'." in found.stderr


def test_sizes_share_machine_code() -> None:
    compiled = mx.compile(lambda a, b: a @ b)
    mx.eval(compiled(mx.zeros((200, 130)), mx.zeros((130, 170))))
    before, _ = _native.code_in_memory()
    mx.eval(compiled(mx.zeros((231, 140)), mx.zeros((140, 173))))
    # With vectors of 16 bytes, these sizes need one more kernel.
    assert _native.code_in_memory()[0] <= before + (vector_bytes() == 16)


def test_tiles_fill_registers_and_waste_few_columns() -> None:
    lanes = vector_bytes() // 4
    shape = tile_shape(float32, 48 * lanes, 1000)
    assert shape.rows * shape.vectors >= (20 if vector_bytes() == 64 else 10)
    assert tile_shape(float32, lanes, 1000).vectors == 1
    assert tile_shape(float64, 1000, 3).rows == 3
    assert wide_shape(float32, 100 * lanes, 2).vectors > shape.vectors
    assert dot_shape(float32, 2, 1).vectors == 2
    few = (2, 3, 4, 5, 6, 7) if vector_bytes() == 64 else (2, 3, 4)
    assert all(rows % dot_shape(float32, 100, rows).rows == 0 for rows in (*few, 9))


def test_blas_is_chosen_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    original = ProductBuilder.__init__

    def noted(self: ProductBuilder, way: str, *arguments: Any) -> None:
        called.append(way)
        original(self, way, *arguments)

    monkeypatch.setattr(ProductBuilder, "__init__", noted)

    def ways(a: tuple[int, int], b: tuple[int, int], transpose: bool = False) -> list[str]:
        called.clear()
        mx.compile(lambda x, y: x @ (y.T if transpose else y)).explain(mx.zeros(a), mx.zeros(b))
        return list(called)

    assert ways((8, 8), (8, 8)) == []  # small
    assert ways((1, 500), (500, 500)) == ["streams"]
    assert ways((1, 500), (500, 500), transpose=True) == ["dots"]
    assert ways((30, 50), (500, 50), transpose=True) == ["panels"]  # short sums
    assert ways((31, 500), (500, 500)) == ["rows"]
    assert ways((31, 600), (600, 500)) == ["strips"]
    is_narrow = not has_many_registers()  # tiles of two vectors profit from panels earlier
    assert ways((100, 500), (500, 500)) == ["panels" if is_narrow else "rows"]
    assert ways((100, 600), (600, 500)) == ["panels" if is_narrow else "strips"]
    assert ways((600, 1000), (1000, 1000)) == ["panels"]
    assert ways((400, 256), (256, 300)) == ["panels" if is_narrow else "rows"]
    assert ways((600, 256), (256, 300)) == ["panels"]  # many rows
    assert ways((600, 256), (256, 30)) == ["rows"]  # a single panel
    assert ways((600, 1000), (1000, 1000), transpose=True) == ["panels"]


def _noted(monkeypatch: pytest.MonkeyPatch, attribute: str) -> list[Any]:
    """A list to which each product that is lowered adds an attribute of its builder."""
    found: list[Any] = []
    original = ProductBuilder.kernel

    def noted(self: ProductBuilder) -> Any:
        found.append(getattr(self, attribute))
        return original(self)

    monkeypatch.setattr(ProductBuilder, "kernel", noted)
    return found


def test_large_left_operands_are_packed_for_narrow_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Contiguous rows become one stream if many columns of tiles read them from beyond L2."""
    found = _noted(monkeypatch, "packed")
    width = 32 * tile_shape(float32, 10**4, 1000).columns
    for m, k, n in ((400, 400, width), (300, 400, width), (400, 400, width - 1)):
        a, b = (mx.array(x) for x in matrices(m, k, n))
        result = mx.compile(lambda x, y: x @ y)(a, b)
        exact = np.array(a, np.float64) @ np.array(b, np.float64)
        np.testing.assert_allclose(np.array(result), exact, rtol=1e-4, atol=1e-4)
    assert [each is not None for each in found] == [not has_many_registers(), False, False]


def test_threads_share_columns_of_few_blocks_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks of rows would leave a thread with the last, shorter one idle."""
    found = _noted(monkeypatch, "by_columns")
    for m, k, n in ((256, 784, 512), (32, 256, 1024), (300, 1000, 300), (2000, 64, 512)):
        mx.compile(lambda x, y: x @ y.T).explain(mx.zeros((m, k)), mx.zeros((n, k)))
    assert found == [True, True, True, False]


def test_blocks_of_rows_of_stacks_have_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _noted(monkeypatch, "by_blocks")
    for stack, m, k, n in (
        ((64,), 198, 256, 81),
        ((), 2000, 8, 700),  # not a stack
        ((64,), 198, 600, 81),  # the right operand takes too much of L2
        ((2,), 24, 100, 400),  # too few rows for all threads
        ((64,), 198, 256, 16),  # one column of tiles, whatever the width of vectors
    ):
        given = mx.zeros((*stack, m, k)), mx.zeros((*stack, k, n))
        mx.compile(lambda x, y: x @ y).explain(*given)
    assert found == [True, False, False, False, False]


def test_explanations_say_what_computes_a_product_and_why() -> None:
    def explained(left: mx.array, right: mx.array) -> str:
        return str(mx.compile(lambda x, y: x @ y).explain(left, right))

    assert "by BLAS: the product is small" in explained(mx.ones((4, 5)), mx.ones((5, 6)))
    wide = mx.ones((300, 300), mx.complex64)
    assert "packed panels" in explained(wide, wide)
    assert "by BLAS: it is a product of few rows of complex numbers" in explained(wide[:3], wide)
    assert "as streams" in explained(mx.ones((1, 300)), mx.ones((300, 300)))
    assert "the sum of chunks" in explained(mx.ones((2, 100_000)), mx.ones((100_000, 3)))


def test_set_product_engine() -> None:
    a, b = (mx.array(x) for x in matrices(100, 100, 100))
    function = mx.compile(lambda x, y: x @ y + 1)
    found = np.array(function(a, b))
    mx.set_product_engine("blas")
    try:
        explained = str(function.explain(a, b))
        other = np.array(function(a, b))
    finally:
        mx.set_product_engine("ingot")
    assert "BLAS" in explained
    np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match='name must be "ingot" or "blas", got \'mkl\''):
        mx.set_product_engine("mkl")
