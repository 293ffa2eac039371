"""Bodies rewritten by the rules of their ops: with tangents, or for a batch."""

from __future__ import annotations

from collections.abc import Sequence

from ingot._native import array, placeholder
from ingot.graph.dtype import is_inexact
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.state import followed_states
from ingot.transforms.control.body import Body, body_of, built, of_inexact, spec_of, zeros_of
from ingot.transforms.control.traced import States
from ingot.transforms.jvp import forward
from ingot.transforms.tracing import follow
from ingot.transforms.vmap import Batch, batch

__all__ = ["LoopTangents", "loop_tangents", "tangent_body", "vectorised"]


def tangent_body(
    body: Body, varies: Sequence[bool], forced: Sequence[bool] = ()
) -> tuple[Body, list[array], list[bool]]:
    """A body with the tangents of varying inputs as further inputs and those of varying outputs as
    further outputs; and which outputs have tangents. `forced` says which of the first outputs must
    have one, zero if they do not vary.
    """
    specs = body.inputs
    given: list[bool] = []
    states = States()

    def with_tangents(*inputs: array) -> list[array]:
        primals = follow(list(inputs[: len(specs)]))
        tangents = iter(inputs[len(specs) :])
        incoming = [next(tangents) if has else None for has in varies]
        outputs = body(*primals)
        with followed_states(states) as states.outside:
            found = of_inexact(forward(outputs, [x._node for x in primals], incoming))
        for number, is_forced in enumerate(forced):
            if is_forced and found[number] is None:
                found[number] = zeros_of(body.outputs[number])
        given[:] = [tangent is not None for tangent in found]
        return [*outputs, *(tangent for tangent in found if tangent is not None)]

    doubled = [spec for spec, has in zip(specs, varies, strict=True) if has]
    made, captured = built(with_tangents, [*specs, *doubled], body.name)
    if states.leaves:
        raise ValueError(
            f"[jvp] the tangents of {body.name}, which a loop or branch runs, communicate in each "
            "step: use reverse mode (mx.grad, mx.vjp), or a Python loop."
        )
    return made, captured, given


@dataclass
class LoopTangents:
    """The body of a loop with tangents, as `tangent_body` makes it."""

    body: Body
    captured: list[array]
    outputs: list[bool]  # which outputs have tangents
    varies: list[bool]  # which inputs have tangents
    given: list[array]  # the tangents of the inputs that have one


def loop_tangents(
    body: Body, carries: int, tangents: Sequence[array | None], inputs: Sequence[array]
) -> LoopTangents:
    """The body of a loop that carries tangents too. A carry without an initial tangent may get one
    from another carry in any step: then it starts at zero.
    """
    varies = [
        tangent is not None and is_inexact(x.dtype)
        for tangent, x in zip(tangents, inputs, strict=True)
    ]
    while True:
        before = varies[:carries]
        made, captured, outputs = tangent_body(body, varies, before)
        varies[:carries] = outputs[:carries]
        if varies[:carries] == before:
            break
    given = [
        zeros_of(spec_of(x)) if tangent is None else tangent
        for x, tangent, has in zip(inputs, tangents, varies, strict=True)
        if has
    ]
    return LoopTangents(made, captured, outputs, varies, given)


def vectorised(
    body: Body, size: int, batched: Sequence[bool]
) -> tuple[Body, list[array], list[bool]]:
    """A body for a batch, whose batched inputs have the batch axis first; and which of its outputs
    do.
    """
    values = []
    examples = []
    over = Batch(size, [], [])
    for (shape, dtype), is_batched in zip(body.inputs, batched, strict=True):
        value = placeholder((size, *shape) if is_batched else shape, dtype)
        values.append(value)
        if is_batched:
            example = placeholder(shape, dtype)
            over.leaves.append(example._node)
            over.values.append(value)
            examples.append(example)
        else:
            examples.append(value)
    outputs = body(*examples)
    found = batch(outputs, over)
    results = [
        output if mapped is None else mapped for output, mapped in zip(outputs, found, strict=True)
    ]
    made, captured = body_of(results, [value._node for value in values], body.name)
    return made, captured, [mapped is not None for mapped in found]
