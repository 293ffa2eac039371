"""Which symbols a nest uses."""

from __future__ import annotations

from ingot.compiler.forms.affine import Symbol, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.symbols import used_symbols
from ingot.compiler.forms.sizes import Sizes
from ingot.graph.dtype import float32, int64


def test_symbols_are_found_wherever_they_are() -> None:
    b = NestBuilder()
    names = "shape stride length end position bound".split()
    shape, stride, length, end, position, bound = symbols = [Symbol(name) for name in names]
    x = b.buffer("x", float32, (shape,), (stride,), 0)
    with b.parallel((length,)), b.loop(0, end):
        b.apply(b.words.negative(b.position(affine(position), int64)))
        at = b.checked(b.words.negative(b.position(affine(0), int64)), bound)
        b.load(x, (at,))
    assert set(used_symbols(b.nest)) == set(symbols)


def test_others_are_left_out() -> None:
    b = NestBuilder()
    b.symbol("unused")
    x = b.buffer("x", float32, (3,), (4,), 0)
    with b.parallel((3,)) as (i,):
        b.load(x, (affine(i),))
    assert used_symbols(b.nest) == []


def test_products_with_strides_are_symbols_too() -> None:
    """The address of x[n - 1] is a product of two sizes."""
    b = NestBuilder()
    sizes = Sizes()
    n, m = sizes.dimension(0, 5), sizes.dimension(1, 3)
    x = b.buffer("x", float32, (n,), (m * 4,), 0)
    with b.parallel(()):
        b.load(x, (affine(n) - 1,))
    names = {symbol.size.key for symbol in used_symbols(b.nest) if symbol.size is not None}
    assert {n.key, m.key, (n * m).key} <= names
