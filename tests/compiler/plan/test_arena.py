"""The arena: memory that is given back is used again, and live pieces never meet."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from ingot.compiler.plan.arena import ALIGNMENT, Arena

actions = st.lists(st.one_of(st.integers(0, 5000), st.none()), max_size=60)


@given(actions)
@settings(max_examples=60, deadline=None)
def test_live_blocks_do_not_overlap(sizes: list[int | None]) -> None:
    """A number takes so many bytes; None gives the oldest piece back."""
    arena = Arena()
    live: list[tuple[int, int]] = []
    for nbytes in sizes:
        if nbytes is None:
            if live:
                arena.give_back(*live.pop(0))
            continue
        offset = arena.take(nbytes)
        assert offset % ALIGNMENT == 0
        assert offset + nbytes <= arena.size
        for begin, length in live:
            assert offset + max(nbytes, 1) <= begin or begin + max(length, 1) <= offset
        live.append((offset, nbytes))
    for piece in live:
        arena.give_back(*piece)
    size = arena.size
    if size:
        assert arena.take(size) == 0  # everything is one piece again
        assert arena.size == size


@given(actions)
@settings(max_examples=60, deadline=None)
def test_the_smallest_block_that_fits_is_taken(sizes: list[int | None]) -> None:
    arena = Arena()
    live: list[tuple[int, int]] = []
    for nbytes in sizes:
        if nbytes is None:
            if live:
                arena.give_back(*live.pop(0))
            continue
        gaps = _gaps(live, arena.size)
        wanted = _rounded(nbytes)
        fitting = [(end - begin, begin) for begin, end in gaps if end - begin >= wanted]
        offset = arena.take(nbytes)
        if fitting:
            assert offset == min(fitting)[1]
        live.append((offset, nbytes))


def _rounded(nbytes: int) -> int:
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)


def _gaps(live: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """The free ranges between blocks, each as long as can be."""
    gaps, end = [], 0
    for begin, nbytes in sorted(live):
        if begin > end:
            gaps.append((end, begin))
        end = begin + _rounded(nbytes)
    return [*gaps, (end, size)] if size > end else gaps
