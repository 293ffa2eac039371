"""The op behind `scan`: its fields hold the traced body, which its rules rewrite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingot._native import array
from ingot.graph.dtype import is_inexact
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Control
from ingot.ops.shape.movement import moveaxis
from ingot.transforms.control.body import (
    Body,
    Spec,
    built,
    of_inexact,
    redirected,
    spec_of,
    zeros_of,
)
from ingot.transforms.control.evaluation import nested_scan, program_of, run_scan
from ingot.transforms.control.pullback import Pullback
from ingot.transforms.control.rewrites import loop_tangents, vectorised
from ingot.transforms.vmap import repeated

__all__ = ["ScanLoop"]


@dataclass(frozen=True)
class ScanLoop(Control):
    """The last carries and the stacked ys of a loop.

    Inputs are the initial carries, the arrays that are sliced, and all that the body reads in every
    step.
    """

    several_outputs = True
    why_host = "it is a loop, which runs its body as a program"

    body: Body
    carries: int
    slices: int
    length: int
    reverse: bool
    unroll: int = 1

    @property
    def title(self) -> str:
        return f"scan of {self.body.name}, {self.length} steps"

    def programs(self) -> tuple[tuple[str, Any], ...]:
        program = program_of(self.body, self.carries, self.slices)
        return ((f"in each of {self.length:,} iterations", program),)

    def split(self, inputs: Any) -> tuple[Any, Any, Any]:
        """Splits something that corresponds to the inputs into carries, slices and others."""
        xs = self.carries + self.slices
        return inputs[: self.carries], inputs[self.carries : xs], inputs[xs:]

    def infer(self, *inputs: array) -> tuple[Spec, ...]:
        outputs = self.body.outputs
        stacked = [((self.length, *shape), dtype) for shape, dtype in outputs[self.carries :]]
        return (*outputs[: self.carries], *stacked)

    def evaluate(self, *inputs: Any) -> Any:
        return run_scan(self, inputs)

    def nested(self) -> Any:
        return nested_scan(self)

    def vjp(self, cotangents: Any, outs: Any, *inputs: array) -> tuple[Any, ...]:
        cotangents = of_inexact(cotangents)
        pullback = Pullback(self.body, self.carries, self.slices)
        ends, ys = list(cotangents[: self.carries]), list(cotangents[self.carries :])
        wanted = [x._node.tracer and is_inexact(x.dtype) for x in inputs]
        steps = pullback.steps(wanted, [y is not None for y in ys])
        _, xs, others = self.split(inputs)
        forward = replace(self, body=steps.forward)
        values = apply_multiple(forward, *inputs, *steps.forward_captured)
        redirected(outs, values)
        saved = list(values[len(outs) :])
        starts = [
            zeros_of(spec) if end is None else end
            for spec, end in zip(self.body.outputs, ends, strict=False)
        ]
        starts = [x for x, has in zip(starts, steps.carried, strict=True) if has]
        sums = [zeros_of(spec_of(others[number])) for number in steps.summed]
        states = steps.states.values
        backward = ScanLoop(
            steps.backward,
            len(starts) + len(sums) + len(states),
            len(saved) + len(steps.slices) + sum(y is not None for y in ys),
            self.length,
            not self.reverse,
            self.unroll,
        )
        found = apply_multiple(
            backward,
            *starts,
            *sums,
            *states,
            *saved,
            *(xs[number] for number in steps.slices),
            *(y for y in ys if y is not None),
            *others,
            *steps.invariants(others),
            *steps.backward_captured,
        )
        return steps.shares(found, self.split(wanted), saved, xs)

    def jvp(self, tangents: Any, outs: Any, *inputs: array) -> tuple[Any, ...]:
        made = loop_tangents(self.body, self.carries, tangents, inputs)
        doubled = made.given
        flags = self.split(made.varies)
        starts, xs, others = self.split(inputs)
        moved = sum(flags[0])
        cut = sum(flags[1])
        order = _Interleaved(self, flags)
        op = replace(
            self, body=order.body(made.body), carries=self.carries + moved, slices=self.slices + cut
        )
        found = apply_multiple(
            op,
            *starts,
            *doubled[:moved],
            *xs,
            *doubled[moved : moved + cut],
            *others,
            *doubled[moved + cut :],
            *made.captured,
        )
        ends, rest = found[: self.carries], found[self.carries + moved :]
        count = len(outs) - self.carries
        redirected(outs, (*ends, *rest[:count]))
        remaining = iter((*found[self.carries : self.carries + moved], *rest[count:]))
        has = [*flags[0], *made.outputs[self.carries :]]
        return tuple([next(remaining) if each else None for each in has])

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        flags = list(batched)
        while True:
            body, captured, given = vectorised(self.body, size, flags)
            grown = [a or b for a, b in zip(flags[: self.carries], given, strict=False)]
            if grown == flags[: self.carries]:
                break
            flags[: self.carries] = grown
        body, captured = _all_batched(self, size, body, captured, flags, given)
        starts, xs, others = self.split(list(inputs))
        starts = [
            repeated(size, x) if wanted and not is_batched else x
            for x, wanted, is_batched in zip(starts, flags, batched, strict=False)
        ]
        xs = [
            moveaxis(x, 0, 1) if is_batched else x
            for x, is_batched in zip(xs, self.split(batched)[1], strict=True)
        ]
        found = apply_multiple(replace(self, body=body), *starts, *xs, *others, *captured)
        ends = [
            x if is_batched else repeated(size, x)
            for x, is_batched in zip(found[: self.carries], flags, strict=False)
        ]
        return (*ends, *(moveaxis(y, 1, 0) for y in found[self.carries :]))


class _Interleaved:
    """The order of inputs and outputs of a loop that carries tangents too."""

    def __init__(self, scan: ScanLoop, flags: tuple[Any, Any, Any]) -> None:
        self.scan = scan
        self.flags = flags

    def body(self, body: Body) -> Body:
        """Reorders `body`, whose inputs and outputs are all values, then all tangents: in the loop,
        each of carries, slices and others is followed by its own tangents.
        """
        scan, flags = self.scan, self.flags
        values = len(scan.body.inputs)
        numbers = list(range(len(body.inputs)))
        starts, xs, others = scan.split(numbers[:values])
        tangents = iter(numbers[values:])
        doubled = [[next(tangents) for has in part if has] for part in flags]
        order = [*starts, *doubled[0], *xs, *doubled[1], *others, *doubled[2], *tangents]
        outputs = list(range(len(scan.body.outputs)))
        extra = list(range(len(outputs), len(body.outputs)))
        moved = sum(flags[0])
        gives = [
            *outputs[: scan.carries],
            *extra[:moved],
            *outputs[scan.carries :],
            *extra[moved:],
        ]

        def reordered(*inputs: array) -> list[array]:
            placed: list[Any] = [None] * len(order)
            for number, x in zip(order, inputs, strict=True):
                placed[number] = x
            found = body(*placed)
            return [found[number] for number in gives]

        made, captured = built(reordered, [body.inputs[number] for number in order], body.name)
        assert not captured
        return made


def _all_batched(
    scan: ScanLoop,
    size: int,
    body: Body,
    captured: list[array],
    flags: list[bool],
    given: list[bool],
) -> tuple[Body, list[array]]:
    """A body whose carries are batched like those of the loop, and whose ys are all batched."""
    wanted = [*flags[: scan.carries], *(True for _ in given[scan.carries :])]
    if wanted == given:
        return body, captured

    def repeating(*inputs: array) -> list[array]:
        return [
            repeated(size, x) if want and not has else x
            for x, want, has in zip(body(*inputs), wanted, given, strict=True)
        ]

    made, more = built(repeating, body.inputs, body.name)
    return made, [*captured, *more]
