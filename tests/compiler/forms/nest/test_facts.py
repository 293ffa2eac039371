"""What the verifier reads off the parts of nests."""

from __future__ import annotations

from ingot.compiler.forms.affine import Index, Symbol, affine
from ingot.compiler.forms.nest.data import Apply, Buffer, Carried, Constant, Lanes, Splat
from ingot.compiler.forms.nest.facts import axis_keys, depends, extent_keys, is_bare, moved
from ingot.graph.dtype import float32, int64

ZERO = Constant(float32, 0)


def test_bare_indices_are_one_variable() -> None:
    index = Index()
    assert is_bare(affine(index))
    assert not is_bare(affine(index) + 1)
    assert not is_bare(affine(index) * 2)
    assert not is_bare(affine(3))
    assert not is_bare(Constant(int64, 0))


def test_keys_are_of_lengths() -> None:
    n = Symbol("n")
    x = Buffer("x", float32, (n, 3), (12, 4), 0)
    assert axis_keys(x, (1, 0)) == extent_keys((3, n))
    assert extent_keys((n,)) != extent_keys((Symbol("n"),))


def test_indices_move_along_some_axes() -> None:
    index, value = affine(Index()), Constant(int64, 1)
    first, second, third = moved((index, index, value), {1: 3, 2: 5})
    assert first is index
    assert second.key() == (index + 3).key()
    assert third is value


def test_dependence_goes_through_words_lanes_and_loops() -> None:
    total = Carried(float32, ZERO)
    term = Apply(float32, "negative", (ZERO,))
    total.update = Apply(float32, "add", (total, term))
    assert depends(total.update, total)
    assert depends(total, term)
    assert depends(Lanes(float32, (Splat(float32, term, 4),), (0,)), ZERO)
    assert not depends(term, total)
