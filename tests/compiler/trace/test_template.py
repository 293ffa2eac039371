"""Templates: trees without their arrays, and filled again."""

from __future__ import annotations

from collections import namedtuple

import ingot.core as mx
from ingot.compiler.trace.template import Template

Pair = namedtuple("Pair", "first second")


def test_trees_are_filled_again() -> None:
    a, b = mx.array(1.0), mx.array(2.0)
    tree = {"x": [a, 3, None], "y": Pair(b, "text")}
    template = Template.of(tree)
    other, another = mx.array(5.0), mx.array(6.0)
    found = template.filled([other, another])
    assert found["x"][0] is other
    assert found["x"][1:] == [3, None]
    assert isinstance(found["y"], Pair)
    assert found["y"].first is another
    assert found["y"].second == "text"
    assert 3 in template.constants


def test_one_array_is_itself() -> None:
    x = mx.array(1.0)
    template = Template.of(x)
    assert template.is_array
    assert template.filled([x]) is x
    assert not Template.of([x]).is_array


def test_lengths_are_filled_in_for_each_shape() -> None:
    compiled = mx.compile(lambda x: (x + 1, x.shape[0], {"n": x.shape[1] * 2}), shapeless=True)
    for shape in ((3, 4), (5, 2)):
        found, length, tree = compiled(mx.zeros(shape))
        assert found.shape == shape
        assert (length, tree) == (shape[0], {"n": 2 * shape[1]})
