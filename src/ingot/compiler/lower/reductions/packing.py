"""Packing: strided elements of a row, or of a block of it, copied to the stack before they are
reduced, or picked from vectors in registers if they are read only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.lower.domain import Operand
from ingot.compiler.lower.group import GroupBuilder, Memory, Point
from ingot.graph.dtype import bool_, complex64
from ingot.graph.numerics.reduction_order import LANES
from ingot.tuning import MAX_PACKED_BYTES

__all__ = ["has_gaps", "is_stepped", "packed", "packed_block", "picked"]

STEPS = (2, 4)  # distances of elements of which a vector is picked from as many adjacent ones


def has_gaps(builder: GroupBuilder, operand: Operand, axis: int, length: Number) -> bool:
    """Whether the elements of an operand along an axis, so many at most, are not adjacent in memory
    and are few enough to be copied to the stack.
    """
    stride = operand.strides[axis]
    if is_symbolic(stride) or is_symbolic(length):
        return False
    if builder.read_of[operand.step].buffer.argument is None:  # has been copied
        return False
    size = operand.dtype.size
    return abs(stride) not in (0, size) and length * size <= MAX_PACKED_BYTES


def packed(
    builder: GroupBuilder,
    operand: Operand,
    axis: int,
    most: int,
    point: Point,
    first: Affine,
    *ends: Affine,
) -> Memory:
    """Copies a range of an operand along an axis, of `most` elements at most, to the stack."""
    source = builder.read_of[operand.step]
    buffer = builder.stack(f"packed{len(builder.nest.buffers)}", operand.dtype, (most,))
    with builder.loop(first, *ends, kind="vector") as index:
        here = (*point[:axis], affine(index), *point[axis + 1 :])
        value = builder.load(source.buffer, source.index(here))
        builder.store(value, buffer, (affine(index) - first,))
    return Memory(buffer, (axis,), (*point[:axis], first, *point[axis + 1 :]))


@contextmanager
def packed_block(
    builder: GroupBuilder,
    axes: tuple[int, ...],
    length: Number,
    block: int,
    lanes: int,
    point: Point,
    number: Affine,
) -> Iterator[None]:
    """Copies elements of a block to the stack if there are gaps between them in memory: lanes are
    too few for LLVM to load the gaps along with the elements.
    """
    read_of = builder.read_of
    if len(axes) == 1:
        (axis,) = axes
        most = min(block, length)
        first = number * block
        ends = [first + block, affine(length)] if length > block else [affine(most)]
        builder.read_of = {
            operand.step: packed(builder, operand, axis, most, point, first, *ends)
            if has_gaps(builder, operand, axis, most)
            and not is_stepped(builder, operand, axes, lanes)
            else read_of[operand.step]
            for operand in builder.reads
        }
    yield
    builder.read_of = read_of


def is_stepped(builder: GroupBuilder, operand: Operand, axes: tuple[int, ...], lanes: int) -> bool:
    """Whether so many elements of an operand along the reduced axes are picked from vectors."""
    memory = builder.read_of[operand.step]
    if len(axes) > 1 or memory.buffer.argument is None or memory.axes[-1:] != axes:
        return False
    stride, length = operand.strides[axes[0]], memory.buffer.shape[-1]
    if is_symbolic(stride) or not isinstance(length, int):
        return False
    if operand.dtype is bool_ or operand.dtype is complex64:
        return False
    step, rest = divmod(stride, operand.dtype.size)
    return rest == 0 and step in STEPS and lanes % step == 0


@contextmanager
def picked(
    builder: GroupBuilder, axes: tuple[int, ...], point: Point, first: Affine, lanes: int
) -> Iterator[None]:
    """Has elements of operands along an axis, from `first` on, picked from vectors of all elements
    between them, instead of read one by one.
    """
    read_of = builder.read_of
    builder.read_of = {
        operand.step: _picked(builder, operand, axes[0], point, first, lanes)
        if is_stepped(builder, operand, axes, lanes)
        else read_of[operand.step]
        for operand in builder.reads
    }
    yield
    builder.read_of = read_of


def _picked(
    builder: GroupBuilder, operand: Operand, axis: int, point: Point, first: Affine, lanes: int
) -> Memory:
    """Picks elements of one operand. They are stored side by side, which LLVM optimises away. A
    vector ends with the last element that is picked: beyond it, there may be no memory.
    """
    memory = builder.read_of[operand.step]
    source, size = memory.buffer, operand.dtype.size
    step, length = operand.strides[axis] // size, source.shape[-1]
    assert isinstance(length, int)
    whole = builder.buffer(
        source.name,
        source.dtype,
        (*source.shape[:-1], (length - 1) * step + 1),
        (*source.strides[:-1], size),
        source.argument,
        source.offset,
        source.origin,
    )
    buffer = builder.stack(f"picked{len(builder.nest.buffers)}", operand.dtype, (lanes,))
    outer = memory.index(point)[:-1]
    together = min(lanes, LANES)
    share = together // step
    for at in range(0, lanes, share):
        last = at // together * together + together - 1
        begin = min(at * step, last * step + 1 - together)
        found = builder.load_lanes(whole, (*outer, first * step + begin), together)
        some = builder.some_lanes(found, at * step - begin, share, step)
        builder.store(some, buffer, (affine(at),))
    return Memory(buffer, (axis,), (*point[:axis], first, *point[axis + 1 :]))
