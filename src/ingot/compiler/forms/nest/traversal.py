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
    Statement,
    Store,
    When,
)

__all__ = ["statements", "touched"]


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


def statements(body: Body) -> Iterator[Statement]:
    """All statements of a body and of the bodies nested in it, in order."""
    for statement in body:
        yield statement
        if isinstance(statement, (Loop, When, Mask, Apart)):
            yield from statements(statement.body)
