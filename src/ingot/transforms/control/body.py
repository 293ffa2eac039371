"""Bodies: the functions that loops and branches run, as values.

A body is a recording of ops, the shapes and dtypes that it takes and gives, and a name. Two bodies
are equal if they compute the same, so a function that is traced again in every call of the user's
program finds the machine code of the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

from ingot import _native
from ingot._native import Dtype, Node, array, placeholder, wrap
from ingot.graph.dimension import Dimension
from ingot.graph.dtype import is_inexact
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Host
from ingot.graph.shape import Shape
from ingot.ops.shape.creation import zeros
from ingot.transforms.recording import Recording, record
from ingot.transforms.vmap import repeated

__all__ = [
    "Body",
    "Passed",
    "Spec",
    "body_of",
    "built",
    "inexact",
    "like",
    "redirected",
    "spec_of",
    "zeros_of",
]

Spec = tuple[Shape, Dtype]


def spec_of(x: Any) -> Spec:
    """The shape and dtype of an array or node."""
    return x.shape, x.dtype


def zeros_of(spec: Spec) -> array:
    """Zeros of a shape and dtype."""
    return zeros(*spec)


def like(specs: Sequence[Spec]) -> list[array]:
    """Placeholders for arrays of these shapes and dtypes."""
    return [placeholder(shape, dtype) for shape, dtype in specs]


def inexact(specs: Sequence[Spec]) -> list[bool]:
    """Which of some arrays have derivatives."""
    return [is_inexact(dtype) for _, dtype in specs]


@dataclass(frozen=True, eq=False)
class Body:
    """A function of arrays that was traced: `body(*inputs)` builds its graph over other inputs."""

    recording: Recording
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    name: str

    def __call__(self, *inputs: array) -> list[array]:
        return self.recording(*inputs)

    @cached_property
    def key(self) -> Hashable:
        """What the body computes: ops, who takes what, shapes, dtypes and constants."""
        recording = self.recording
        _native.evaluate(recording.constants)
        steps = tuple(
            (type(op), op, slots, shape, dtype) for op, slots, shape, dtype, _ in recording.steps
        )
        constants = tuple(
            (node.dtype, node.shape, node.data.tobytes()) for node in recording.constants
        )
        return self.inputs, steps, constants, recording.outputs

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Body) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.recording.steps)} ops>"


def body_of(
    outputs: Sequence[array],
    leaves: Sequence[Node],
    name: str,
    *,
    hoist: bool = False,
    trace: Any = None,
) -> tuple[Body, list[array]]:
    """The body that computes `outputs` from `leaves`, and the arrays that it takes after those."""
    recording, captured = record(outputs, leaves, hoist=hoist, trace=trace)
    inputs = tuple(map(spec_of, [*leaves, *captured]))
    if any(isinstance(length, Dimension) for shape, _ in inputs for length in shape):
        raise ValueError(
            f"[{name}] the body of a loop or branch needs shapes of numbers, and in functions "
            "compiled with shapeless=True they are not: compile it without."
        )
    return Body(recording, inputs, tuple(map(spec_of, outputs)), name), list(map(wrap, captured))


def built(
    function: Callable[..., Sequence[array]], specs: Sequence[Spec], name: str
) -> tuple[Body, list[array]]:
    """The body of a function that the rules of ops make, for inputs of these shapes and dtypes."""
    leaves = like(specs)
    nodes = [x._node for x in leaves]  # the function may re-point the handles
    with _native.tracing:
        outputs = list(function(*leaves))
    return body_of(outputs, nodes, name)


class Passed(Host):
    """Its inputs, as the outputs of one op: what `redirected` turns an op into."""

    several_outputs = True
    why_host = "it passes arrays through"

    def infer(self, *inputs: array) -> tuple[Spec, ...]:
        return tuple(map(spec_of, inputs))

    def evaluate(self, *inputs: Any) -> Any:
        return inputs

    def passed_input(self, index: int) -> int:
        return index

    def vjp(self, cotangents: Any, outs: Any, *inputs: array) -> tuple[Any, ...]:
        return tuple(cotangents)

    def jvp(self, tangents: tuple[Any, ...], outs: Any, *inputs: array) -> tuple[Any, ...]:
        return tangents

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        return tuple(
            x if is_batched else repeated(size, x)
            for x, is_batched in zip(inputs, batched, strict=True)
        )


def redirected(outs: Sequence[array], replacement: Sequence[array]) -> None:
    """Lets the node behind `outs` pass `replacement` on instead of computing the same itself.

    Rules that need more of a loop than its results build a loop that gives both. What took the
    results of the first one takes them from there, so the loop runs once. A node that has a value
    already, or that a thread is computing, stays as it is.
    """
    (whole,) = {out._node.inputs[0] for out in outs}
    _native.redirect(whole, Passed(), tuple(x._node for x in replacement[: len(outs)]))
