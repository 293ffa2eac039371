"""Graphs as pictures: the unevaluated part of a graph in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from string import ascii_uppercase
from typing import Any

from ingot._native import Node, array, topological
from ingot.graph.outputs import Output
from ingot.graph.tree import tree_leaves
from ingot.runtime.files.access import write_text

__all__ = ["export_to_dot"]


def export_to_dot(file: Any, *args: Any, **kwargs: array) -> None:
    """Export the graph of unevaluated arrays in the DOT language, to be drawn by Graphviz.

    Example:
        >>> x = mx.array(1)
        >>> mx.export_to_dot("graph.dot", x + 2, x=x)

    Args:
        file: A path, or an object with a method `write` that takes text.
        args: The arrays, or trees of them, whose graphs are drawn.
        kwargs: Names for arrays of the graph. Others are called A, B, C...
    """
    outputs = _arrays(tree_leaves(args))
    names = {
        value._node: name for name, value in zip(kwargs, _arrays(kwargs.values()), strict=True)
    }
    text = "".join(f"{line}\n" for line in _lines(outputs, names))
    write_text("export_to_dot", file, text)


def _arrays(leaves: Any) -> list[array]:
    found = list(leaves)
    for leaf in found:
        if not isinstance(leaf, array):
            raise ValueError(
                f"[export_to_dot] draws arrays and trees of arrays, got {type(leaf).__name__}."
            )
    return found


def _lines(outputs: list[array], names: dict[Node, str]) -> Iterator[str]:
    nodes = topological(outputs)
    finals = {output._node for output in outputs}
    letters = _letters()
    name_of = {node: names.get(node) or next(letters) for node in nodes if _is_array(node)}
    numbers = {node: number for number, node in enumerate(nodes)}
    yield "digraph {"
    for node in nodes:
        if _is_array(node):
            yield _array_line(node, name_of[node], node in finals)
        if node.op is None:
            continue
        if type(node.op) is Output:
            yield f"{numbers[node.inputs[0]]} -> {_quoted(name_of[node])}"
            continue
        yield f"{{ {numbers[node]} [label={_quoted(_op_label(node))}, shape=rectangle]; }}"
        for source in node.inputs:
            yield f"{_quoted(name_of[source])} -> {numbers[node]}"
        if _is_array(node):
            yield f"{numbers[node]} -> {_quoted(name_of[node])}"
    yield "}"


def _is_array(node: Node) -> bool:
    """Whether a node is one array: an op with several outputs has other nodes for them."""
    return not isinstance(node.dtype, tuple)


def _array_line(node: Node, name: str, is_output: bool) -> str:
    rank = "rank=source; " if node.op is None else "rank=sink; " if is_output else ""
    label = f"{name}\\n{node.dtype.name}{list(node.shape)}"
    return f"{{ {rank}{_quoted(name)} [label={_quoted(label)}]; }}"


def _op_label(node: Node) -> str:
    """The name of the op; for a compiled function followed by those of the ops in it."""
    program = getattr(node.op, "program", None)
    tape = getattr(program, "traced", None)
    steps = () if tape is None else tape.steps
    return type(node.op).__name__ + "".join(type(x.op).__name__ for x in steps if x.op is not None)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', r"\"") + '"'


def _letters() -> Iterator[str]:
    """A to Z, AA, AB and so on."""
    for length in count(1):
        for letters in product(ascii_uppercase, repeat=length):
            yield "".join(letters)
