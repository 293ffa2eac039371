"""Nests as text: every kind of statement, in words that explain shows."""

from __future__ import annotations

from tests.compiler.forms.nest.verifier.test_structure import Example, sound

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Carried, Constant
from ingot.compiler.forms.nest.text import nest_text
from ingot.graph.dtype import float32


def test_a_sum_of_rows() -> None:
    b = NestBuilder()
    x = b.buffer("x", float32, (3, 10), (40, 4), 0)
    sums = b.buffer("sums", float32, (3,), (4,), 1)
    with b.parallel((3,)) as (i,):
        total = Carried(float32, Constant(float32, 0))
        with b.loop(0, 10, carried=[total]) as j:
            value = b.load(x, (affine(i), affine(j)))
            total.update = b.words.add(total, b.words.multiply(value, value))
        b.store(total, sums, (affine(i),))
    assert nest_text(b.nest).splitlines() == [
        "kernel(x: float32[3, 10], sums: float32[3])",
        "  parallel i in 0..3",
        "    for j in 0..10",
        "      v1 = reduce add 0.0: x[i, j] * x[i, j]",
        "    sums[i] = v1",
    ]


def test_indices_are_not_called_like_symbols() -> None:
    b = NestBuilder()
    i, k = b.symbol("i"), b.symbol("k")
    x = b.buffer("x", float32, (i, k), (40, 4), 0)
    with b.parallel((i,)) as (row,), b.loop(0, k) as column:
        b.store(Constant(float32, 0), x, (affine(row), affine(column)))
    assert nest_text(b.nest).splitlines()[1:] == [
        "  parallel j in 0..i",
        "    for l in 0..k",
        "      x[j, l] = 0.0",
    ]


def test_every_kind_of_statement_has_words() -> None:
    b = Example()
    sound(b)
    text = nest_text(b.nest)
    for words in (
        "local lanes: float32[4]",
        "lanes",
        " < 2",
        "or else 0.0",
        "transposed from columns",
        "split(",
        "unless",
    ):
        assert words in text, f"{words!r} is not in\n{text}"


def test_strides_are_printed_unless_contiguous() -> None:
    b = NestBuilder()
    b.buffer("x", float32, (3, 5), (4, 12), 0)
    with b.parallel(()):
        pass
    assert "x: float32[3, 5] strides [4, 12]" in nest_text(b.nest)
