"""The arena of symbolic plans: for every shape, blocks that never meet."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.plan.arena import ALIGNMENT
from ingot.compiler.plan.symbolic_arena import SymbolicArena

actions = st.lists(st.one_of(st.integers(0, 3), st.none()), min_size=1, max_size=12)


@given(actions, st.integers(1, 300), st.integers(1, 300))
def test_live_values_do_not_meet_for_other_shapes(taken: list[int | None], m: int, n: int) -> None:
    """A number takes one of four symbolic sizes; None gives the oldest value back."""
    sizes = Sizes()
    a, b = sizes.dimension(0, 40), sizes.dimension(1, 7)
    kinds = (a * 4, b * 8, a * b, a + b)
    values = (m * 4, n * 8, m * n, m + n)
    arena = SymbolicArena(sizes)
    live: list[tuple[object, int]] = []
    together: list[list[tuple[object, int]]] = []
    for kind in taken:
        if kind is None:
            if live:
                offset, size = live.pop(0)
                arena.give_back(offset, size)  # type: ignore[arg-type]
            continue
        live.append((arena.take(kinds[kind]), values[kind]))
        together.append(list(live))
    total = arena.size
    for moment in together:
        ranges = sorted((sizes.number(offset, [m, n]), nbytes) for offset, nbytes in moment)  # type: ignore[arg-type]
        for (first, length), (second, _) in pairwise(ranges):
            assert first + length <= second
        for first, length in ranges:
            assert first % ALIGNMENT == 0
            assert first + length <= sizes.number(total, [m, n])


def test_memory_is_used_again() -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 40)
    arena = SymbolicArena(sizes)
    first = arena.take(n * 4)
    arena.give_back(first, n * 4)
    assert arena.take(n * 8) is first
    assert sizes.number(arena.size, [100]) >= 800
