"""Reverse mode: cotangents of the inputs from cotangents of the outputs, and `mx.vjp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot._native import Node, array, dependents, wrap
from ingot.graph.dtype import is_inexact
from ingot.graph.op import Output, outputs_of
from ingot.graph.shape import shape_text
from ingot.ops.casting import astype
from ingot.ops.creation import zeros
from ingot.transforms.tracing import check_callable, run_on, tracing

__all__ = ["backward", "vjp"]


def backward(
    outputs: Sequence[array], cotangents: Sequence[array], leaves: Sequence[array]
) -> list[array]:
    """The cotangents of `leaves`: zeros where the outputs do not depend on one.

    Walks the nodes between leaves and outputs once, last to first, so the work for a value that is used n times
    grows with n.
    """
    order = dependents(outputs, leaves)
    needed: set[Node] = {leaf._node for leaf in leaves}
    needed.update(order)
    gathered: dict[Node, Any] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output._node in needed and is_inexact(output.dtype):
            _accumulate(gathered, output._node, cotangent)
    for node in reversed(order):
        cotangent = gathered.pop(node, None)
        if cotangent is None:
            continue
        op = node.op
        inputs = node.inputs
        if type(op) is Output:
            whole = inputs[0]
            parts = gathered.setdefault(whole, [None] * len(whole.shape))
            earlier = parts[op.index]
            parts[op.index] = cotangent if earlier is None else earlier + cotangent
            continue
        out = outputs_of(node) if op.several_outputs else wrap(node)
        shares = op.vjp(cotangent, out, *map(wrap, inputs))
        for source, share in zip(inputs, shares, strict=True):
            if share is None or source not in needed:
                continue
            _accumulate(gathered, source, share() if callable(share) else share)
    return [
        zeros(leaf.shape, leaf.dtype) if found is None else found
        for leaf, found in ((leaf, gathered.get(leaf._node)) for leaf in leaves)
    ]


def _accumulate(gathered: dict[Node, Any], node: Node, share: array) -> None:
    earlier = gathered.get(node)
    gathered[node] = share if earlier is None else earlier + share


def vjp(
    fun: Callable[..., Any], primals: Sequence[array], cotangents: Sequence[array]
) -> tuple[list[array], list[array]]:
    """The outputs of `fun` and the vector-Jacobian products with `cotangents`.

    Args:
        fun: A function of arrays that returns an array or a sequence of arrays.
        primals: Where the Jacobian is taken: one array for each argument.
        cotangents: What multiplies the Jacobian from the left: one array for each output, of its shape.

    Returns:
        The list of outputs and the list of products, one for each primal.
    """
    check_callable("vjp", fun)
    with tracing():
        leaves, outputs = run_on("vjp", fun, primals)
        return outputs, backward(outputs, matching("vjp", outputs, list(cotangents)), leaves)


def matching(name: str, outputs: Sequence[array], cotangents: Sequence[array]) -> list[array]:
    """The cotangents in the dtypes of the outputs, whose shapes they must have."""
    if len(outputs) != len(cotangents):
        raise ValueError(
            f"[{name}] the function returned {len(outputs)} arrays but {len(cotangents)} cotangents "
            "were given: there must be one for each."
        )
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output.shape != cotangent.shape:
            raise ValueError(
                f"[{name}] an output of shape {shape_text(output.shape)} cannot have a cotangent of "
                f"shape {shape_text(cotangent.shape)}."
            )
    return [
        astype(cotangent, output.dtype)
        for output, cotangent in zip(outputs, cotangents, strict=True)
    ]
