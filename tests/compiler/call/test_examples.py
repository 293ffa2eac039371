"""Graphs that differ in numbers alone: their skeletons, and what is read off three of them."""

from __future__ import annotations

from typing import Any

import ingot.core as mx
from ingot.compiler.call.examples import generalised, skeleton
from ingot.compiler.passes.with_numbers import with_numbers


def graph(function: Any, *shape: int) -> tuple[list, list[int], list]:
    """The nodes of a graph without its leaves, which one is wanted, and the leaves."""
    x = mx.zeros(shape)
    mx.eval(x)
    found: dict = {}

    def visit(node: Any) -> None:
        if node not in found:
            for source in node.inputs:
                visit(source)
            found[node] = None

    visit(function(x)._node)
    nodes = [node for node in found if node.op is not None]
    return nodes, [len(nodes) - 1], [node for node in found if node.op is None]


def pad(x: mx.array) -> mx.array:
    return mx.exp(x).reshape(-1)[: x.shape[1]] * 2


def test_skeletons_are_equal_where_only_numbers_differ() -> None:
    (a, m), (b, n) = (skeleton(*graph(pad, *shape)) for shape in ((3, 4), (5, 6)))
    assert a == b
    assert m != n
    other, _ = skeleton(*graph(lambda x: mx.sin(x), 3, 4))
    assert other != a


def test_what_varies_is_read_off_examples() -> None:
    shapes = [(3, 4), (5, 4), (7, 4)]
    graphs = [graph(pad, *shape) for shape in shapes]
    examples = [skeleton(*each)[1] for each in graphs]
    dimensions_of, sizes, tape = generalised(examples, *graphs[-1])
    for shape in [(9, 4), (20, 4)]:
        values = dimensions_of(skeleton(*graph(pad, *shape))[1])
        assert values is not None
        assert with_numbers(tape, sizes, values).inputs[0].shape == shape
    assert dimensions_of(skeleton(*graph(pad, 9, 5))[1]) is None  # the 4 never varied
