"""Rewrites of nests: sound, and the same results, in NumPy and as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.compiler.forms.nest.nest_runner import run_nest
from tests.compiler.forms.nest.random_nests import Case, any_nest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, Load, Loop, Nest
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.rewrites import (
    RewriteError,
    distribute,
    interchange,
    keep_in_registers,
    pack,
    tile,
    unroll,
    vectorise,
)
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.traversal import statements
from ingot.compiler.forms.nest.verify import NestError, verify
from ingot.graph.dtype import float32


def loops(nest: Nest) -> list[Loop]:
    return [x for region in nest.parallel for x in statements(region.body) if isinstance(x, Loop)]


def loads(loop: Loop) -> list[Load]:
    return [x for x in statements(loop.body) if isinstance(x, Load)]


def require_same(case: Case, rewritten: Nest) -> None:
    """The rewritten nest passes the verifier, and computes what the other one does."""
    verify(rewritten)
    expected, found, compiled = case.copies(), case.copies(), case.copies()
    interpret(case.nest, expected, case.symbols)
    interpret(rewritten, found, case.symbols)
    run_nest(rewritten, compiled, case.symbols)
    text = f"{nest_text(case.nest)}\nbecame\n{nest_text(rewritten)}"
    for a, b, c in zip(expected, found, compiled, strict=True):
        np.testing.assert_array_equal(a, b, text)
        np.testing.assert_array_equal(a, c, text)


class Product(NestBuilder):
    """z[i, j] += x[i, k] * y[k, j], as loops over i, k and j in one iteration."""

    def __init__(self, rows: int, inner: int, columns: int, order: str = "ikj") -> None:
        super().__init__()
        shapes = {"x": (rows, inner), "y": (inner, columns), "z": (rows, columns)}
        generator = np.random.default_rng(rows + 10 * inner + 100 * columns)
        arrays = [generator.integers(-9, 9, shape).astype(np.float32) for shape in shapes.values()]
        self.case = Case(self.nest, arrays)
        x, y, z = (
            self.buffer(name, float32, shape, (4 * shape[1], 4), number)
            for number, (name, shape) in enumerate(shapes.items())
        )
        self.z = z
        lengths = dict(zip("ikj", (rows, inner, columns), strict=True))
        with (
            self.parallel(()),
            self.loop(0, lengths[order[0]]) as first,
            self.loop(0, lengths[order[1]]) as second,
            self.loop(0, lengths[order[2]]) as third,
        ):
            at = dict(zip(order, map(affine, (first, second, third)), strict=True))
            i, j, k = at["i"], at["j"], at["k"]
            term = self.words.multiply(self.load(x, (i, k)), self.load(y, (k, j)))
            self.store(self.words.add(self.load(z, (i, j)), term), z, (i, j))


lengths = st.integers(1, 5)


@given(any_nest(), st.integers(1, 4), st.data())
def test_tile(case: Case, size: int, data: Any) -> None:
    chosen = [loop for loop in loops(case.nest) if loop.kind != "unroll" and loop.step == 1]
    assume(chosen)
    rewritten = tile(case.nest, data.draw(st.sampled_from(chosen)), size)
    assert len(loops(rewritten)) == len(loops(case.nest)) + 1
    require_same(case, rewritten)


@given(any_nest(), st.data())
def test_unroll(case: Case, data: Any) -> None:
    chosen = [x for x in loops(case.nest) if not any(b.terms for b in (x.begin, *x.ends))]
    assume(chosen)
    rewritten = unroll(case.nest, data.draw(st.sampled_from(chosen)))
    assert len(loops(rewritten)) < len(loops(case.nest))
    require_same(case, rewritten)


@given(lengths, lengths, st.integers(1, 4))
def test_distribute(rows: int, columns: int, size: int) -> None:
    builder = NestBuilder()
    x, y = (
        builder.buffer(name, float32, (rows, columns), (4 * columns, 4), number)
        for number, name in enumerate("xy")
    )
    with builder.parallel((rows,)) as (row,), builder.loop(0, columns, kind="vector") as column:
        at = (affine(row), affine(column))
        builder.store(builder.words.negative(builder.load(x, at)), y, at)
    values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    case = Case(builder.nest, [values, np.zeros_like(values)])
    rewritten = distribute(case.nest, loops(case.nest)[0], size)
    assert rewritten.parallel[0].lengths == (rows, -(-columns // size))
    require_same(case, rewritten)


@given(any_nest(), st.data())
def test_pack(case: Case, data: Any) -> None:
    found = []
    for loop in loops(case.nest):
        for load in loads(loop):
            try:
                found.append(pack(case.nest, loop, load))
            except RewriteError:
                continue
    assume(found)
    rewritten = data.draw(st.sampled_from(found))
    assert len(rewritten.buffers) == len(case.nest.buffers) + 1
    require_same(case, rewritten)


@given(lengths, lengths, lengths, st.permutations("ijk").map("".join))
def test_interchange(rows: int, inner: int, columns: int, order: str) -> None:
    product = Product(rows, inner, columns, order)
    outer, middle, _ = loops(product.nest)
    require_same(product.case, interchange(product.nest, middle))
    rewritten = interchange(product.nest, outer) if len(outer.body) == 1 else product.nest
    require_same(product.case, rewritten)


@given(lengths, lengths, lengths)
def test_a_product_by_register_tiles(rows: int, inner: int, columns: int) -> None:
    """What the rewrites are for: k innermost, with the sum in a register, j in vectors."""
    product = Product(rows, inner, columns, "ijk")
    kept = keep_in_registers(product.nest, loops(product.nest)[2], product.z)
    (total,) = loops(kept)[2].carried
    assert isinstance(total, Carried)
    require_same(product.case, kept)
    packed = pack(kept, loops(kept)[1], loads(loops(kept)[2])[1])
    require_same(product.case, packed)
    require_same(product.case, tile(packed, loops(packed)[0], 2))


@given(lengths, lengths, lengths, st.sampled_from((0, 1, 4)))
def test_vectorise(rows: int, inner: int, columns: int, lanes: int) -> None:
    product = Product(rows, inner, columns)
    rewritten = vectorise(product.nest, loops(product.nest)[2], lanes)
    assert [loop.kind for loop in loops(rewritten)] == ["for", "for", "vector"]
    require_same(product.case, rewritten)


def test_sums_are_not_vectorised() -> None:
    product = Product(2, 3, 4, "ijk")
    with pytest.raises(NestError, match="two iterations of a vector loop"):
        verify(vectorise(product.nest, loops(product.nest)[2]))


class Shift(NestBuilder):
    """x[i + 1, j] = x[i, j + 1]: no other order will do."""

    def __init__(self, diagonal: bool = True) -> None:
        super().__init__()
        self.x = self.buffer("x", float32, (5, 5), (20, 4), 0)
        with self.parallel(()), self.loop(0, 4) as i, self.loop(0, 4) as j:
            row, column = affine(i), affine(j)
            self.store(self.load(self.x, (row, column + int(diagonal))), self.x, (row + 1, column))


def refusals() -> dict[str, tuple[Callable[[], Any], str]]:
    product, shift = Product(2, 3, 4), Shift()
    outer, middle, innermost = loops(product.nest)
    foreign = Buffer("foreign", float32, (3,), (4,), 3)
    summing = NestBuilder()
    with summing.parallel(()):
        total = Carried(float32, Constant(float32, 0))
        with summing.loop(0, 3, carried=[total]):
            total.update = summing.words.add(total, total)
    (sum_loop,) = loops(summing.nest)
    return {
        "an order that shows": (
            lambda: interchange(shift.nest, loops(shift.nest)[0]),
            "may change their order",
        ),
        "no loop to swap with": (lambda: interchange(product.nest, innermost), "is not one loop"),
        "a loop among others": (lambda: distribute(product.nest, middle, 2), "not all that"),
        "iterations that depend": (lambda: distribute(summing.nest, sum_loop, 2), "depend"),
        "an element that varies": (
            lambda: keep_in_registers(product.nest, innermost, product.z),
            "the element varies",
        ),
        "no element": (
            lambda: keep_in_registers(product.nest, innermost, foreign),
            "not one read and one write",
        ),
        "two elements": (
            lambda: keep_in_registers(shift.nest, loops(shift.nest)[1], shift.x),
            "different elements",
        ),
        "what is written meanwhile": (
            lambda: pack(shift.nest, loops(shift.nest)[0], loads(loops(shift.nest)[0])[0]),
            "is written in the loop",
        ),
        "a load elsewhere": (
            lambda: pack(product.nest, outer, loads(loops(shift.nest)[0])[0]),
            "does not hold the load",
        ),
    }


@pytest.mark.parametrize("name", refusals())
def test_refusals(name: str) -> None:
    rewrite, problem = refusals()[name]
    with pytest.raises(RewriteError, match=problem):
        rewrite()
