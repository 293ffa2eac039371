"""Blocks that are transposed in registers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import run_nest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import CopyBlock
from ingot.graph import dtype as dtypes


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("side", [1, 2, 4, 8])
@pytest.mark.parametrize("backwards", [False, True])
def test_blocks_are_transposed(name: str, side: int, backwards: bool) -> None:
    dtype = getattr(dtypes, name)
    size = dtype.size
    b = NestBuilder()
    down = -size if backwards else size
    source = b.buffer("source", dtype, (8, 8), (down, 8 * size), 0)
    tile = b.stack("tile", dtype, (8, 8))
    out = b.buffer("out", dtype, (8, 8), (8 * size, size), 1)
    zero = affine(0)
    with b.parallel(()):
        b.body.append(CopyBlock(tile, (zero, zero), source, (zero, zero), (0, 1), side))
        with b.loop(0, side) as i, b.loop(0, side) as j:
            at = (affine(i), affine(j))
            b.store(b.load(tile, at), out, at)
    columns = np.arange(64).reshape(8, 8).astype(dtype.numpy)
    view = columns.T[::-1] if backwards else columns.T
    found = np.zeros((8, 8), dtype.numpy)
    run_nest(b.nest, [view, found])
    np.testing.assert_array_equal(found[:side, :side], view[:side, :side])
