"""Reverse mode: cotangents of the inputs from cotangents of the outputs, and `mx.vjp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot import _native
from ingot._native import Node, array, replace_leaves
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.slice_sums import sum_of_slices
from ingot.ops.shape.slicing import SliceUpdate
from ingot.transforms.containers import run_on
from ingot.transforms.tracing import check_arrays, check_callable, check_indices

__all__ = ["backward", "vjp"]


def backward(
    outputs: Sequence[array], cotangents: list[array | None], leaves: Sequence[Node]
) -> list[array]:
    """The cotangents of `leaves`; zeros for those that the outputs do not depend on.

    Each node between leaves and outputs is visited once, in reverse topological order, so that the
    work for a value grows linearly with the number of its uses.
    """
    check_indices(outputs, leaves)
    found = _native.backward(outputs, cotangents, leaves)
    for number, (leaf, cotangent) in enumerate(zip(leaves, found, strict=True)):
        if cotangent is None:
            found[number] = zeros(leaf.shape, leaf.dtype)
    return found


def vjp(
    fun: Callable[..., Any], primals: Sequence[Any], cotangents: Sequence[array]
) -> tuple[list[array], list[Any]]:
    """The outputs of `fun` and the vector-Jacobian products with `cotangents`.

    Args:
        fun: A function of arrays and trees of arrays that returns an array or a sequence of arrays.
        primals: Where the Jacobian is taken: one array or tree of arrays for each argument.
        cotangents: What multiplies the Jacobian from the left: one array for each output, of its
            shape.

    Returns:
        The list of outputs and the list of products, one for each primal and shaped like it.
    """
    check_callable("vjp", fun)
    vectors = list(cotangents)
    check_arrays("vjp", "the cotangents", vectors, TypeError)
    with _native.tracing:
        followed, outputs = run_on("vjp", fun, primals)
        leaves = [node for primal in followed for node in primal.nodes]
        found = backward(outputs, _matching(outputs, vectors), leaves)
    return outputs, replace_leaves([primal.tree for primal in followed], found, True)


def _matching(outputs: list[array], cotangents: list[array]) -> list[array | None]:
    """The cotangents, with their shapes checked, in the dtypes of the outputs."""
    if len(outputs) != len(cotangents):
        raise ValueError(
            f"[vjp] the function returned {len(outputs)} arrays but {len(cotangents)} cotangents "
            "were given: there must be one for each."
        )
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if output.shape != cotangent.shape:
            raise ValueError(
                f"[vjp] an output of shape {shape_text(output.shape)} cannot have a cotangent of "
                f"shape {shape_text(cotangent.shape)}."
            )
    return [
        astype(cotangent, output.dtype)
        for output, cotangent in zip(outputs, cotangents, strict=True)
    ]


_native.set_callbacks(update_type=SliceUpdate, sum_of_slices=sum_of_slices)
