"""Copies of single elements, and of square blocks that are transposed in registers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import CopyBlock
from ingot.compiler.llvm.code import Code, Register

__all__ = ["copy_block"]


def copy_block(
    code: Code,
    block: CopyBlock,
    target: Register,
    source: Register,
    number_of: Callable[[Affine], Register],
) -> None:
    """Copies the block that starts at an address in each of the two buffers. A vector holds one
    column, whose elements are adjacent in the source. `number_of` gives the register of a distance.
    """
    side, size = block.side, block.source.dtype.size
    down, right = (block.source.strides[axis] for axis in block.axes)
    row = block.target.strides[-2]
    element = f"i{8 * size}"
    on_stack = block.target.argument is None
    if side == 1:
        code.store(code.load(element, source, ", align 1"), target)
        return
    assert isinstance(down, int)
    assert isinstance(row, int)
    type = f"<{side} x {element}>"

    def moved(address: Register, distance: Affine) -> Register:
        is_zero = not distance.terms and distance.constant == 0
        return address if is_zero else code.offset(address, number_of(distance))

    # with negative strides, a vector starts at the last element
    lowest = 0 if down > 0 else (side - 1) * down
    vectors = [
        code.load(type, moved(source, affine(right) * number + lowest), ", align 1")
        for number in range(side)
    ]
    for number, vector in enumerate(_transposed(code, vectors)):
        distance = number if down > 0 else side - 1 - number
        address = moved(target, affine(distance * row))
        # on the stack, rows are aligned to whole vectors
        code.store(vector, address, f", align {side * size if on_stack else size}")


def _transposed(code: Code, vectors: list[Register]) -> list[Register]:
    """The rows of a square matrix given by its columns, by recursively swapping off-diagonal
    blocks.
    """
    side = len(vectors)
    distance = side // 2
    while distance:
        for number in range(side):
            if not number & distance:
                pair = vectors[number], vectors[number + distance]
                vectors[number] = _shuffled(code, pair, side, distance, 0)
                vectors[number + distance] = _shuffled(code, pair, side, distance, distance)
        distance //= 2
    return vectors


def _shuffled(
    code: Code, pair: tuple[Register, Register], side: int, distance: int, shift: int
) -> Register:
    """Alternating runs of `distance` elements of two vectors, starting at element `shift`."""
    first, second = pair
    return code.assign(
        first.type, f"shufflevector {first}, {second}, {_mask(side, distance, shift)}"
    )


@cache
def _mask(side: int, distance: int, shift: int) -> str:
    lanes = [
        side + lane - distance + shift if lane & distance else lane + shift for lane in range(side)
    ]
    return f"<{side} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"
