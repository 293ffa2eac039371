"""What nests of groups share: reads at points, steps in order, and how many lanes loops take."""

from __future__ import annotations

from tests.compiler.lower.nests_of_calls import numbers
from tests.compiler.lower.test_fused import group_of

import ingot.core as mx
from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import Apply, Buffer, Load
from ingot.compiler.lower.group import GroupBuilder, Memory
from ingot.graph.dtype import float32


def builder_of(function: object, *args: mx.array) -> GroupBuilder:
    return GroupBuilder(*group_of(function, *args))


def test_elements_of_tiles_are_at_distances_from_their_corner() -> None:
    row, column = affine(Index()), affine(Index())
    tile = Buffer("tile", float32, (8, 8), (32, 4), None)
    memory = Memory(tile, (0, 1), (row * 8, column * 8))
    first, second = memory.index((row * 8 + 3, column * 8 + 1))
    assert isinstance(first, Affine)
    assert isinstance(second, Affine)
    assert (first.constant, second.constant) == (3, 1)
    assert not first.terms
    assert not second.terms


def square_and_more(x: mx.array) -> mx.array:
    e = mx.exp(x)
    return e * e + x


def test_steps_are_computed_once_and_in_order() -> None:
    builder = builder_of(square_and_more, numbers(40))
    with builder.parallel((40,)) as (i,):
        builder.compute(builder.group.steps, {}, (affine(i),))
    body = builder.nest.parallel[0].body
    assert [each.word for each in body if isinstance(each, Apply)] == ["exp", "multiply", "add"]
    assert len([each for each in body if isinstance(each, Load)]) == 1


def test_the_closure_of_a_step_is_what_it_needs() -> None:
    builder = builder_of(lambda x: (mx.exp(x) + 1, mx.sin(x)), numbers(40))
    names = {
        type(step.op).__name__: [
            type(each.op).__name__ for each in builder.closure([step], lambda _: False)
        ]
        for step in builder.group.outputs
    }
    assert "Exp" in names["Add"]
    assert "Sin" not in names["Add"]
    assert names["Sin"] == ["Sin"]


def test_positions_among_several_axes_are_split() -> None:
    builder = builder_of(lambda x: x.sum(axis=(0, 2)), numbers(4, 5, 6))
    with builder.parallel((24,)) as (number,):
        point = builder.at((affine(0),) * 3, (0, 2), affine(number))
    assert point[0].terms
    assert not point[1].terms
    assert point[2].terms
