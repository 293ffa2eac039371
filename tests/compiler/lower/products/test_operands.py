"""Matrices in memory: strides of transposes, and of copies in scratch memory, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compiler.lower.products.operands import Matrices, Product, made_even
from ingot.graph.dtype import bfloat16, float32, uint32


def matrices(x: np.ndarray) -> Matrices:
    *stack, rows, columns = x.shape
    return Matrices(None, float32, tuple(stack), rows, columns, x.strides)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (2, 1, 7, 3)])
def test_transposes_and_copies(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    found = matrices(x)
    turned = found.transposed()
    assert turned == matrices(x.swapaxes(-1, -2))
    assert turned.nbytes == found.nbytes == x.nbytes
    assert (turned.row_stride, turned.column_stride) == (found.column_stride, found.row_stride)
    assert turned.converted(float32, 0).strides == np.ascontiguousarray(x.swapaxes(-1, -2)).strides
    padded = turned.padded(64)
    wide = np.zeros((*x.shape[:-2], x.shape[-1], made_even(x.shape[-2])), np.float32)
    assert (padded.strides, padded.offset) == (wide.strides, 64)


def test_pairs_of_bfloat16() -> None:
    x = Matrices(None, bfloat16, (), 3, 6, (12, 2))
    pairs = x.in_pairs()
    assert pairs is not None
    assert (pairs.dtype, pairs.columns, pairs.strides) == (uint32, 3, (12, 4))
    assert x._replace(columns=5).in_pairs() is None  # the last one has no partner
    assert x.transposed().in_pairs() is None  # they are not adjacent


def test_the_transpose_of_a_product() -> None:
    a, b = np.zeros((4, 2, 3), np.float32), np.zeros((4, 3, 5), np.float32)
    product = Product(matrices(a), matrices(b), matrices(a @ b), float32)
    assert (product.m, product.n, product.k, product.stack) == (2, 5, 3, (4,))
    transposed = product.transposed()
    assert (transposed.m, transposed.n, transposed.k) == (5, 2, 3)
    assert transposed.result == matrices((a @ b).swapaxes(-1, -2))
