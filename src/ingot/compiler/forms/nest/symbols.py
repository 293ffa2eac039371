"""The symbols that a nest uses, which therefore must be passed to its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.compiler.forms.affine import Affine, Extent, Symbol, affine, size_of_extent
from ingot.compiler.forms.nest.data import (
    Apply,
    Buffer,
    Checked,
    CopyBlock,
    Indices,
    Joined,
    Load,
    Loop,
    Mask,
    Multiple,
    Nest,
    Position,
    Prefetch,
    Split,
    Statement,
    Store,
    Value,
    When,
)
from ingot.compiler.forms.nest.traversal import statements

__all__ = ["used_symbols"]


def used_symbols(nest: Nest) -> list[Symbol]:
    """The symbols of a nest, in order of first use."""
    found: dict[Symbol, None] = {}
    for extent in _extents(nest):
        if type(extent) is int:
            continue
        for variable in affine(extent).terms:
            if isinstance(variable, Symbol):
                found[variable] = None
    return list(found)


def _extents(nest: Nest) -> Iterator[Extent]:
    for buffer in nest.buffers:
        yield from buffer.shape
        yield from buffer.strides
        yield buffer.offset
    for region in nest.parallel:
        yield from region.lengths
        for statement in statements(region.body):
            yield from _in_statement(statement)


def _in_copy(statement: CopyBlock | Prefetch) -> Iterator[Extent]:
    if isinstance(statement, Prefetch):
        yield from _in_access(statement.buffer, statement.index)
        return
    yield from _in_access(statement.source, statement.source_index)
    yield from _in_access(statement.target, statement.index)


def _in_statement(statement: Statement) -> Iterator[Extent]:
    if isinstance(statement, Apply):
        for operand in statement.operands:
            yield from _in_value(operand)
    elif isinstance(statement, (Load, Store)):
        yield from _in_access(statement.buffer, statement.index)
        if statement.limit is not None:
            yield statement.limit
        if isinstance(statement, Store):
            yield from _in_value(statement.value)
    elif isinstance(statement, (CopyBlock, Prefetch)):
        yield from _in_copy(statement)
    elif isinstance(statement, Loop):
        yield from _in_loop(statement)
    elif isinstance(statement, Multiple):
        yield statement.base
        yield from statement.ends
    elif isinstance(statement, Split):
        yield statement.number
        yield from statement.lengths
    elif isinstance(statement, Joined):
        yield from statement.lengths
        for part in statement.parts:
            yield from _in_value(part)
    elif isinstance(statement, Mask):
        yield from statement.ends
        for chosen in statement.results:
            yield from _in_value(chosen.value)
    elif isinstance(statement, When):
        yield statement.low
        yield statement.high
        yield from _in_value(statement.value)


def _in_loop(loop: Loop) -> Iterator[Extent]:
    yield loop.begin
    yield from loop.ends
    for carried in loop.carried:
        yield from _in_value(carried.start)
        if carried.update is not None:
            yield from _in_value(carried.update)


def _in_access(buffer: Buffer, index: Indices) -> Iterator[Extent]:
    """The extents of an access, including the products of symbolic indices and symbolic strides
    that its address contains.
    """
    for stride, at in zip(buffer.strides, index, strict=True):
        if not isinstance(at, Affine):
            yield from _in_value(at)
            continue
        yield at
        if type(stride) is not int:
            for variable in at.terms:
                if isinstance(variable, Symbol):
                    yield affine(size_of_extent(stride) * size_of_extent(variable))


def _in_value(value: Value) -> Iterator[Extent]:
    if isinstance(value, Position):
        yield value.position
    elif isinstance(value, Checked):
        yield value.bound
        yield from _in_value(value.value)
