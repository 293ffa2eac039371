"""Fuses matrix products with the elementwise operations that follow them.

A fused group of maps over the elements of a product, of which it is the only reader, becomes the
product's epilogue: it is applied to each tile while that is in L1, so that the product itself is
never written to memory. This only costs code, so it is done for all products but small ones, which
BLAS computes. A group that reads several products becomes the epilogue of the last one.
"""

from __future__ import annotations

from ingot.compiler.forms.schedule import Group, without_ones
from ingot.compiler.forms.tape import Step, Tape
from ingot.graph.roles import Assemble, Gather, PairedMap, Product, View
from ingot.graph.shape import size_of

__all__ = ["with_epilogues"]


def with_epilogues(tape: Tape, groups: list[Group]) -> list[Group]:
    """The groups in topological order, with each product merged with its epilogue."""
    users = tape.users
    group_of = {step: group for group in groups for step in group.steps}
    live_out = set(tape.outputs)
    taken: dict[int, list[Group]] = {}  # epilogue -> its product, views of that, and itself
    for group in groups:
        product = group.steps[0]
        if group.kind != "single" or not isinstance(product.op, Product):
            continue
        if product.op.is_left_to_blas(*[source.shape for source in product.inputs]):
            continue
        chain = _chain(product, users, group_of, live_out)
        if chain is not None:
            taken[id(chain[-1])] = chain
    gone = {id(group) for chain in taken.values() for group in chain[:-1]}
    return [
        _merged(taken[id(group)]) if id(group) in taken else group
        for group in groups
        if id(group) not in gone
    ]


def _chain(
    product: Step,
    users: dict[Step, list[Step]],
    group_of: dict[Step, Group],
    live_out: set[Step],
) -> list[Group] | None:
    """The groups of a product, of the views that reshape it, and of the maps that are its only
    reader; None if it has no such epilogue.
    """
    columns = product.shape[-1]
    groups = [group_of[product]]
    step = product
    while step not in live_out and users[step]:
        readers = {id(group_of[user]): group_of[user] for user in users[step]}
        if len(readers) != 1:
            return None
        (group,) = readers.values()
        if group.kind == "view":
            (step,) = group.steps
            op = step.op
            keeps = isinstance(op, View) and op.keeps_order
            if not keeps or not step.shape or step.shape[-1] != columns:
                return None
            if size_of(step.shape) != size_of(product.shape):
                return None
            groups.append(group)
            continue
        known = {each for one in groups for each in one.steps}
        if any(isinstance(each.op, Gather) and each.inputs[0] in known for each in group.steps):
            return None  # a gather reads elements of it at arbitrary indices
        return [*groups, group] if _is_epilogue(group, product) else None
    return None


def _is_epilogue(group: Group, product: Step) -> bool:
    """Whether a group computes each element from the corresponding element of a product."""
    if group.kind != "fused" or group.reduced is not None:
        return False
    if any(isinstance(step.op, (Assemble, PairedMap)) for step in group.steps):
        return False  # read in parts; or one iteration computes elements of both halves
    shape = without_ones(product.shape)
    return bool(
        shape
        and group.domain
        and group.domain[-1] == shape[-1]
        and size_of(group.domain) == size_of(shape)
        and (len(product.shape) == 2 or group.domain == shape)
    )


def _merged(chain: list[Group]) -> Group:
    """A product and its epilogue as one group."""
    steps = [step for group in chain for step in group.steps]
    inside = set(steps)
    inputs = dict.fromkeys(
        source for group in chain for source in group.inputs if source not in inside
    )
    last = chain[-1]
    return Group("product", steps, list(inputs), last.outputs, last.domain, parts=tuple(chain))
