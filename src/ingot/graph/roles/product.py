"""Products of matrices: ops that BLAS computes."""

from __future__ import annotations

from ingot.graph.roles.host import Host

__all__ = ["Product"]


class Product(Host, role=True):
    """Products of the matrices in the last two axes of two inputs, whose dtypes and other axes are
    equal: (..., m, k) and (..., k, n) give (..., m, n).

    Write the rules. Compiled programs call BLAS for dtypes that it has, with operands where they
    lie; for others the product is a host step.
    """

    why_host = "BLAS computes it as a whole"
