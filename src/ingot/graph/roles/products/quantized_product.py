"""Products with quantised matrices: ops that read packed codes in place."""

from __future__ import annotations

from ingot.graph.roles.products.tiled import Tiled

__all__ = ["QuantizedProduct"]


class QuantizedProduct(Tiled, role=True):
    """The product of rows and a transposed matrix of codes: (..., k) and (n, words) give (..., n).

    The inputs are the rows, the packed codes, their scales and, in mode "affine", their biases, as
    `mx.quantize` makes them. Write the fields. Programs unpack codes in registers where rows are
    few, and to panels where they are many.
    """

    mode: str  # "affine", "mxfp4", "mxfp8" or "nvfp4"
    group_size: int  # codes along a row that share a scale
    bits: int  # of a code

    why_host = "it has operands that are read element by element"
