"""Sentences that name an op and the user's line."""

from __future__ import annotations

import inspect

import ingot.core as mx
from ingot.graph.errors import operation_text
from ingot.graph.reporting.source import Source


def _here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_every_node_knows_the_line_that_made_it() -> None:
    x, i = mx.ones((5, 2)), mx.array([1])
    made = [
        (_here(), x + 1),
        (_here(), mx.exp(x)),  # a function in C
        (_here(), mx.take(x, i, axis=0)),  # a function in Python, that calls others
        (_here(), x[i]),
        (_here(), x.sum(axis=0)),
        (_here(), mx.linalg.norm(x)),
        (_here(), next(x - y for y in [x])),
        (_here(), (lambda: x * x)()),
    ]
    for line, y in made:
        source = y._node.origin
        assert isinstance(source, Source)
        assert (source.filename, source.line) == (__file__, line)


def test_the_line_is_where_the_call_of_several_lines_is() -> None:
    line = _here()
    y = mx.add(
        mx.ones(3),
        2,
    )
    assert line < y._node.origin.line <= line + 4


def test_an_operation_in_words() -> None:
    x, i = mx.ones((5, 2)), mx.array([1])
    y = mx.take(x, i, axis=0)
    line = y._node.origin.line
    node = y._node
    assert operation_text(node.op, node.inputs, node.origin) == (
        f"Take(float32[5, 2], int32[1]), made at test_errors.py:{line}: y = mx.take(x, i, axis=0)"
    )
    assert operation_text("Sum", [x] * 6, None) == (
        "Sum(float32[5, 2], float32[5, 2], float32[5, 2], float32[5, 2], 2 more)"
    )


def test_a_line_whose_file_is_not_there_is_named_all_the_same() -> None:
    names: dict[str, object] = {"mx": mx}
    exec(compile("def f():\n    return mx.ones(2) + 1\ny = f()", "<cell 7>", "exec"), names)
    y = names["y"]
    assert isinstance(y, mx.array)
    assert y._node.origin == Source("<cell 7>", 2, "f")
    assert y._node.origin.quoted == "<cell 7>:2 in f"
