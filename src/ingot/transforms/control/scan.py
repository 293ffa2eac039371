"""`mx.scan`: a loop over the slices of arrays that carries values from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot._native import Node, array, between
from ingot.graph.dtype import is_inexact
from ingot.graph.outputs import apply_multiple
from ingot.graph.shape import shape_text
from ingot.transforms.control.body import body_of, like, spec_of
from ingot.transforms.control.hoisting import hoisted
from ingot.transforms.control.scan_op import ScanLoop
from ingot.transforms.control.traced import (
    States,
    Tree,
    as_carried,
    check_leaves,
    check_same,
    check_spec,
    flat,
    names_of,
    run,
    with_dtypes_of,
)
from ingot.transforms.tracing import check_callable

__all__ = ["scan"]


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """Calls `f` for one slice of `xs` after the other and carries a value from call to call.

    The same as this loop, except that `f` is traced once and the loop is native code, whose size
    does not grow with the number of steps:

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, mx.stack(ys)

    Args:
        f: A function `(carry, x) -> (carry, y)`. The carry keeps its structure, shapes and dtypes;
            `y` is a tree of arrays, or None.
        init: The first carry: an array, a number, or a tree of those.
        xs: An array or a tree of arrays, which are cut along their first axes; None for no slices.
        length: The number of steps; needed if `xs` holds no array.
        reverse: Whether to begin with the last slice; the ys stay in the order of the xs.
        unroll: Accepted for programs written for other libraries. It changes nothing: the native
            loop spends nanoseconds between steps.

    Returns:
        The last carry, and the ys stacked along a new first axis.

    Example:
        >>> mx.scan(lambda total, x: (total + x, total), 0, mx.arange(4))
        (array(6, dtype=int32), array([0, 0, 1, 3], dtype=int32))
    """
    check_callable("scan", f)
    check_leaves("scan", init, "init")
    if unroll < 1:
        raise ValueError(f"[scan] unroll must be at least 1, got {unroll}.")
    slices, x_tree = flat(xs)
    steps = _length(slices, names_of(xs, "xs"), length)
    carries, tree = flat(init)
    traced = _Traced(f, carries, tree, names_of(init, "carry"), slices, x_tree)
    carries, states = traced.carries, traced.states
    # What the body returns unchanged is loop-invariant rather than a carry.
    start = [*carries, *states.values]
    ends = list(start)
    moving: list[int] = []
    still: list[int] = []
    for number, (new, leaf) in enumerate(zip(traced.news, traced.carry_leaves, strict=True)):
        if traced.is_alone(number):
            ends[number] = _loop_alone(new, leaf, start[number], steps)
        else:
            (still if new._node is leaf else moving).append(number)
    outputs = [*(traced.news[number] for number in moving), *traced.ys]
    x_leaves, slices = hoisted(outputs, traced.carry_leaves, traced.x_leaves, slices, steps)
    body, captured = body_of(
        outputs,
        [
            *(traced.carry_leaves[number] for number in moving),
            *x_leaves,
            *(traced.carry_leaves[number] for number in still),
        ],
        getattr(f, "__name__", "body"),
        hoist=True,
    )
    op = ScanLoop(body, len(moving), len(slices), steps, reverse, min(unroll, max(steps, 1)))
    invariant = [start[number] for number in still]
    found = apply_multiple(
        op, *(start[number] for number in moving), *slices, *invariant, *captured
    )
    for number, end in zip(moving, found, strict=False):
        ends[number] = end
    states.assign(traced.end_states(steps) or ends[len(carries) :])
    return tree.filled(ends[: len(carries)]), traced.y_tree.filled(found[len(moving) :])


def _loop_alone(new: array, leaf: Node, start: array, steps: int) -> array:
    """The end of a carry that depends on nothing else, by a loop of its own."""
    body, captured = body_of([new], [leaf], "counter", hoist=True)
    return apply_multiple(ScanLoop(body, 1, 0, steps, False), start, *captured)[0]


class _Traced:
    """A traced body of a scan: its inputs and outputs."""

    def __init__(
        self,
        f: Callable[..., Any],
        carries: list[array],
        tree: Tree,
        names: list[str],
        slices: list[array],
        x_tree: Tree,
    ) -> None:
        self.states = States()
        self.carries = carries
        self.carry_leaves: list[Node] = []
        news = self._run(f, tree, slices, x_tree)
        cast = with_dtypes_of(news, carries, tree)
        if cast is not None:
            self.carries = cast
            news = self._run(f, tree, slices, x_tree)
        for name, carry, new in zip(names, self.carries, news, strict=True):
            check_spec("scan", name, carry, new)
        self.news = [*news, *self.states.updated()]
        self.carry_leaves = [*self.carry_leaves, *self.states.leaves]

    def is_alone(self, number: int) -> bool:
        """Whether a carry is an int that depends on no other, and no other on it, like the counter
        of a loop whose body does not read it. Its final value is rarely read, either.
        """
        new, leaf = self.news[number], self.carry_leaves[number]
        if new.shape != () or is_inexact(new.dtype) or new._node is leaf:
            return False
        others = [*self.news[:number], *self.news[number + 1 :], *self.ys]
        if between(others, [leaf]) or any(x._node is leaf for x in others):
            return False
        leaves = [*self.carry_leaves[:number], *self.carry_leaves[number + 1 :], *self.x_leaves]
        return bool(others) and not between([new], leaves) and new._node not in leaves

    def end_states(self, steps: int) -> tuple[array, ...]:
        """The implicit states after the loop, computed by a loop of their own if they depend on
        nothing else, so that vmap does not batch them. Empty otherwise.
        """
        count = len(self.carries)
        news, leaves = self.news[count:], self.carry_leaves[count:]
        if not news or between(news, [*self.carry_leaves[:count], *self.x_leaves]):
            return ()
        body, captured = body_of(news, leaves, "states", hoist=True)
        loop = ScanLoop(body, len(news), 0, steps, False)
        return apply_multiple(loop, *self.states.values, *captured)

    def _run(
        self, f: Callable[..., Any], tree: Tree, slices: list[array], x_tree: Tree
    ) -> list[array]:
        carries = like(list(map(spec_of, self.carries)))
        xs = like([(x.shape[1:], x.dtype) for x in slices])
        self.carry_leaves = [x._node for x in carries]
        self.x_leaves = [x._node for x in xs]
        self.states.updated()
        result = run("scan", f, (tree.filled(carries), x_tree.filled(xs)), self.states)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ValueError(
                f"[scan] the body must return the carry and y, got {type(result).__name__}: return "
                "a pair, with None for y if there is none."
            )
        news, new_tree = flat(result[0])
        check_same("the carry", tree, new_tree, "scan")
        self.ys, self.y_tree = flat(result[1])
        return as_carried(news, self.carries, new_tree)


def _length(slices: list[array], names: list[str], length: int | None) -> int:
    """The number of steps, checked to be the same for all slices and the argument."""
    steps = length
    who = "length"
    for x, name in zip(slices, names, strict=True):
        if x.ndim == 0:
            raise ValueError(f"[scan] {name} has no axis to cut it along: its shape is ().")
        if steps is not None and x.shape[0] != steps:
            raise ValueError(
                f"[scan] {name} of shape {shape_text(x.shape)} has {x.shape[0]} slices, but {who} "
                f"says {steps}: the number of steps must be one."
            )
        steps, who = x.shape[0], name
    if steps is None:
        raise ValueError("[scan] needs xs with an array in it, or length=.")
    if steps < 0:
        raise ValueError(f"[scan] length must not be negative, got {steps}.")
    return steps
