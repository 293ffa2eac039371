"""The order in which floating-point numbers are summed and multiplied: a function of shapes alone.

Results then do not depend on fusion, on the strides of arrays or on the number of threads. The
`evaluate` rules (`ops/internal/summation.py`) and kernels (`compiler/lower/reductions/`) both
follow it.

- The reduced elements are in row-major order of the reduced axes. The last reduced axis and the
  reduced axes adjacent to it, added one by one while they have fewer than `BLOCK` elements, are the
  inner axes; the other reduced axes are the outer ones. Axes of length 1 are ignored.
- The inner axes are divided into blocks of `BLOCK` elements. Element i of a block belongs to lane
  i modulo `LANES`. A lane adds its elements sequentially; then the upper half of the lanes is added
  to the lower half until one is left. Lanes without elements have no effect.
- The sums of the blocks are added sequentially in groups of `PART`, and then the sums of the groups
  are added sequentially. For sums of float32 and half types these totals are float64.
- All of that starts from zero, or one for products. Half types are float32 until the result is
  rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BLOCK", "LANES", "PART", "inner_axes"]

LANES = 32  # two of the widest vectors, so that consecutive additions are independent
BLOCK = 512
PART = 16  # blocks per unit of work for a thread


def inner_axes(lengths: Sequence[int], reduced: Sequence[int]) -> tuple[int, ...]:
    """The inner ones of the sorted reduced axes of a shape without axes of length 1."""
    first = len(reduced) - 1
    together = lengths[reduced[first]]
    while first > 0 and reduced[first - 1] == reduced[first] - 1 and together < BLOCK:
        first -= 1
        together *= lengths[reduced[first]]
    return tuple(reduced[first:])
