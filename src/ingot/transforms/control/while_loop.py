"""`mx.while_loop`: a loop that runs as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot._native import array
from ingot.graph.dtype import bool_, int32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Control
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.reduce.reduction import any as any_of
from ingot.ops.shape.creation import ones
from ingot.ops.shape.movement import broadcast_to, reshape
from ingot.transforms.control.body import (
    Body,
    Spec,
    body_of,
    built,
    like,
    redirected,
    spec_of,
)
from ingot.transforms.control.branch import branched
from ingot.transforms.control.evaluation import nested_while, program_of, run_while
from ingot.transforms.control.rewrites import loop_tangents, vectorised
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
from ingot.transforms.vmap import repeated

__all__ = ["While", "while_loop"]


@dataclass(frozen=True)
class While(Control):
    """The carries of a loop when its condition no longer holds.

    Inputs are the initial carries and all that condition and body read in every step; both take all
    of them. `step` is the body with a further output: whether the condition holds after it.
    """

    several_outputs = True
    why_host = "it is a loop, which runs its body as a program"

    condition: Body
    body: Body
    step: Body
    carries: int
    max_steps: int | None

    @property
    def title(self) -> str:
        return f"while loop of {self.body.name}"

    def programs(self) -> tuple[tuple[str, Any], ...]:
        most = "" if self.max_steps is None else f", at most {self.max_steps:,}"
        return (
            ("whether to begin", program_of(self.condition)),
            (f"in each iteration{most}", program_of(self.step, self.carries, 0, True)),
        )

    def infer(self, *inputs: array) -> tuple[Spec, ...]:
        return self.body.outputs

    def evaluate(self, *inputs: Any) -> Any:
        return run_while(self, inputs)

    def nested(self) -> Any:
        return nested_while(self)

    def vjp(self, cotangents: Any, outs: Any, *inputs: array) -> tuple[Any, ...]:
        if self.max_steps is None:
            raise ValueError(
                "[while_loop] has no gradient without max_steps=, nor has fori_loop with arrays as "
                "bounds: the backward pass needs memory for a known number of steps. Give "
                "while_loop a bound, fori_loop ints, or use scan."
            )
        count = self.carries
        steps, captured = self._bounded()
        scan = ScanLoop(steps, count + 1, 0, self.max_steps, False)
        arguments = (*inputs[:count], ones((), bool_), *inputs[count:], *captured)
        results = apply_multiple(scan, *arguments)
        found = scan.vjp([*cotangents, None], results, *arguments)
        redirected(outs, results)
        return (*found[:count], *found[count + 1 : len(inputs) + 1])

    def _bounded(self) -> tuple[Body, list[array]]:
        """The body of a scan that leaves the carries alone once the condition no longer holds."""
        specs = self.body.inputs
        count = self.carries

        def step(*inputs: array) -> list[array]:
            carries, goes_on, others = inputs[:count], inputs[count], inputs[count + 1 :]
            goes_on = goes_on & self.condition(*carries, *others)[0]
            news = branched(
                astype(goes_on, int32),
                [lambda *values: list(values[:count]), self.body],
                [*carries, *others],
                self.body.name,
            )
            return [*news, goes_on]

        flag: Spec = ((), bool_)
        return built(step, [*specs[:count], flag, *specs[count:]], self.body.name)

    def jvp(self, tangents: Any, outs: Any, *inputs: array) -> tuple[Any, ...]:
        count = self.carries
        made = loop_tangents(self.body, count, tangents, inputs)
        values, doubled = len(inputs), made.given
        moved = sum(made.varies[:count])

        # carries, then their tangents; others, their tangents and captured arrays
        def split(xs: Sequence[array]) -> tuple[Any, Any, Any]:
            return xs[:count], xs[count : count + moved], xs[count + moved :]

        def step(*xs: array) -> list[array]:
            starts, changes, rest = split(xs)
            others, more = rest[: values - count], rest[values - count :]
            return made.body(*starts, *others, *changes, *more)

        def condition(*xs: array) -> list[array]:
            starts, _, rest = split(xs)
            return self.condition(*starts, *rest[: values - count])

        arguments = [
            *inputs[:count],
            *doubled[:moved],
            *inputs[count:],
            *doubled[moved:],
            *made.captured,
        ]
        loop = _joined(condition, step, arguments, count + moved, self.max_steps, self.body.name)
        found = iter(loop[count:])
        return tuple([next(found) if has else None for has in made.varies[:count]])

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        count = self.carries
        flags = list(batched)
        while True:
            before = list(flags)
            condition, condition_captured, (varies,) = vectorised(self.condition, size, flags)
            body, captured, given = vectorised(self.body, size, flags)
            flags[:count] = [a or b or varies for a, b in zip(flags[:count], given, strict=True)]
            if flags == before:
                break
        values = len(inputs)

        def goes_on(*xs: array) -> list[array]:
            (holds,) = condition(*xs[:values], *xs[values : values + len(condition_captured)])
            return [any_of(holds) if varies else holds]

        def step(*xs: array) -> list[array]:
            news = body(*xs[:values], *xs[values + len(condition_captured) :])
            news = [
                repeated(size, x) if want and not has else x
                for x, want, has in zip(news, flags[:count], given, strict=True)
            ]
            if not varies:
                return news
            (holds,) = condition(*xs[:values], *xs[values : values + len(condition_captured)])
            return [_chosen(holds, new, old) for new, old in zip(news, xs[:count], strict=True)]

        starts = [
            repeated(size, x) if want and not has else x
            for x, want, has in zip(inputs[:count], flags, batched, strict=False)
        ]
        arguments = [*starts, *inputs[count:], *condition_captured, *captured]
        found = _joined(goes_on, step, arguments, count, self.max_steps, self.body.name)
        return tuple(
            x if has else repeated(size, x) for x, has in zip(found, flags[:count], strict=True)
        )


def _chosen(holds: array, new: array, old: array) -> array:
    """Selects, for each example, the new value where the condition held, else the old one."""
    shape = (holds.shape[0], *(1 for _ in new.shape[1:]))
    return where(broadcast_to(reshape(holds, shape), new.shape), new, old)


def _joined(
    condition: Callable[..., list[array]],
    body: Callable[..., list[array]],
    arguments: Sequence[array],
    carries: int,
    max_steps: int | None,
    name: str,
) -> tuple[array, ...]:
    """Builds the loop of two functions of the same arguments, the first of which are carries."""
    specs = list(map(spec_of, arguments))
    tested, condition_captured = built(condition, specs, f"condition of {name}")
    stepped, captured = built(body, specs, name)
    return _applied(
        tested, condition_captured, stepped, captured, list(arguments), carries, max_steps
    )


def _applied(
    condition: Body,
    condition_captured: Sequence[array],
    body: Body,
    captured: Sequence[array],
    arguments: Sequence[array],
    carries: int,
    max_steps: int | None,
) -> tuple[array, ...]:
    """Builds the loop of two bodies with the same arguments, to which their captured arrays are
    added.
    """
    count, more = len(arguments), len(condition_captured)
    if more or captured:
        specs = list(map(spec_of, [*arguments, *condition_captured, *captured]))
        old_condition, old_body = condition, body
        condition, _ = built(
            lambda *xs: old_condition(*xs[: count + more]), specs, old_condition.name
        )
        body, _ = built(
            lambda *xs: old_body(*xs[:count], *xs[count + more :]), specs, old_body.name
        )
    loop = While(condition, body, _tested(body, condition, carries), carries, max_steps)
    return apply_multiple(loop, *arguments, *condition_captured, *captured)


def _tested(body: Body, condition: Body, carries: int) -> Body:
    """The body, with a further output: whether the condition holds after it."""

    def both(*inputs: array) -> list[array]:
        news = body(*inputs)
        return [*news, *condition(*news, *inputs[carries:])]

    made, captured = built(both, body.inputs, body.name)
    assert not captured
    return made


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    init: Any,
    max_steps: int | None = None,
) -> Any:
    """Calls `body` again and again as long as `cond` holds.

    The same as this loop, except that both functions are traced once and the loop is native code:

        value = init
        while cond(value):
            value = body(value)
        return value

    Args:
        cond: A function of the value that returns an array of one bool.
        body: A function `value -> value` that keeps the structure, shapes and dtypes.
        init: The first value: an array, a number, or a tree of those.
        max_steps: Ends the loop after as many steps at the latest. Gradients need it; their memory
            grows with it.

    Returns:
        The first value for which `cond` does not hold, or the one after `max_steps` steps.

    Example:
        >>> mx.while_loop(lambda x: x < 100, lambda x: x * 2, 1)
        array(128, dtype=int32)
    """
    check_callable("while_loop", cond)
    check_callable("while_loop", body)
    check_leaves("while_loop", init, "init")
    if max_steps is not None and max_steps < 0:
        raise ValueError(f"[while_loop] max_steps must not be negative, got {max_steps}.")
    start, tree = flat(init)
    states = States()
    news, nodes = _traced_body(body, start, tree, states)
    cast = with_dtypes_of(news, start, tree)
    if cast is not None:
        start = cast
        news, nodes = _traced_body(body, start, tree, states)
    for name, x, new in zip(names_of(init, "value"), start, news, strict=True):
        check_spec("while_loop", name, x, new)
    carried = [*nodes, *states.leaves]
    name = getattr(body, "__name__", "body")
    stepped, captured = body_of([*news, *states.updated()], carried, name, hoist=True)
    tested, condition_captured = _traced_condition(cond, start, tree, states, name)
    arguments = [*start, *states.values]
    found = _applied(
        tested, condition_captured, stepped, captured, arguments, len(arguments), max_steps
    )
    states.assign(found[len(start) :])
    return tree.filled(found[: len(start)])


def _traced_body(
    body: Callable[..., Any], start: list[array], tree: Tree, states: States
) -> tuple[list[array], list[Any]]:
    values = like(list(map(spec_of, start)))
    nodes = [x._node for x in values]
    states.updated()
    news, new_tree = flat(run("while_loop", body, (tree.filled(values),), states))
    check_same("the value", tree, new_tree, "while_loop")
    return as_carried(news, start, new_tree), nodes


def _traced_condition(
    cond: Callable[..., Any], start: list[array], tree: Tree, states: States, name: str
) -> tuple[Body, list[array]]:
    known = len(states.leaves)
    values = like(list(map(spec_of, start)))
    nodes = [*(x._node for x in values), *states.leaves]
    holds = run("while_loop", cond, (tree.filled(values),), states)
    updated = zip(states.updated(), states.leaves, strict=True)
    if any(new._node is not leaf for new, leaf in updated) or len(states.leaves) != known:
        raise ValueError(
            "[while_loop] the condition draws random numbers or changes another state: do that in "
            "the body, and carry what the condition looks at."
        )
    holds = holds if isinstance(holds, array) else array(bool(holds))
    if holds.shape != ():
        raise ValueError(
            "[while_loop] the condition must return an array of one bool, got shape "
            f"{shape_text(holds.shape)}."
        )
    return body_of([astype(holds, bool_)], nodes, f"condition of {name}", hoist=True)
