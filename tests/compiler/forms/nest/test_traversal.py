"""Traversals of nests: all statements in order, and what is read and written."""

from __future__ import annotations

from tests.compiler.forms.nest.verifier.test_structure import Example, sound

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Load, Loop, Mask, Store
from ingot.compiler.forms.nest.traversal import is_in_vectors, statements, touched
from ingot.graph.dtype import float32


def test_statements_come_in_order_with_those_below() -> None:
    b = NestBuilder()
    x = b.buffer("x", float32, (4,), (4,), 0)
    with b.parallel((1,)):
        with b.loop(0, 4) as j:
            value = b.load(x, (affine(j),))
        b.store(value, x, (affine(0),))
    kinds = [type(each) for each in statements(b.nest.parallel[0].body)]
    assert kinds == [Loop, Load, Store]


def test_what_is_touched() -> None:
    b = Example()
    sound(b)
    reads, writes = touched(b.nest)
    assert {buffer.name for buffer in reads} == {"x", "lanes", "columns", "bits"}
    assert {buffer.name for buffer in writes} == {"y", "lanes", "tile"}


def test_bundles_are_found() -> None:
    for lanes in (1, 8):
        b = NestBuilder()
        x = b.buffer("x", float32, (64,), (4,), 0)
        with b.parallel((1,)), b.loop(0, 64, step=8) as j:
            at = (affine(j),)
            b.store(b.load(x, at) if lanes == 1 else b.load_lanes(x, at, lanes), x, at)
        assert is_in_vectors(b.nest) == (lanes > 1)
    example = Example()
    sound(example)
    masks = [each for each in statements(example.nest.parallel[0].body) if isinstance(each, Mask)]
    assert masks
    assert not is_in_vectors(example.nest)
