"""Maps with transposed operands: read by way of tiles on the stack."""

from __future__ import annotations

import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers

import ingot.core as mx
from ingot.compiler.forms.nest.data import CopyBlock, Nest, Prefetch
from ingot.compiler.forms.nest.traversal import statements
from ingot.compiler.lower import tiles
from ingot.tuning import MIN_TRANSPOSED_AXIS, TRANSPOSE_TILE_WIDTH
from ingot.tuning_vectors import FAR_TRANSPOSE_TILE_WIDTH


def blocks(nest: Nest) -> list[int]:
    """The sides of the blocks that are copied."""
    found = (x for region in nest.parallel for x in statements(region.body))
    return [x.side for x in found if isinstance(x, CopyBlock)]


def test_transposed_operands_are_copied_in_blocks() -> None:
    (nest,) = nests_of(lambda x, y: x.T + y, numbers(64, 80), numbers(80, 64))
    assert [buffer.name for buffer in nest.buffers if buffer.argument is None] == ["tile0"]
    assert max(blocks(nest)) == 16


def test_remains_are_copied_one_by_one() -> None:
    (nest,) = nests_of(lambda x: x.T * 2, numbers(67, 35))
    assert sorted(set(blocks(nest))) == [1, 16]


def test_half_types_have_larger_blocks_and_doubles_smaller_ones() -> None:
    (half,) = nests_of(lambda x: x.T * 2, numbers(64, 64, dtype=mx.float16))
    (single,) = nests_of(lambda x: x.T * 2, numbers(64, 64))
    assert max(blocks(half)) >= max(blocks(single))
    (integers,) = nests_of(lambda x: x.T * 2, numbers(64, 64).astype(mx.int64))
    assert max(blocks(integers)) == 8


def test_short_axes_are_read_as_they_lie() -> None:
    (nest,) = nests_of(lambda x: x.T * 2, numbers(80, MIN_TRANSPOSED_AXIS - 1))
    assert blocks(nest) == []


@pytest.mark.parametrize("sizes", [(48 << 10, 0), (32 << 10, 0), (48 << 10, 1 << 20)])
def test_operands_in_memory_have_wider_tiles(
    sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If L1 has room for them. What is not read in tiles may be read backwards."""
    monkeypatch.setattr(tiles, "cache_sizes", lambda: sizes)
    x, y = numbers(140, 67), numbers(67, 140)
    (nest,) = nests_of(lambda x, y: mx.exp(x.T) + y[:, ::-1], x, y)
    (tile,) = (buffer for buffer in nest.buffers if buffer.argument is None)
    is_far = sizes == (48 << 10, 0)
    assert tile.shape[1] == (FAR_TRANSPOSE_TILE_WIDTH if is_far else TRANSPOSE_TILE_WIDTH)
    fetched = [x for x in statements(nest.parallel[0].body) if isinstance(x, Prefetch)]
    assert bool(fetched) == is_far
