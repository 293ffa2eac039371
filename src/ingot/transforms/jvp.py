"""Forward mode: tangents of the outputs from tangents of the inputs, and `mx.jvp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot import _native
from ingot._native import Node, array, between, replace_leaves, wrap
from ingot.graph.dtype import is_inexact
from ingot.graph.outputs import Output, outputs_of
from ingot.graph.roles import Pointwise
from ingot.graph.shape import shape_text
from ingot.graph.tree import tree_leaves
from ingot.ops.elementwise.casting import astype
from ingot.ops.shape.creation import zeros
from ingot.transforms.containers import run_on
from ingot.transforms.tracing import check_arrays, check_callable, check_indices

__all__ = ["forward", "jvp"]


def forward(
    outputs: Sequence[array], leaves: Sequence[Node], tangents: Sequence[array | None]
) -> list[array | None]:
    """The tangents of `outputs`; None for those that do not vary."""
    known = _known_tangents(outputs, leaves, tangents)
    return [known.get(output._node) for output in outputs]


def _known_tangents(
    outputs: Sequence[array], leaves: Sequence[Node], tangents: Sequence[array | None]
) -> dict[Node, Any]:
    """The tangents of the nodes between leaves and outputs; none of those that do not vary."""
    known: dict[Node, Any] = dict(zip(leaves, tangents, strict=True))
    tangent_of = known.get
    line = _native.take_line_of(None)
    try:
        for node in between(outputs, leaves):
            inputs = node.inputs
            incoming: tuple[Any, ...] = tuple([tangent_of(source) for source in inputs])
            if all(tangent is None for tangent in incoming):
                continue
            op = node.op
            if type(op) is Output:
                known[node] = incoming[0][op.index]
                continue
            out = outputs_of(node) if op.several_outputs else wrap(node)
            _native.take_line_of(node)
            known[node] = op.jvp(incoming, out, *map(wrap, inputs))
    finally:
        _native.take_line_of(line)
    return known


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[array], list[array]]:
    """The outputs of `fun` and the Jacobian-vector products with `tangents`.

    Args:
        fun: A function of arrays and trees of arrays that returns an array or a sequence of arrays.
        primals: Where the Jacobian is taken: one array or tree of arrays for each argument.
        tangents: What the Jacobian multiplies: for each primal a tree of the same structure, whose
            arrays have the same shapes.

    Returns:
        The list of outputs and the list of products, one for each output.
    """
    check_callable("jvp", fun)
    vectors = [vector for tangent in tangents for vector in tree_leaves(tangent)]
    check_arrays("jvp", "the tangents", vectors, TypeError)
    if len(primals) != len(tangents):
        raise ValueError(
            f"[jvp] {len(primals)} primals need as many tangents, but {len(tangents)} were given."
        )
    for primal, tangent in zip(primals, tangents, strict=True):
        _check_structure(primal, tangent)
    with _native.tracing:
        followed, outputs = run_on("jvp", fun, primals)
        leaves = [node for primal in followed for node in primal.nodes]
        check_indices(outputs, leaves)
        known = _known_tangents(outputs, leaves, _matching(leaves, vectors))
    return outputs, [
        _zeros_for(output, known) if tangent is None else wrap(tangent)
        for output in outputs
        for tangent in [known.get(output._node)]
    ]


def _zeros_for(output: array, known: dict[Node, Any]) -> array:
    """The tangent of an output that does not vary; of a comparison it has the dtype of the
    tangents of what is compared, as in MLX.
    """
    dtype, op = output.dtype, output._node.op
    if isinstance(op, Pointwise) and op.result == "bool":
        tangents = [known[node] for node in output._node.inputs if known.get(node) is not None]
        dtype = tangents[0].dtype if tangents else dtype
    return zeros(output.shape, dtype)


def _check_structure(primal: Any, tangent: Any) -> None:
    """Raises ValueError unless a tangent has the structure of its primal."""
    one, other = (replace_leaves(x, [None] * len(tree_leaves(x)), True) for x in (primal, tangent))
    if one != other:
        raise ValueError(
            f"[jvp] a primal with arrays like {one} cannot have a tangent with arrays like {other}."
        )


def _matching(leaves: list[Node], tangents: list[array]) -> list[array | None]:
    """The tangents, with their shapes checked. Those of floating-point numbers are in the dtypes of
    the leaves; those of integers may be fractions.
    """
    for leaf, tangent in zip(leaves, tangents, strict=True):
        if leaf.shape != tangent.shape:
            raise ValueError(
                f"[jvp] a primal of shape {shape_text(leaf.shape)} cannot have a tangent of "
                f"shape {shape_text(tangent.shape)}."
            )
    return [
        astype(tangent, leaf.dtype) if is_inexact(leaf.dtype) else tangent
        for leaf, tangent in zip(leaves, tangents, strict=True)
    ]
