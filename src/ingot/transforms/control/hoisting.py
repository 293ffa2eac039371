"""Loop fission: what a body computes from its slices alone is computed for all steps at once.

A product of a slice and a fixed matrix, a math function of a slice, or elements that are taken by
indices in a slice, do not wait for the steps before. Before the loop it is one large product
instead of many of a few rows, and a kernel that threads share and that fills vectors however short
a slice is. The loop then takes the results as slices. This happens before any derivative is taken,
so gradients of such values are computed for all steps at once too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot._native import Node, array, between, wrap
from ingot.graph.dimension import holds_dimensions
from ingot.graph.roles import Assemble, Iota, Map, PairedMap, Product, Reduce, View
from ingot.graph.shape import size_of
from ingot.ops.index.along_axis import TakeAlongAxis
from ingot.ops.index.indexing import Take
from ingot.transforms.control.body import reached
from ingot.transforms.vmap import Batch, batch
from ingot.tuning_loops import MAX_HOISTED_BYTES, MAX_HOISTED_GROWTH

__all__ = ["hoisted"]

# Of other ops some run on the host or communicate, and some have rules that users wrote.
_MOVABLE = (Assemble, Iota, Map, Product, Reduce, Take, TakeAlongAxis, View)


def hoisted(
    outputs: Sequence[array],
    carries: Sequence[Node],
    leaves: Sequence[Node],
    slices: Sequence[array],
    steps: int,
) -> tuple[list[Node], list[array]]:
    """The leaves of the slices that the loop should cut, and what these are slices of.

    Args:
        outputs: What the body returns.
        carries: The leaves that change from step to step, or have no value outside the loop.
        leaves: The leaves of the slices.
        slices: The arrays that are cut, along their first axes.
        steps: The number of slices.
    """
    shapes = tuple(x.shape for x in slices)
    # comparing lengths that vary would add conditions on shapes
    if holds_dimensions((steps, *shapes)) or steps < 2 or not slices:
        return list(leaves), list(slices)
    limit = max(MAX_HOISTED_BYTES, MAX_HOISTED_GROWTH * sum(x.nbytes for x in slices))
    chosen = _Choice(outputs, carries, leaves, limit // steps).nodes
    if not chosen:
        return list(leaves), list(slices)
    found = batch([wrap(node) for node in chosen], Batch(steps, list(leaves), list(slices)))
    values = [x for x in found if x is not None]
    assert len(values) == len(chosen), "each depends on a slice"
    still_read = reached(outputs, set(chosen))
    rest = [(leaf, x) for leaf, x in zip(leaves, slices, strict=True) if leaf in still_read]
    return [leaf for leaf, _ in rest] + chosen, [x for _, x in rest] + values


class _Choice:
    """The nodes to compute before the loop."""

    def __init__(
        self, outputs: Sequence[array], carries: Sequence[Node], leaves: Sequence[Node], limit: int
    ) -> None:
        self._bytes = limit  # that are left, in each step
        dependent = {*carries, *between(outputs, carries)}
        self._costly: dict[Node, bool] = {}  # whether what a node is computed by is worth it
        path = between(outputs, leaves)
        inside = set(path)
        for node in path:
            if node not in dependent and self._is_movable(node, inside):
                inner = any(self._costly.get(source, False) for source in node.inputs)
                self._costly[node] = inner or _is_costly(node)
        self.nodes: list[Node] = []
        seen: set[Node] = set()
        read = [source for node in between(outputs, carries) for source in node.inputs]
        while read:
            node = read.pop()
            if node in seen or not self._costly.get(node, False):
                continue
            seen.add(node)
            if not self._take(node):
                read.extend(node.inputs)

    def _is_movable(self, node: Node, inside: set[Node]) -> bool:
        """Whether a node is movable, and all that it reads of those `inside` of the body is."""
        op = node.op
        if not isinstance(op, _MOVABLE) or isinstance(op, PairedMap) or op.several_outputs:
            return False
        return all(source in self._costly or source not in inside for source in node.inputs)

    def _take(self, node: Node) -> bool:
        """Takes a node if its results are not too large; views are left to the loop."""
        nbytes = size_of(node.shape) * node.dtype.size
        if isinstance(node.op, View) or nbytes > self._bytes:
            return False
        self._bytes -= nbytes
        self.nodes.append(node)
        return True


def _is_costly(node: Node) -> bool:
    """Whether computing a node takes longer than writing and reading it once more. Indices have to
    be checked, which a native loop cannot, and the gradient of taking elements is a scatter.
    """
    op = node.op
    if isinstance(op, Map):
        return op.approximate != 0
    return isinstance(op, (Product, Take, TakeAlongAxis))
