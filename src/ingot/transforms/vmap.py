"""Vectorisation: `mx.vmap` runs a function written for one example on a batch of them.

The function is traced once on placeholders without the batch axis; then each node that depends on
these is rebuilt by its op's `vmap` rule, with the batch axis first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from ingot import _native
from ingot._native import (
    Node,
    array,
    between,
    leaves,
    placeholder,
    replace_leaves,
    wrap,
)
from ingot.graph.communication.order import calls_so_far, current_token, order, set_token
from ingot.graph.errors import type_name, value_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import Output
from ingot.graph.shape import shape_text
from ingot.graph.state import implicit_states
from ingot.ops.shape.movement import broadcast_to, expand_dims, moveaxis
from ingot.transforms.tracing import check_arrays, check_callable, named_after

__all__ = ["Batch", "batch", "current_batch", "repeated", "vmap"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Batch:
    """The state of a running vmap: leaves for one example, and their values for all, batch axis
    first.
    """

    size: int
    leaves: list[Node]
    values: list[array]


class _Running(threading.local):
    batches: tuple[Batch, ...] = ()


_running = _Running()


def current_batch() -> Batch:
    """The innermost running vmap, for rules that keep functions which may capture its leaves."""
    return _running.batches[-1]


def batch(outputs: Sequence[array], over: Batch) -> list[array | None]:
    """The outputs for all examples, batch axis first; None for those that all examples share."""
    known: dict[Node, Any] = dict(zip(over.leaves, over.values, strict=True))
    before = _running.batches
    _running.batches = (*before, over)
    line = _native.take_line_of(None)
    try:
        for node in between(outputs, over.leaves):
            op = node.op
            inputs = node.inputs
            if type(op) is Output:
                known[node] = known[inputs[0]][op.index]
                continue
            batched = tuple([source in known for source in inputs])
            values = [known[source] if source in known else wrap(source) for source in inputs]
            _native.take_line_of(node)  # keep the source line of the user's op
            known[node] = op.vmap(over.size, batched, *values)
    finally:
        _running.batches = before
        _native.take_line_of(line)
    return [known.get(output._node) for output in outputs]


def repeated(size: int, x: array) -> array:
    """`x` repeated for each example, batch axis first."""
    shape = (size, *x.shape)
    return broadcast_to(x, shape)


def vmap(fun: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]:
    """A function that applies `fun` to every example along an axis of its arguments.

    Args:
        fun: A function of arrays and trees of arrays.
        in_axes: The axis of the examples in each argument: an int for all, or a sequence with an
            entry for each argument; an entry is an int, None (the argument is the same for all
            examples) or a tree of those.
        out_axes: Where the axis of the examples goes in the results: an int for all, or a tree
            shaped like the results.

    Returns:
        The vectorised function.
    """
    check_callable("vmap", fun)
    call: Callable[..., Any] = fun
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if axes is None:
            raise TypeError(f"[vmap] {name} must be an int or a tree of ints and None, got None.")

    def vectorised(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(
                f"[vmap] keyword arguments cannot be mapped, got {list(kwargs)}: "
                "pass them by position."
            )
        inputs = leaves(args)
        axes = spread("in_axes", _axes_for_arguments(in_axes, args), args)
        over = Batch(_batch_size(inputs, axes), [], [])
        followed = [
            value if axis is None else _followed(value, axis % value.ndim, over)
            for value, axis in zip(inputs, axes, strict=True)
        ]
        calls = calls_so_far()
        with _native.tracing:
            with _unbatched_states(over):
                result = call(*replace_leaves(args, followed, False))
            outputs = leaves(result)
            check_arrays("vmap", "the results of the function", outputs, ValueError)
            batched = _batched(outputs, over, calls_so_far() > calls)
            placed = [
                _place_output(over.size, axis, output, found)
                for axis, output, found in zip(
                    spread("out_axes", _axes_for_results(out_axes, result), result),
                    outputs,
                    batched,
                    strict=True,
                )
            ]
        return replace_leaves(result, placed, False)

    return named_after(fun, vectorised)


def _batched(outputs: list[array], over: Batch, communicates: bool) -> list[array | None]:
    """The outputs for all examples. What is called later comes after their communication."""
    if not communicates:
        return batch(outputs, over)
    *batched, token = batch([*outputs, current_token()], over)
    if token is not None:
        set_token(token)
    return batched


@contextmanager
def _unbatched_states(over: Batch) -> Iterator[None]:
    """Raises ValueError, and restores the states, if an implicit state such as the random one comes
    to depend on the example: all examples share it.
    """
    before = [(state, list(state)) for state in implicit_states() if state is not order]
    yield
    for state, values in before:
        changed = [x for x in state if x._node.tracer]
        if changed and between(changed, over.leaves):
            state[:] = values
            raise ValueError(
                "[vmap] how many random numbers the function draws depends on the example, in a "
                "branch or a while loop: draw them outside of it."
            )


def _followed(value: array, axis: int, over: Batch) -> array:
    """A placeholder for one example of `value`, which is added to the batch."""
    leaf = placeholder(value.shape[:axis] + value.shape[axis + 1 :], value.dtype)
    over.leaves.append(leaf._node)
    over.values.append(wrap(value) if axis == 0 else moveaxis(value, axis, 0))
    return leaf


def _axes_for_arguments(in_axes: Any, args: tuple[Any, ...]) -> Any:
    """`in_axes` as a tree prefix of the tuple of arguments; a tree may be given for a single
    argument.
    """
    if isinstance(in_axes, (list, tuple)) and len(in_axes) == len(args):
        return tuple(in_axes)
    if isinstance(in_axes, (list, tuple, dict)) and len(args) == 1:
        return (in_axes,)
    return in_axes


def _axes_for_results(out_axes: Any, result: Any) -> Any:
    """The axes of the results; a tuple of one may stand for that of a single array."""
    if isinstance(out_axes, tuple) and len(out_axes) == 1 and isinstance(result, array):
        return out_axes[0]
    return out_axes


def spread(name: str, axes: Any, tree: Any) -> list[int | None]:
    """The axis of each leaf of `tree`; one axis in place of a subtree is for all of its leaves."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(leaves(tree))
    if isinstance(axes, dict) and isinstance(tree, dict) and axes.keys() == tree.keys():
        pairs = [(axes[key], tree[key]) for key in tree]
    elif (
        isinstance(axes, (list, tuple))
        and isinstance(tree, (list, tuple))
        and len(axes) == len(tree)
    ):
        pairs = list(zip(axes, tree, strict=True))
    elif isinstance(axes, (list, tuple, dict)):
        raise ValueError(
            f"[vmap] {name} {value_text(axes)} does not match the structure of the "
            f"{'arguments' if name == 'in_axes' else 'results'}, which have {_items(tree)} there. "
            "Give an axis or None for each, or one for all."
        )
    else:
        raise ValueError(
            f"[vmap] an axis must be an int or None, got {value_text(axes)} in {name}."
        )
    return [axis for prefix, subtree in pairs for axis in spread(name, prefix, subtree)]


def _items(tree: Any) -> str:
    if isinstance(tree, dict):
        return f"a dict of {', '.join(map(repr, tree))}"
    if isinstance(tree, (list, tuple)):
        return f"{len(tree)} item" + "s" * (len(tree) != 1)
    return f"a single {type_name(tree)}"


def _batch_size(inputs: list[Any], axes: list[int | None]) -> int:
    """The length of the mapped axes, which must exist and be equal."""
    size: int | None = None
    for value, axis in zip(inputs, axes, strict=True):
        if axis is None:
            continue
        if not isinstance(value, array):
            raise ValueError(
                f"[vmap] only arrays can be mapped, got {type(value).__name__}: {value!r}. "
                "Give it the axis None in in_axes."
            )
        if not -value.ndim <= axis < value.ndim:
            raise IndexError(
                f"[vmap] axis {axis} is out of range for an argument of shape "
                f"{shape_text(value.shape)}."
            )
        length = value.shape[axis]
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
                "[vmap] out_axes is None for a result that differs between the examples: "
                "give it an axis."
            )
        return wrap(traced)
    if not -traced.ndim - 1 <= axis <= traced.ndim:
        raise IndexError(
            f"[vmap] out_axes {axis} is out of range for a result of shape "
            f"{shape_text(traced.shape)}."
        )
    position = axis % (traced.ndim + 1)
    if batched is None:
        shape = traced.shape[:position] + (size,) + traced.shape[position:]
        return broadcast_to(expand_dims(traced, position), shape)
    return wrap(batched) if position == 0 else moveaxis(batched, 0, position)
