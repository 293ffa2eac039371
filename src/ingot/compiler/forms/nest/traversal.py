"""Traversals of nests: all statements, and the buffers that they touch."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.compiler.forms.nest.data import (
    Apart,
    Body,
    Buffer,
    Bundle,
    CopyBlock,
    Load,
    Loop,
    Mask,
    Nest,
    Splat,
    Statement,
    Store,
    When,
)

__all__ = ["is_in_vectors", "nontemporal", "statements", "touched"]


def touched(nest: Nest) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers that a nest reads and those that it writes, in order of first use."""
    reads: dict[Buffer, None] = {}
    writes: dict[Buffer, None] = {}
    for region in nest.parallel:
        for statement in statements(region.body):
            if isinstance(statement, (Load, Bundle)):
                reads[statement.buffer] = None
            elif isinstance(statement, Store):
                writes[statement.buffer] = None
            elif isinstance(statement, CopyBlock):
                reads[statement.source] = None
                writes[statement.target] = None
    return list(reads), list(writes)


def nontemporal(nest: Nest) -> list[Buffer]:
    """The buffers of non-temporal stores."""
    found: dict[Buffer, None] = {}
    for region in nest.parallel:
        for statement in statements(region.body):
            if isinstance(statement, Store) and statement.nontemporal:
                found[statement.buffer] = None
    return list(found)


def is_in_vectors(nest: Nest) -> bool:
    """Whether a nest computes with bundles, which leave LLVM little to improve. Masks do not: LLVM
    has to find out which lanes they leave.
    """
    found = False
    for region in nest.parallel:
        for each in statements(region.body):
            if isinstance(each, Mask):
                return False
            found |= isinstance(each, (Bundle, Splat)) or (
                isinstance(each, Load) and each.lanes > 1
            )
    return found


def statements(body: Body) -> Iterator[Statement]:
    """All statements of a body and of the bodies nested in it, in order."""
    for statement in body:
        yield statement
        if isinstance(statement, (Loop, When, Mask, Apart)):
            yield from statements(statement.body)
