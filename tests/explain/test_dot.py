"""Graphs in the DOT language."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import ingot.core as mx


def dot(*args: Any, **kwargs: Any) -> str:
    text = io.StringIO()
    mx.export_to_dot(text, *args, **kwargs)
    return text.getvalue()


def test_the_text() -> None:
    x, y = mx.array(1), mx.array([1, 2])
    assert dot(x + y, x=x).splitlines() == [
        "digraph {",
        '{ rank=source; "x" [label="x\\nint32[]"]; }',
        '{ "A" [label="A\\nint32[2]"]; }',
        '{ 1 [label="Broadcast", shape=rectangle]; }',
        '"x" -> 1',
        '1 -> "A"',
        '{ rank=source; "B" [label="B\\nint32[2]"]; }',
        '{ rank=sink; "C" [label="C\\nint32[2]"]; }',
        '{ 3 [label="Add", shape=rectangle]; }',
        '"A" -> 3',
        '"B" -> 3',
        '3 -> "C"',
        "}",
    ]


def test_files(tmp_path: Path) -> None:
    x = mx.array(1.0)
    for path in (tmp_path / "graph.dot", str(tmp_path / "other.dot")):
        mx.export_to_dot(path, mx.exp(x))
        assert 'label="Exp"' in Path(path).read_text()


def test_trees_several_outputs_and_evaluated_arrays() -> None:
    x = mx.array([3.0, 5.0])
    text = dot({"a": [mx.exp(x)], "b": mx.divmod(x, 2.0)})
    assert text.startswith("digraph {")
    assert text.count("rank=sink") == 3
    compiled = mx.compile(lambda x: (x + 1, x * 2))
    text = dot(compiled(x))
    assert text.count('label="Compiled') == 1
    assert text.count("rank=sink") == 2
    done = mx.exp(x)
    mx.eval(done)
    assert "Exp" not in dot(done)
    assert dot() == "digraph {\n}\n"


def test_many_names() -> None:
    x = mx.array(1.0)
    for _ in range(40):
        x = mx.sin(x)
    text = dot(x)
    assert '"AA"' in text
    assert '"Z" ->' in text


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.export_to_dot(3, mx.array(1))
    assert str(caught.value) == (
        "[export_to_dot] file must be a path or an object with a method `write`, got int."
    )
    with pytest.raises(ValueError, match=r"\[") as caught:
        dot(3)
    assert str(caught.value) == "[export_to_dot] draws arrays and trees of arrays, got int."
