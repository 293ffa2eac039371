"""mlx.core.linalg: systems of linear equations, decompositions of matrices, norms."""

from ingot.graph.boundary import check_functions as _check_functions
from ingot.graph.reporting.foreign import name_missing as _name_missing
from ingot.ops.linalg.decompositions import cholesky, lu, lu_factor, qr
from ingot.ops.linalg.eigenvalues import eig, eigh, eigvals, eigvalsh
from ingot.ops.linalg.linear_systems import (
    cholesky_inv,
    det,
    inv,
    slogdet,
    solve,
    solve_triangular,
    tri_inv,
)
from ingot.ops.linalg.singular_values import pinv, svd
from ingot.ops.reduce.norms import cross, norm

__all__ = [
    "cholesky",
    "cholesky_inv",
    "cross",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lu",
    "lu_factor",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "tri_inv",
]

_check_functions(globals(), __all__, "linalg.")
_name_missing(globals())
