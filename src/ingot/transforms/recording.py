"""Recordings: the graph between some arrays and others as steps that can be replayed.

A recording holds ops, shapes and dtypes but no intermediate values, so it costs no memory to keep
one: `checkpoint` computes from it again what it has thrown away, and functions with rules of their
own are followed by it where there is no rule. Replaying the steps instead of running the Python
function again means that random numbers, side effects and what the function captured are the same
the second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot._native import Node, array, between, make, topological, wrap
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op
from ingot.graph.roles import View
from ingot.graph.shape import size_of

__all__ = ["Recording", "record"]

# Of what does not depend on the inputs, arrays of more elements are made again, others kept.
_SMALL = 1024

# The slot of a step's input: inputs and results of steps are numbered up from 0, constants down
# from -1.
Slot = int


@dataclass(frozen=True, eq=False)
class Recording:
    """A function of arrays: `recording(*inputs)` replays its steps and returns the outputs."""

    input_count: int
    steps: tuple[tuple[Op, tuple[Slot, ...], Any, Any, Any], ...]
    constants: tuple[Node, ...]
    outputs: tuple[Slot, ...]

    def __call__(self, *inputs: array) -> list[array]:
        values: list[array | Node] = list(inputs)
        constants = self.constants
        for op, slots, shape, dtype, stream in self.steps:
            sources = [values[slot] if slot >= 0 else constants[~slot] for slot in slots]
            values.append(make(op, sources, shape, dtype, stream))
        return [wrap(values[slot] if slot >= 0 else constants[~slot]) for slot in self.outputs]


def record(
    outputs: Sequence[array], leaves: Sequence[Node], *, hoist: bool = False, trace: Any = None
) -> tuple[Recording, list[Node]]:
    """What computes `outputs` from `leaves`, and the nodes that it takes after the leaves.

    Those are what the outputs depend on besides the leaves and that must not be fixed: what another
    transform follows, and what large constants are made again from. With `hoist`, as for the body
    of a loop, everything else is taken that does not depend on the leaves, except for numbers; with
    `trace`, as for a branch, everything that was not made while that trace recorded.
    """
    if trace is not None:
        made = [node for node in topological(outputs) if node.trace is trace]
        return _hoisted(outputs, leaves, [node for node in made if node.op is not None])
    path = between(outputs, leaves)
    if hoist:
        return _hoisted(outputs, leaves, path)
    nodes = [*_large_constants(path), *path]
    taken = set(nodes)
    taken.update(leaves)
    captured: dict[Node, None] = {}
    for node in nodes:
        for source in node.inputs:
            if source not in taken and (source.tracer or not node.tracer):
                captured[source] = None
    for output in outputs:
        if output._node not in taken and output._node.tracer:
            captured[output._node] = None
    return _recording(outputs, [*leaves, *captured], nodes), list(captured)


def _hoisted(
    outputs: Sequence[array], leaves: Sequence[Node], path: list[Node]
) -> tuple[Recording, list[Node]]:
    """A recording of the nodes on the path alone, and all that these take from elsewhere."""
    inside = {*leaves, *path}
    captured: dict[Node, None] = {}
    spread: dict[Node, None] = {}  # scalars with more axes: no work, and no memory
    sources = [source for node in path for source in node.inputs]
    for source in (*sources, *(output._node for output in outputs)):
        if source in inside or _is_scalar_constant(source):
            continue
        if isinstance(source.op, View) and all(map(_is_scalar_constant, source.inputs)):
            spread[source] = None
        else:
            captured[source] = None
    return _recording(outputs, [*leaves, *captured], [*spread, *path]), list(captured)


def _is_scalar_constant(node: Node) -> bool:
    """Whether a node is a number that the function wrote. Arrays of one number from outside are
    taken, because machine code for each of their values would be generated again.
    """
    return not node.tracer and node.shape == () and node.trace is not None


def _recording(
    outputs: Sequence[array], inputs: Sequence[Node], nodes: Sequence[Node]
) -> Recording:
    """The recording of `nodes`, inputs first, that computes `outputs`; what is neither among them
    nor an input is a constant.
    """
    slots: dict[Node, Slot] = {node: slot for slot, node in enumerate([*inputs, *nodes])}
    constants: list[Node] = []

    def slot_of(node: Node) -> Slot:
        if node not in slots:
            constants.append(node)
            slots[node] = -len(constants)
        return slots[node]

    steps = tuple(
        (node.op, tuple(map(slot_of, node.inputs)), node.shape, node.dtype, node.stream)
        for node in nodes
    )
    ends = tuple(slot_of(output._node) for output in outputs)
    return Recording(len(inputs), steps, tuple(constants), ends)


def _large_constants(path: list[Node]) -> list[Node]:
    """Large nodes that depend on nothing followed and are not computed yet, inputs first."""
    found: dict[Node, None] = {}
    for user in path:
        stack = [source for source in user.inputs if _is_large_constant(source)]
        while stack:
            node = stack[-1]
            missing = [
                source
                for source in node.inputs
                if source not in found and _is_large_constant(source)
            ]
            if missing and node not in found:
                stack.extend(missing)
                continue
            stack.pop()
            found[node] = None
    return list(found)


def _is_large_constant(node: Node) -> bool:
    while not node.evaluated and isinstance(node.op, View):
        (node,) = node.inputs  # a view is as large as what it is a view of
    if node.tracer or node.evaluated or node.op is None:
        return False
    shapes = node.shape if node.op.several_outputs else (node.shape,)
    return any(size_of(shape) > _SMALL for shape in shapes)
