"""Bodies: the functions that loops and branches run, as values.

A body is a recording of ops, the shapes and dtypes of its inputs and outputs, and a name. Bodies
are equal if they compute the same, so that a function that is traced again at each call reuses its
machine code. In functions compiled for all shapes, bodies contain dimensions of the trace; what
runs is a `ShapedBody`, with values for these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

from ingot import _native
from ingot._native import Dtype, Node, array, placeholder, wrap
from ingot.graph.dimension import Dimension, Guards, Parametric, resolve
from ingot.graph.dtype import is_inexact
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import parameters
from ingot.graph.roles import Host
from ingot.graph.shape import Shape
from ingot.ops.shape.creation import zeros
from ingot.transforms.recording import Recording, record
from ingot.transforms.vmap import repeated

__all__ = [
    "Body",
    "Passed",
    "ShapedBody",
    "Spec",
    "body_of",
    "built",
    "inexact",
    "like",
    "of_inexact",
    "reached",
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
    """Which of some arrays have an inexact dtype, and so derivatives."""
    return [is_inexact(dtype) for _, dtype in specs]


def of_inexact(vectors: Sequence[array | None]) -> list[array | None]:
    """The tangents or cotangents of floating-point numbers; None for integers, whose derivatives do
    not cross loops and branches.
    """
    return [x if x is not None and is_inexact(x.dtype) else None for x in vectors]


@dataclass(frozen=True, eq=False)
class Body(Parametric):
    """A traced function of arrays: `body(*inputs)` rebuilds its graph from other inputs."""

    recording: Recording
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    name: str

    def __call__(self, *inputs: array) -> list[array]:
        return self.recording(*inputs)

    @cached_property
    def key(self) -> Hashable:
        """A key of what the body computes: ops and their inputs, shapes, dtypes and constants."""
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
    def guards(self) -> Guards | None:
        """The guards of the trace whose dimensions the body contains; None if it has none."""
        found = (value.guards for value in self._dimensions())
        return next((guards for guards in found if guards is not None), None)

    def _dimensions(self) -> Iterator[Dimension | Parametric]:
        """Dimensions, and inner bodies, in all shapes and in the fields of ops."""
        waiting: list[Any] = [self.inputs, self.outputs]
        for op, _, shape, *_ in self.recording.steps:
            waiting += [shape, tuple(parameters(op).values())]
        while waiting:
            value = waiting.pop()
            if type(value) is tuple:
                waiting.extend(value)
            elif type(value) is Dimension or isinstance(value, Parametric):
                yield value

    def resolved(self, values: Sequence[Any]) -> ShapedBody:
        """The body for these values of the trace's dimensions."""
        return ShapedBody(self, tuple(values))

    @cached_property
    def _hash(self) -> int:
        return hash(self.key) if self.guards is None else id(self)

    def __eq__(self, other: object) -> bool:
        """Bodies with dimensions are equal to themselves only: comparing these would add guards."""
        if self is other:
            return True
        if not isinstance(other, Body) or self.guards is not None or other.guards is not None:
            return False
        return bool(self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.recording.steps)} ops>"


class ShapedBody:
    """A body with dimensions, for some values of these."""

    def __init__(self, generic: Body, values: tuple[Any, ...]) -> None:
        self.generic = generic
        self.values = values
        self.inputs: tuple[Spec, ...] = resolve(generic.inputs, values)
        self.outputs: tuple[Spec, ...] = resolve(generic.outputs, values)
        self.name = generic.name
        self.program: tuple[Hashable, Any] = (None, None)  # the last one, below its numerics

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapedBody):
            return False
        return self.generic is other.generic and self.values == other.values

    def __hash__(self) -> int:
        return hash((id(self.generic), self.values))

    def __repr__(self) -> str:
        return repr(self.generic)


def body_of(
    outputs: Sequence[array],
    leaves: Sequence[Node],
    name: str,
    *,
    hoist: bool = False,
    trace: Any = None,
) -> tuple[Body, list[array]]:
    """The body that computes `outputs` from `leaves`, and the arrays that it takes as further
    inputs.
    """
    recording, captured = record(outputs, leaves, hoist=hoist, trace=trace)
    inputs = tuple(map(spec_of, [*leaves, *captured]))
    return Body(recording, inputs, tuple(map(spec_of, outputs)), name), list(map(wrap, captured))


def built(
    function: Callable[..., Sequence[array]], specs: Sequence[Spec], name: str
) -> tuple[Body, list[array]]:
    """Traces a function that a rule defines, for inputs of these shapes and dtypes; returns its
    body and the arrays that it captured.
    """
    leaves = like(specs)
    nodes = [x._node for x in leaves]  # the function may make the arrays refer to other nodes
    with _native.tracing:
        outputs = list(function(*leaves))
    return body_of(outputs, nodes, name)


class Passed(Host):
    """Passes its inputs through as outputs: what `redirected` turns an op into."""

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
    """Makes the node behind `outs` pass `replacement` through instead of computing the same itself.

    Rules that need more of a loop than its results build a loop that computes both. Readers of the
    original results are redirected to it, so that the loop runs once. A node that already has a
    value, or that a thread is computing, is left alone.
    """
    (whole,) = {out._node.inputs[0] for out in outs}
    _native.redirect(whole, Passed(), tuple(x._node for x in replacement[: len(outs)]))


def reached(outputs: Sequence[array], ends: set[Node]) -> set[Node]:
    """The nodes that outputs depend on, not looking behind `ends`."""
    found: set[Node] = set()
    stack = [x._node for x in outputs]
    while stack:
        node = stack.pop()
        if node in found or not node.tracer:
            continue
        found.add(node)
        if node not in ends:
            stack.extend(node.inputs or ())
    return found
