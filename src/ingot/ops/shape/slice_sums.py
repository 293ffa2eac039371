"""Sums of cotangents that are zero but for a slice, as concatenations.

The cotangent of a slice is an array of zeros with the slice filled in. An array that is read in
several slices, such as the gates of an LSTM, gets the sum of several such arrays. If the slices are
ranges of one axis that do not overlap, the sum is a concatenation, which writes each element once.
"""

from __future__ import annotations

from typing import Any

from ingot._native import Node, array, wrap
from ingot.graph.op import apply
from ingot.ops.internal.adjoints import Broadcast
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.joining import Concatenate
from ingot.ops.shape.slicing import SliceUpdate

__all__ = ["sum_of_slices"]

MAX_BLOCKS = 1024  # of a concatenation, which is copied for each slice


def sum_of_slices(earlier: array, share: array) -> array | None:
    """The sum of two arrays, the second of which is zero but for a slice; None if it is not a
    concatenation.
    """
    found = _range(share._node)
    if found is None:
        return None
    axis, start, stop, update = found
    blocks = _blocks(earlier._node, axis)
    if not 0 < len(blocks) < MAX_BLOCKS:
        return None
    begin = 0
    for number, block in enumerate(blocks):
        end = begin + block.shape[axis]
        if begin <= start and stop <= end:
            if not _is_zero(block):
                return None
            gaps = [_zeros_like(block, axis, length) for length in (start - begin, end - stop)]
            filled = [gaps[0], wrap(update), gaps[1]]
            kept = [x for x in filled if x.shape[axis] > 0]
            before, after = blocks[:number], blocks[number + 1 :]
            return apply(Concatenate(axis), *map(wrap, before), *kept, *map(wrap, after))
        begin = end
    return None


def _range(node: Node) -> tuple[int, int, int, Node] | None:
    """The axis, start and stop of the range outside which an array is zero, and what is in it;
    None if it is not of this kind.
    """
    op: Any = node.op
    if type(op) is not SliceUpdate or not _is_zero(node.inputs[0]):
        return None
    if any(type(x) is not int for x in (*op.start, *op.stop, *op.strides, *node.shape)):
        return None  # lengths that vary, whose comparisons would be guards
    if set(op.strides) != {1}:
        return None
    whole = [a == 0 and b == n for a, b, n in zip(op.start, op.stop, node.shape, strict=True)]
    if whole.count(False) != 1:
        return None
    axis = whole.index(False)
    return axis, op.start[axis], op.stop[axis], node.inputs[1]


def _blocks(node: Node, axis: int) -> list[Node]:
    """The blocks along an axis that an array is made of; none if it has another form."""
    op: Any = node.op
    if type(op) is Concatenate:
        return list(node.inputs) if op.axis == axis else []
    found = _range(node)
    if found is None or found[0] != axis:
        return []
    _, start, stop, update = found
    gaps = [_zeros_like(node, axis, n)._node for n in (start, node.shape[axis] - stop)]
    return [x for x in (gaps[0], update, gaps[1]) if x.shape[axis] > 0]


def _is_zero(node: Node) -> bool:
    """Whether a node is a constant of zeros, as `zeros` makes it."""
    if type(node.op) is not Broadcast:
        return False
    (source,) = node.inputs
    return source.op is None and source.evaluated and source.shape == () and not source.data


def _zeros_like(node: Node, axis: int, length: int) -> array:
    shape = list(node.shape)
    shape[axis] = length
    return zeros(shape, node.dtype)
