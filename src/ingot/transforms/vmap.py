"""Vectorisation: `mx.vmap` runs a function written for one example on a batch of them.

The function is traced once on placeholders without the batch axis; then each node that depends on them is rebuilt by its
op's `vmap` rule with the batch axis first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot._native import Node, array, dependents, placeholder, wrap
from ingot.graph.op import Output
from ingot.graph.shape import shape_text
from ingot.graph.tree import tree_map
from ingot.ops.movement import broadcast_to, expand_dims, moveaxis
from ingot.transforms.tracing import check_callable, only_arrays, tracing

__all__ = ["batch", "vmap"]


def batch(
    size: int, outputs: Sequence[array], leaves: Sequence[array], values: Sequence[array]
) -> list[array | None]:
    """The outputs for all `size` examples, batch axis first, with `values` (batch axis first) in place of `leaves`.

    None where an output does not depend on the leaves.
    """
    known: dict[Node, Any] = {leaf._node: value for leaf, value in zip(leaves, values, strict=True)}
    for node in dependents(outputs, leaves):
        op = node.op
        inputs = node.inputs
        if type(op) is Output:
            known[node] = known[inputs[0]][op.index]
            continue
        batched = tuple(source in known for source in inputs)
        values_here = (known[source] if source in known else wrap(source) for source in inputs)
        known[node] = op.vmap(size, batched, *values_here)
    return [known.get(output._node) for output in outputs]


def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function that applies `fun` to every example along an axis of its arguments.

    Args:
        fun: A function of arrays and trees of arrays.
        in_axes: The axis of the examples in each argument: an int for all, or a sequence with an entry for each argument; an
            entry is an int, None (the argument is the same for all examples) or a tree of those.
        out_axes: Where the axis of the examples goes in the results: an int for all, or a tree shaped like the results.

    Returns:
        The vectorised function.
    """
    check_callable("vmap", fun)
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if axes is None:
            raise TypeError(f"[vmap] {name} is an int or a tree of ints and None, got None.")

    def vectorised(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(
                f"[vmap] keyword arguments cannot be mapped, got {list(kwargs)}: pass them by position."
            )
        per_argument = _axes_for_arguments(in_axes, args)
        axes = _spread("in_axes", per_argument, args)
        inputs = _mapped_leaves(args, axes)
        size = _batch_size(inputs, axes)
        leaves: list[array] = []
        values: list[array] = []

        def placed(axis: int | None, value: Any) -> Any:
            if axis is None:
                return value
            position = axis % value.ndim
            leaf = placeholder(value.shape[:position] + value.shape[position + 1 :], value.dtype)
            leaves.append(leaf)
            values.append(moveaxis(value, position, 0))
            return leaf

        with tracing():
            counter = iter(axes)
            result = fun(*tree_map(lambda value: placed(next(counter), value), args))
            outputs = only_arrays("vmap", "the results of the function", result)
            rebuilt = iter(
                zip(
                    _spread("out_axes", out_axes, result),
                    outputs,
                    batch(size, outputs, leaves, values),
                    strict=True,
                )
            )
        return tree_map(lambda _: _place_output(size, *next(rebuilt)), result)

    return vectorised


def _axes_for_arguments(in_axes: Any, args: tuple[Any, ...]) -> Any:
    """`in_axes` as a prefix of the tuple of arguments: a tree may stand for the only argument."""
    if isinstance(in_axes, (list, tuple)) and len(in_axes) == len(args):
        return tuple(in_axes)
    if isinstance(in_axes, (list, tuple, dict)) and len(args) == 1:
        return (in_axes,)
    return in_axes


def _spread(name: str, axes: Any, tree: Any) -> list[int | None]:
    """One axis for each leaf of `tree`, of which `axes` is a prefix: an axis above a subtree holds for all its leaves."""
    if axes is None or isinstance(axes, int):
        leaves: list[int | None] = []
        tree_map(lambda _: leaves.append(axes), tree)
        return leaves
    if isinstance(axes, dict) and isinstance(tree, dict) and axes.keys() == tree.keys():
        pairs = [(axes[key], tree[key]) for key in tree]
    elif (
        isinstance(axes, (list, tuple))
        and isinstance(tree, (list, tuple))
        and len(axes) == len(tree)
    ):
        pairs = list(zip(axes, tree, strict=True))
    elif isinstance(axes, (list, tuple, dict)):
        raise ValueError(f"[vmap] {name} {axes!r} does not match the structure of what it is for.")
    else:
        raise ValueError(f"[vmap] an axis is an int or None, got {axes!r} in {name}.")
    return [axis for part, subtree in pairs for axis in _spread(name, part, subtree)]


def _mapped_leaves(args: tuple[Any, ...], axes: list[int | None]) -> list[Any]:
    leaves: list[Any] = []
    tree_map(leaves.append, args)
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        if not isinstance(leaf, array):
            raise ValueError(
                f"[vmap] only arrays can be mapped, got {type(leaf).__name__}: {leaf!r}. "
                "Give it the axis None in in_axes."
            )
        if not -leaf.ndim <= axis < leaf.ndim:
            raise IndexError(
                f"[vmap] axis {axis} is out of range for an argument of shape {shape_text(leaf.shape)}."
            )
    return leaves


def _batch_size(leaves: list[Any], axes: list[int | None]) -> int:
    size: int | None = None
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        length = leaf.shape[axis]
        if size is not None and size != length:
            raise ValueError(f"[vmap] the mapped axes differ in length: {size} and {length}.")
        size = length
    if size is None:
        raise ValueError("[vmap] no argument is mapped: give at least one an axis in in_axes.")
    return size


def _place_output(size: int, axis: int | None, traced: array, batched: array | None) -> array:
    if axis is None:
        if batched is not None:
            raise ValueError(
                "[vmap] out_axes is None for a result that differs between the examples: give it an axis."
            )
        return traced
    if not -traced.ndim - 1 <= axis <= traced.ndim:
        raise IndexError(
            f"[vmap] out_axes {axis} is out of range for a result of shape {shape_text(traced.shape)}."
        )
    position = axis % (traced.ndim + 1)
    if batched is None:
        shape = traced.shape[:position] + (size,) + traced.shape[position:]
        return broadcast_to(expand_dims(traced, position), shape)
    return moveaxis(batched, 0, position)
