"""Recordings: the graph between some arrays and others as steps that can be replayed.

A recording consists of ops, shapes and dtypes without intermediate values, so keeping it takes
little memory: `checkpoint` recomputes from it what it has discarded, and functions with
user-defined rules are transformed by it where there is no rule. Steps are replayed, rather than the
Python function called again, so that random numbers, side effects and captured values are the same
the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot._native import Node, array, between, make, topological, wrap
from ingot.graph.communication.order import Communication, in_order
from ingot.graph.dimension import holds_dimensions
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op, parameters
from ingot.graph.roles import Product, View
from ingot.graph.shape import size_of
from ingot.ops.internal.adjoints import Transpose

__all__ = ["Recording", "record"]

# Constants with more elements than this are recomputed at each replay, smaller ones are kept.
_SMALL = 1024

# The inputs and results of steps have the slots 0, 1 ..., constants the slots -1, -2 ...
Slot = int


@dataclass(frozen=True, eq=False)
class Recording:
    """A function of arrays: `recording(*inputs)` replays its steps and returns the outputs."""

    input_count: int
    steps: tuple[tuple[Op, tuple[Slot, ...], Any, Any, Any], ...]
    constants: tuple[Node, ...]
    outputs: tuple[Slot, ...]

    def __call__(self, *inputs: array) -> list[array]:
        return self._replayed(inputs, make)

    def again(self, *inputs: array) -> list[array]:
        """The outputs, computed once more: communication comes after all that was called so far,
        instead of a second time at the same point of the order.
        """
        return self._replayed(inputs, _made_again)

    def _replayed(self, inputs: Sequence[array], make: Callable[..., array]) -> list[array]:
        values: list[array | Node] = list(inputs)
        constants = self.constants
        for op, slots, shape, dtype, stream in self.steps:
            sources = [values[slot] if slot >= 0 else constants[~slot] for slot in slots]
            values.append(make(op, sources, shape, dtype, stream))
        return [wrap(values[slot] if slot >= 0 else constants[~slot]) for slot in self.outputs]


def _made_again(op: Op, sources: list[Any], shape: Any, dtype: Any, stream: Any) -> array:
    if isinstance(op, Communication):
        return in_order(op, tuple(sources[:-1]), shape, dtype, stream)
    return make(op, sources, shape, dtype, stream)


def record(
    outputs: Sequence[array], leaves: Sequence[Node], *, hoist: bool = False, trace: Any = None
) -> tuple[Recording, list[Node]]:
    """Records the computation of `outputs` from `leaves`; returns the nodes that it takes as
    further inputs too.

    Those are the nodes, apart from the leaves, that the outputs depend on and whose values must not
    be fixed: nodes that another transform traces, and inputs of constants that are recomputed,
    because they are large or depend on lengths that vary. With `hoist`, for the bodies of loops,
    every node that does not depend on the leaves becomes an input, except for numbers; with
    `trace`, for branches, every node that this trace did not record.
    """
    if trace is not None:
        made = [node for node in topological(outputs) if node.trace is trace]
        return _hoisted(outputs, leaves, [node for node in made if node.op is not None])
    path = between(outputs, leaves)
    if hoist:
        return _hoisted(outputs, leaves, path)
    ends = [output._node for output in outputs]
    nodes = [*_recomputed([source for node in path for source in node.inputs] + ends), *path]
    taken = set(nodes)
    taken.update(leaves)
    captured: dict[Node, None] = {}
    for node in nodes:
        for source in node.inputs:
            if source in taken or _is_scalar_constant(source):
                continue
            if source.tracer or not node.tracer:
                captured[source] = None
    for output in outputs:
        if output._node not in taken and output._node.tracer:
            captured[output._node] = None
    return _recording(outputs, [*leaves, *captured], nodes), list(captured)


def _hoisted(
    outputs: Sequence[array], leaves: Sequence[Node], path: list[Node]
) -> tuple[Recording, list[Node]]:
    """Records just the nodes on the path; everything that they read from elsewhere is an input,
    except for views that take neither work nor memory: broadcast scalars, and transposed matrices
    that are only multiplied by, which would be copied before they are packed.
    """
    inside = {*leaves, *path}
    captured: dict[Node, None] = {}
    views: dict[Node, None] = {}
    elsewhere = {source for node in path if not _multiplies(node) for source in node.inputs}
    elsewhere.update(output._node for output in outputs)
    sources = [source for node in path for source in node.inputs]
    for source in (*sources, *(output._node for output in outputs)):
        if source in inside or _is_scalar_constant(source):
            continue
        if isinstance(source.op, View) and all(map(_is_scalar_constant, source.inputs)):
            views[source] = None
        elif isinstance(source.op, Transpose) and source not in elsewhere:
            views[source] = None
            captured[source.inputs[0]] = None
        else:
            captured[source] = None
    return _recording(outputs, [*leaves, *captured], [*views, *path]), list(captured)


def _multiplies(node: Node) -> bool:
    return isinstance(node.op, Product)


def _is_scalar_constant(node: Node) -> bool:
    """Whether a node is a number in the function's source. One-element arrays from outside become
    inputs instead, so that code need not be generated again for each value; so do lengths that
    vary.
    """
    if node.tracer or node.shape != () or node.trace is None:
        return False
    return node.op is None or not _varying([node])


def _recording(
    outputs: Sequence[array], inputs: Sequence[Node], nodes: Sequence[Node]
) -> Recording:
    """A recording of `nodes`, in topological order, that computes `outputs`. Nodes that are neither
    among them nor inputs become constants.
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


def _recomputed(roots: Sequence[Node]) -> list[Node]:
    """Unevaluated nodes that depend on nothing traced, but are large or depend on lengths that
    vary, in topological order.
    """
    varying = _varying(roots)
    found: dict[Node, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in found or not (node in varying or _is_large_constant(node)):
            stack.pop()
            continue
        missing = [
            source
            for source in node.inputs
            if source not in found and (source in varying or _is_large_constant(source))
        ]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        found[node] = None
    return list(found)


def _varying(roots: Sequence[Node]) -> set[Node]:
    """Those of the constants behind some nodes that depend on lengths that vary."""
    varying: set[Node] = set()
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack[-1]
        if node in seen or not _is_pending_constant(node):
            stack.pop()
            continue
        missing = [x for x in node.inputs if x not in seen and _is_pending_constant(x)]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        seen.add(node)
        fields = (node.shape, *parameters(node.op).values())
        if any(map(holds_dimensions, fields)) or not varying.isdisjoint(node.inputs):
            varying.add(node)
    return varying


def _is_pending_constant(node: Node) -> bool:
    return not node.tracer and not node.evaluated and node.op is not None


def _is_large_constant(node: Node) -> bool:
    while not node.evaluated and isinstance(node.op, View):
        (node,) = node.inputs  # views take the size of their source
    if node.tracer or node.evaluated or node.op is None:
        return False
    shapes = node.shape if node.op.several_outputs else (node.shape,)
    return any(size_of(shape) > _SMALL for shape in shapes)
