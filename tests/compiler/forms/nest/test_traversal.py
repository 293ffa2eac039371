"""Traversals of nests: all statements in order, and what is read and written."""

from __future__ import annotations

from tests.compiler.forms.nest.verifier.test_structure import Example, sound

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Load, Loop, Store
from ingot.compiler.forms.nest.traversal import statements, touched
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
