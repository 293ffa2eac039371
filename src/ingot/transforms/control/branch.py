"""`mx.cond` and `mx.switch`: call one of several functions, chosen by a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot._native import Node, array, wrap
from ingot.graph.dtype import bool_, int32, is_inexact
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.reporting.source import SourceRecorder
from ingot.graph.roles import Control
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import equal, where
from ingot.ops.elementwise.extremes import clip
from ingot.ops.shape.movement import broadcast_to, reshape
from ingot.transforms.control.body import (
    Body,
    Spec,
    body_of,
    built,
    inexact,
    like,
    of_inexact,
    spec_of,
)
from ingot.transforms.control.evaluation import nested_branch, program_of, run_body
from ingot.transforms.control.rewrites import tangent_body, vectorised
from ingot.transforms.control.traced import States, Tree, flat, names_of, run, structure_text
from ingot.transforms.tracing import check_callable, follow
from ingot.transforms.vjp import backward
from ingot.transforms.vmap import repeated

__all__ = ["Branch", "branched", "cond", "switch"]


@dataclass(frozen=True)
class Branch(Control):
    """The outputs of one of several bodies: the first input is its index, the rest its inputs."""

    several_outputs = True
    why_host = "it runs one of several programs"
    is_loop = False

    bodies: tuple[Body, ...]

    @property
    def title(self) -> str:
        return f"switch of {len(self.bodies)} branches"

    def programs(self) -> tuple[tuple[str, Any], ...]:
        return tuple(
            (f"branch {number}, {body.name}", program_of(body))
            for number, body in enumerate(self.bodies)
        )

    def infer(self, index: array, *inputs: array) -> tuple[Spec, ...]:
        return self.bodies[0].outputs

    def evaluate(self, index: Any, *inputs: Any) -> Any:
        return tuple(run_body(self.bodies[int(index)], inputs))

    def nested(self) -> Any:
        return nested_branch(self)

    def vjp(self, cotangents: Any, outs: Any, index: array, *inputs: array) -> tuple[Any, ...]:
        wanted = [x._node.tracer and is_inexact(x.dtype) for x in inputs]
        cotangents = of_inexact(cotangents)
        given = [x for x in cotangents if x is not None]

        def pulled_back(body: Body) -> Callable[..., list[array]]:
            def gradient(*xs: array) -> list[array]:
                taken = follow(list(xs[: len(inputs)]))
                incoming = iter(xs[len(inputs) :])
                seeds = [None if x is None else next(incoming) for x in cotangents]
                leaves = [x._node for x, want in zip(taken, wanted, strict=True) if want]
                return backward(body(*taken), seeds, leaves)

            return gradient

        name = f"gradient of {self.bodies[0].name}"
        functions = [pulled_back(body) for body in self.bodies]
        found = iter(branched(index, functions, [*inputs, *given], name) if any(wanted) else ())
        return (None, *(next(found) if want else None for want in wanted))

    def jvp(self, tangents: Any, outs: Any, index: array, *inputs: array) -> tuple[Any, ...]:
        varies = [
            tangent is not None and is_inexact(x.dtype)
            for tangent, x in zip(tangents[1:], inputs, strict=True)
        ]
        forced = inexact(self.bodies[0].outputs)
        count = len(self.bodies[0].outputs)
        made = [tangent_body(body, varies, forced) for body in self.bodies]
        doubled = [x for x, has in zip(tangents[1:], varies, strict=True) if has]
        found = _applied(
            index, [(body, captured) for body, captured, _ in made], [*inputs, *doubled]
        )
        remaining = iter(found[count:])
        return tuple([next(remaining) if has else None for has in forced])

    def vmap(
        self, size: int, batched: tuple[bool, ...], index: array, *inputs: array
    ) -> tuple[array, ...]:
        made = []
        for body in self.bodies:
            mapped, captured, given = vectorised(body, size, batched[1:])

            def whole(*xs: array, mapped: Body = mapped, given: list[bool] = given) -> list[array]:
                return [
                    x if has else repeated(size, x)
                    for x, has in zip(mapped(*xs), given, strict=True)
                ]

            bound, more = built(whole, mapped.inputs, body.name)
            made.append((bound, [*captured, *more]))
        if not batched[0]:
            return _applied(index, made, inputs)
        chosen: list[array] = []
        for number, (body, captured) in enumerate(made):
            found = body(*inputs, *captured)
            here = equal(index, number)
            chosen = found if not chosen else _selected(here, found, chosen)
        return tuple(chosen)


def _selected(here: array, news: Sequence[array], olds: Sequence[array]) -> list[array]:
    """Selects, for each example, the new values where `here` holds, else the old ones."""
    return [
        where(
            broadcast_to(reshape(here, (*here.shape, *(1 for _ in new.shape[1:]))), new.shape),
            new,
            old,
        )
        for new, old in zip(news, olds, strict=True)
    ]


def _applied(
    index: array, made: Sequence[tuple[Body, Sequence[array]]], inputs: Sequence[array]
) -> tuple[array, ...]:
    """Builds the choice among bodies with the same inputs, to which their captured arrays are
    added.
    """
    captured = [list(more) for _, more in made]
    arguments = [*inputs, *(x for more in captured for x in more)]
    specs = list(map(spec_of, arguments))
    bodies = []
    begin = len(inputs)
    for (body, _), more in zip(made, captured, strict=True):
        if len(arguments) > len(inputs):
            own, first = body, begin

            def taken(
                *xs: array, own: Body = own, first: int = first, count: int = len(more)
            ) -> list[array]:
                return own(*xs[: len(inputs)], *xs[first : first + count])

            body, _ = built(taken, specs, own.name)
        bodies.append(body)
        begin += len(more)
    return apply_multiple(Branch(tuple(bodies)), index, *arguments)


def branched(
    index: array,
    functions: Sequence[Callable[..., Sequence[array]]],
    inputs: Sequence[array],
    name: str,
) -> tuple[array, ...]:
    """Builds the choice among functions of the same arrays, for the rules of other ops."""
    specs = list(map(spec_of, inputs))
    return _applied(index, [built(function, specs, name) for function in functions], inputs)


def switch(index: int | array, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Calls one of several functions, chosen by an index.

    Outside and inside `compile` and the transforms only the chosen one is computed; under
    `vmap` over the index all are, and the results are selected.

    Args:
        index: The number of the branch: an int or an array of one int. Numbers out of range choose
            the first or the last.
        branches: Functions that return trees of the same structure, shapes and dtypes.
        operands: The arguments of each branch: arrays, numbers and trees of those.

    Returns:
        What the chosen function returns.

    Example:
        >>> mx.switch(1, [lambda x: x, lambda x: x * 10], mx.array(3))
        array(30, dtype=int32)
    """
    functions = list(branches)
    if not functions:
        raise ValueError("[switch] needs at least one branch.")
    number = index if isinstance(index, array) else array(index)
    if number.shape != () or is_inexact(number.dtype):
        raise ValueError(
            "[switch] the index must be an int or an array of one int, got "
            f"{number.dtype.name} of shape {shape_text(number.shape)}."
        )
    number = astype(number, int32) if number.dtype is bool_ else number
    number = astype(clip(number, 0, len(functions) - 1), int32)
    return _chosen("switch", number, functions, operands)


def cond(
    pred: bool | array,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
) -> Any:
    """Calls one of two functions, depending on a condition.

    Outside and inside `compile` and the transforms only the chosen one is computed; under
    `vmap` over the condition both are, and the results are selected.

    Args:
        pred: The condition: a bool or an array of one element, which holds if it is not zero.
        true_fun: Called if it holds.
        false_fun: Called if not; returns a tree of the same structure, shapes and dtypes.
        operands: The arguments of both: arrays, numbers and trees of those.

    Returns:
        What the chosen function returns.

    Example:
        >>> mx.cond(mx.array(2) > 1, lambda x: x + 1, lambda x: x - 1, mx.array(5))
        array(6, dtype=int32)
    """
    holds = pred if isinstance(pred, array) else array(bool(pred))
    if holds.shape != ():
        raise ValueError(
            "[cond] the condition must be a bool or an array of one element, got shape "
            f"{shape_text(holds.shape)}: choose element by element with mx.where."
        )
    number = astype(astype(holds, bool_), int32)
    return _chosen("cond", number, [false_fun, true_fun], operands)


def _chosen(
    name: str, index: array, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    for function in functions:
        check_callable(name, function)
    inputs, tree = flat(list(operands))
    states = States()
    traced = [_Traced(name, function, inputs, tree, states) for function in functions]
    first = traced[0]
    called = (
        ["false_fun", "true_fun"] if name == "cond" else [f"branch {n}" for n in range(len(traced))]
    )
    for other_name, other in zip(called[1:], traced[1:], strict=True):
        if first.tree.skeleton != other.tree.skeleton:
            raise ValueError(
                f"[{name}] all branches must return the same structure, but {called[0]} returns "
                f"{structure_text(first.tree)} and {other_name} {structure_text(other.tree)}."
            )
        _check_specs(name, (called[0], other_name), first, other)
    made = [each.body(states) for each in traced]
    found = _applied(index, made, [*inputs, *states.values])
    count = len(first.outputs)
    states.assign(found[count:])
    return first.tree.filled(found[:count])


class _Traced:
    """A traced branch: its results, and its updates of the implicit states that it read."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[array],
        tree: Tree,
        states: States,
    ) -> None:
        values = like(list(map(spec_of, inputs)))
        self.leaves: list[Node] = [x._node for x in values]
        self.name = getattr(function, "__name__", "branch")
        self.trace = SourceRecorder()
        result = run(name, function, tree.filled(values), states, self.trace)
        self.outputs, self.tree = flat(result)
        self.names = names_of(result, "the result")
        self.updated = states.updated()

    def body(self, states: States) -> tuple[Body, list[array]]:
        """The body, which returns all states that any branch reads."""
        unread = [wrap(node) for node in states.leaves[len(self.updated) :]]
        return body_of(
            [*self.outputs, *self.updated, *unread],
            [*self.leaves, *states.leaves],
            self.name,
            trace=self.trace,
        )


def _check_specs(name: str, called: tuple[str, str], first: _Traced, other: _Traced) -> None:
    """Raises ValueError unless two branches return arrays of the same shapes and dtypes."""
    for leaf, one, two in zip(first.names, first.outputs, other.outputs, strict=True):
        if spec_of(one) != spec_of(two):
            raise ValueError(
                f"[{name}] {leaf} is {one.dtype.name} of shape {shape_text(one.shape)} in "
                f"{called[0]} and {two.dtype.name} of shape {shape_text(two.shape)} in {called[1]}"
                ": all branches must return the same shapes and dtypes."
            )
