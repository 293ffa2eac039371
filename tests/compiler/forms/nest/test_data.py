"""The parts of nests: layouts of buffers, and how many lanes values have."""

from __future__ import annotations

from ingot.compiler.forms.affine import Symbol, affine
from ingot.compiler.forms.nest.data import (
    Apply,
    Buffer,
    Bundle,
    Carried,
    Constant,
    Load,
    Nest,
    Repeated,
    Splat,
)
from ingot.graph.dtype import float32


def test_packed_buffers_have_rows_one_after_the_other() -> None:
    assert Buffer("x", float32, (2, 3), (12, 4), 0).packed()
    assert Buffer("x", float32, (), (), 0).packed()
    assert not Buffer("x", float32, (2, 3), (16, 4), 0).packed()
    assert not Buffer("x", float32, (2, 3), (4, 8), 0).packed()
    assert not Buffer("x", float32, (Symbol("n"),), (4,), 0).packed()


def test_lanes_follow_from_operands() -> None:
    x = Buffer("x", float32, (8,), (4,), 0)
    zero = Constant(float32, 0)
    element, bundle = Load(float32, x, (affine(0),)), Load(float32, x, (affine(0),), 8)
    assert element.lanes == zero.lanes == 1
    assert Apply(float32, "negative", (bundle,)).lanes == 8
    assert Carried(float32, Repeated(float32, zero, 4)).lanes == 4
    assert Splat(float32, element, 16).lanes == 16
    assert Bundle(float32, Buffer("lanes", float32, (6,), (4,), None)).lanes == 6


def test_arguments_are_counted_by_their_numbers() -> None:
    nest = Nest()
    assert nest.arguments == 0
    nest.buffers = [
        Buffer("x", float32, (), (), 1),
        Buffer("y", float32, (), (), 1, 4),
        Buffer("tile", float32, (), (), None),
    ]
    assert nest.arguments == 2
