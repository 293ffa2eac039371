"""Bundles: elements side by side, in memory and in registers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import run_nest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import verify
from ingot.graph import dtype as dtypes

LANES = 8
NAMES = ["float32", "float64", "int32", "uint8", "float16", "bfloat16", "bool_", "complex64"]


def arrays_for(dtype: dtypes.Dtype) -> list[np.ndarray]:
    generator = np.random.default_rng(4)
    x = generator.integers(0, 2 if dtype is dtypes.bool_ else 20, (3, LANES)).astype(dtype.numpy)
    return [x, np.zeros((3, 1), dtype.numpy)]


@pytest.mark.parametrize("name", NAMES)
def test_lanes_are_filled_and_folded(name: str) -> None:
    """Sums of rows: a bundle is filled lane by lane, and its halves are added."""
    dtype = getattr(dtypes, name)
    b = NestBuilder()
    x = b.buffer("x", dtype, (3, LANES), (LANES * dtype.size, dtype.size), 0)
    y = b.buffer("y", dtype, (3, 1), (dtype.size, dtype.size), 1)
    lanes = b.stack("lanes", dtype, (LANES,))
    with b.parallel((3,)) as (i,):
        with b.loop(0, LANES, kind="lanes") as lane:
            b.store(b.load(x, (affine(i), affine(lane))), lanes, (affine(lane),))
        value = b.bundle(lanes)
        count = LANES
        found = value
        while count > 1:
            count //= 2
            low, high = (b.some_lanes(found, first, count) for first in (0, count))
            found = b.words.add(low, high)  # type: ignore[assignment]
        b.store(found, y, (affine(i), affine(0)))
    expected, compiled = arrays_for(dtype), arrays_for(dtype)
    interpret(b.nest, expected)
    run_nest(b.nest, compiled)
    np.testing.assert_array_equal(expected[1], compiled[1])
    assert expected[1].astype(np.complex128).any()


@pytest.mark.parametrize("there", range(1, LANES + 1))
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_a_store_leaves_what_is_behind_its_limit(name: str, there: int) -> None:
    dtype = getattr(dtypes, name)
    b = NestBuilder()
    source = b.buffer("a", dtypes.float32, (LANES,), (4,), 0)
    target = b.buffer("c", dtype, (2 * LANES,), (dtype.size,), 1)
    with b.parallel((1,)) as (_,):
        found = b.load_lanes(source, (affine(0),), LANES)
        b.store(b.words.cast(found, dtype), target, (affine(0),), limit=there)
    given = np.arange(1, LANES + 1, dtype=np.float32)
    expected = np.full((2 * LANES,), 77).astype(dtype.numpy)
    result = expected.copy()
    expected[:there] = given[:there].astype(dtype.numpy)
    run_nest(b.nest, [given, result])
    np.testing.assert_array_equal(result, expected)


def test_every_third_lane_and_what_is_fetched_ahead() -> None:
    b = NestBuilder()
    source = b.buffer("a", dtypes.uint32, (3 * LANES,), (4,), 0)
    target = b.buffer("c", dtypes.uint32, (3, LANES), (4 * LANES, 4), 1)
    with b.parallel((1,)) as (_,):
        found = b.load_lanes(source, (affine(0),), 3 * LANES, ahead=1 << 20)
        for first in range(3):
            some = b.some_lanes(found, first, LANES, stride=3)
            b.store(some, target, (affine(first), affine(0)))
    verify(b.nest)
    text = nest_text(b.nest)
    assert "ahead 1048576" in text
    assert "[1..23 by 3]" in text
    given = np.arange(3 * LANES, dtype=np.uint32)
    for run in (run_nest, interpret):
        result = np.zeros((3, LANES), np.uint32)
        run(b.nest, [given, result])
        np.testing.assert_array_equal(result, given.reshape(LANES, 3).T)
