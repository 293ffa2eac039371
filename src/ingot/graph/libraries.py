"""Libraries that take long to import and that few programs need: each is imported on its first use.

`import ingot.core` must stay quick, so this is the one module whose functions import.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

__all__ = ["scipy_sparse", "scipy_special"]


@cache
def scipy_sparse() -> ModuleType:
    """SciPy's sparse matrices."""
    import scipy.sparse

    module: ModuleType = scipy.sparse
    return module


@cache
def scipy_special() -> ModuleType:
    """SciPy's special functions."""
    import scipy.special

    module: ModuleType = scipy.special
    return module
