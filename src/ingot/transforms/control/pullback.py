"""Reverse mode of loops: the body of the backward loop, and the residuals that it needs.

Input: the body of a loop. Output: a body that returns, besides its results, the values that the
backward pass reads (the residuals), and the body of the backward pass. The rules of the ops build
the cotangents of one step; the graph is cut where nodes that depend on cotangents read nodes that
do not. Values on the cut that differ from step to step are saved, except for those that the
backward pass can cheaply rematerialise from slices, other residuals, and loop invariants. Values on
the cut that are loop-invariant are computed once, outside the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ingot import _native
from ingot._native import Node, array, between, placeholder, wrap
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Map, View
from ingot.graph.state import followed_states
from ingot.ops.elementwise.arithmetic import add
from ingot.transforms.control.body import Body, body_of, inexact, like, reached, spec_of, zeros_of
from ingot.transforms.control.sums_of_products import SummedProduct, summed_product
from ingot.transforms.control.traced import States
from ingot.transforms.recording import Recording, record

__all__ = ["Pullback", "Steps"]


@dataclass(frozen=True, eq=False)
class Stack:
    """An operand of all steps, stacked: number `number` of the residuals ("saved"), of the loop's
    slices ("slices"), or of the stacked results of the backward pass ("results").
    """

    kind: str
    number: int


@dataclass(frozen=True, eq=False)
class Steps:
    """The two bodies of a differentiated loop.

    The inputs of the backward body are: cotangents of the carries in `carried`, sums for the others
    in `summed`, implicit states; the residuals, the slices in `slices`, cotangents of ys; all
    others, the invariants. Its outputs are the new cotangents, sums and states, then the cotangents
    of slices that are wanted, and operands of `products`, which are the cotangents of other inputs.
    """

    forward: Body
    forward_captured: list[array]
    backward: Body
    backward_captured: list[array]
    carried: list[bool]
    summed: list[int]
    states: States
    slices: list[int]
    products: dict[int, tuple[SummedProduct, Stack, Stack]]
    invariant: Recording  # from the others to the invariants
    invariant_captured: list[array]

    def invariants(self, others: Sequence[array]) -> list[array]:
        """The loop-invariant values, computed from the loop's inputs."""
        return self.invariant(*others, *self.invariant_captured)

    def shares(
        self,
        found: Sequence[array],
        wanted: tuple[Any, Any, Any],
        saved: Sequence[array],
        slices: Sequence[array],
    ) -> tuple[Any, ...]:
        """The cotangents of all inputs of the loop, from the results of the backward pass."""
        first = sum(self.carried) + len(self.summed)
        count = first + len(self.states.leaves)
        self.states.assign(found[first:count])
        found = [*found[:first], *found[count:]]
        stacks = {"saved": saved, "slices": slices, "results": found[first:]}
        remaining = iter(found)
        carries = [next(remaining) if has else None for has in self.carried]
        others: list[array | None] = [None] * len(wanted[2])
        for number in self.summed:
            others[number] = next(remaining)
        for number, (product, left, right) in self.products.items():
            others[number] = product.total(
                stacks[left.kind][left.number], stacks[right.kind][right.number]
            )
        return (*carries, *(next(remaining) if has else None for has in wanted[1]), *others)


class Pullback:
    """Builds the bodies of a differentiated loop."""

    def __init__(self, body: Body, carries: int, slices: int) -> None:
        self.body = body
        self.carries = carries
        self.slices = slices
        self.values = like(body.inputs)
        self.nodes = [x._node for x in self.values]
        self.carried = inexact(body.inputs[:carries])
        self.states = States()  # that rules read and update, such as the order of communication
        self.first_other = carries + slices

    def steps(self, wanted: Sequence[bool], has_y: Sequence[bool]) -> Steps:
        """The bodies, for cotangents of the `wanted` inputs, given which ys have cotangents."""
        with _native.tracing:
            outputs = self.body(*self.values)
            cotangents = [
                placeholder(*spec_of(x)) if has else None
                for x, has in zip(outputs, [*self.carried, *has_y], strict=True)
            ]
            asked = [
                number
                for number, want in enumerate([*self.carried, *wanted[self.carries :]])
                if want
            ]
            with followed_states(self.states) as self.states.outside:
                leaves = [self.values[number] for number in asked]
                found = _native.backward(outputs, cotangents, leaves)
            share = dict(zip(asked, found, strict=True))
            given = [x for x in cotangents if x is not None]
            return self._split(outputs, share, given)

    def _split(
        self, outputs: list[array], share: dict[int, array | None], given: list[array]
    ) -> Steps:
        """The bodies, from the cotangents of one step."""
        sources = _Sources(self.nodes, self.carries, self.slices, share, given)
        products = {}
        summed = []
        for number in range(self.first_other, len(self.values)):
            each = share.get(number)
            if each is None:
                continue
            product = summed_product(each)
            if product is not None and sources.has(product):
                products[number - self.first_other] = product
            else:
                summed.append(number - self.first_other)
        sums = like([self.body.inputs[self.first_other + number] for number in summed])
        totals = [
            add(total, share[self.first_other + number])
            for number, total in zip(summed, sums, strict=True)
        ]
        news = [self._share(share, n) for n in range(self.carries) if self.carried[n]]
        ys = [self._share(share, n) for n in range(self.carries, self.first_other) if n in share]
        emitted = sources.emitted(products.values(), ys)
        results = [*news, *totals, *self.states.updated(), *emitted]
        cut = _Cut(
            results,
            [*(x._node for x in (*given, *sums)), *self.states.leaves],
            self.nodes,
            (self.carries, self.slices),
            sources.saved(products.values()),
        )
        stacks = {
            number: (
                product,
                sources.stack(product.left, emitted, cut.saved),
                sources.stack(product.right, emitted, cut.saved),
            )
            for number, product in products.items()
        }
        return self._bodies(outputs, results, given, sums, cut, (summed, stacks))

    def _share(self, share: dict[int, array | None], number: int) -> array:
        found = share[number]
        return zeros_of(self.body.inputs[number]) if found is None else found

    def _bodies(
        self,
        outputs: list[array],
        results: list[array],
        given: list[array],
        sums: list[array],
        cut: _Cut,
        others: tuple[list[int], dict[int, tuple[SummedProduct, Stack, Stack]]],
    ) -> Steps:
        name = self.body.name
        forward, forward_captured = body_of([*outputs, *map(wrap, cut.saved)], self.nodes, name)
        count = sum(self.carried)
        taken = self.nodes[self.first_other :]
        leaves = [
            *(x._node for x in (*given[:count], *sums)),
            *self.states.leaves,
            *cut.saved,
            *(self.nodes[self.carries + number] for number in cut.slices),
            *(x._node for x in given[count:]),
            *taken,
            *cut.invariant,
        ]
        backward, backward_captured = body_of(results, leaves, f"gradient of {name}")
        invariant, captured = record(list(map(wrap, cut.invariant)), taken)
        summed, products = others
        return Steps(
            forward,
            forward_captured,
            backward,
            backward_captured,
            self.carried,
            summed,
            self.states,
            cut.slices,
            products,
            invariant,
            list(map(wrap, captured)),
        )


class _Sources:
    """Where the operands of products come from: computed in the backward pass, slices, or saved in
    the forward pass.
    """

    def __init__(
        self,
        nodes: list[Node],
        carries: int,
        slices: int,
        share: dict[int, array | None],
        given: list[array],
    ) -> None:
        shares = [x for x in share.values() if x is not None]
        leaves = [x._node for x in given]
        self.slices = nodes[carries : carries + slices]
        self.backward = {*leaves, *between(shares, leaves)}
        self.varying = {*nodes[: carries + slices], *between(shares, nodes[: carries + slices])}

    def has(self, product: SummedProduct) -> bool:
        """Whether both operands differ from step to step."""
        both = (product.left, product.right)
        return all(node in self.backward or node in self.varying for node in both)

    def emitted(self, products: Iterable[SummedProduct], ys: list[array]) -> list[array]:
        """The results that the backward pass stacks: `ys`, and operands not among these."""
        found = list(ys)
        known = {x._node for x in ys}
        for product in products:
            for node in (product.left, product.right):
                if node in self.backward and node not in known:
                    known.add(node)
                    found.append(wrap(node))
        return found

    def saved(self, products: Iterable[SummedProduct]) -> list[Node]:
        """The operands that the forward pass must save."""
        operands = [node for each in products for node in (each.left, each.right)]
        return [node for node in operands if node not in {*self.backward, *self.slices}]

    def stack(self, node: Node, emitted: list[array], saved: list[Node]) -> Stack:
        """Where an operand is stacked."""
        if node in self.backward:
            return Stack("results", [x._node for x in emitted].index(node))
        if node in self.slices:
            return Stack("slices", self.slices.index(node))
        return Stack("saved", saved.index(node))


class _Cut:
    """The values of the forward pass that the backward pass reads, and which of these to save."""

    def __init__(
        self,
        results: Sequence[array],
        given: Sequence[Node],
        nodes: Sequence[Node],
        counts: tuple[int, int],
        saved: Sequence[Node],
    ) -> None:
        carries, slices = counts
        self._sliced = nodes[carries : carries + slices]
        self._others = set(nodes[carries + slices :])
        frontier = _frontier(results, given)
        moving = nodes[: carries + slices]
        varying = {*moving, *between([wrap(node) for node in frontier], moving)}
        self.invariant = [
            node for node in frontier if node not in varying and node not in self._others
        ]
        needed = [node for node in frontier if node in varying]
        self._available = {*self._others, *self._sliced, *self.invariant}
        self.saved = self._thinned(
            dict.fromkeys(saved), [node for node in needed if node not in self._sliced]
        )
        self.slices = self._slices_read(results, given)

    def _thinned(self, fixed: dict[Node, None], saved: list[Node]) -> list[Node]:
        """The residuals without those that are cheap to recompute from the others; `fixed` ones are
        kept.
        """
        kept = {**fixed, **dict.fromkeys(saved)}
        for node in saved:
            if node in fixed:
                continue
            del kept[node]
            if not (_is_cheap(node) and self._has(node.inputs, kept)):
                kept[node] = None
        return list(kept)

    def _has(self, nodes: Sequence[Node], kept: dict[Node, None], depth: int = 4) -> bool:
        """Whether the backward pass can compute nodes from what is available."""
        return all(
            not node.tracer
            or node in kept
            or node in self._available
            or (depth > 0 and _is_cheap(node) and self._has(node.inputs, kept, depth - 1))
            for node in nodes
        )

    def _slices_read(self, results: Sequence[array], given: Sequence[Node]) -> list[int]:
        """The slices that the backward pass reads, including for recomputation."""
        ends = {*given, *self.saved, *self.invariant, *self._others}
        seen = reached(results, ends)
        return [number for number, node in enumerate(self._sliced) if node in seen]


def _frontier(results: Sequence[array], given: Sequence[Node]) -> list[Node]:
    """The nodes that depend on no cotangent but are read by nodes that do; views are replaced by
    their inputs.
    """
    path = between(results, given)
    inside = {*path, *given}
    found: dict[Node, None] = {}
    stack = [source for node in path for source in node.inputs]
    stack += [x._node for x in results]
    while stack:
        node = stack.pop()
        if node in inside or not node.tracer or node in found:
            continue
        if isinstance(node.op, View):
            stack.extend(node.inputs)
        else:
            found[node] = None
    return list(found)


def _is_cheap(node: Node) -> bool:
    """Whether recomputing a node costs less than saving and reading it."""
    op = node.op
    return isinstance(op, View) or (isinstance(op, Map) and op.approximate == 0)
