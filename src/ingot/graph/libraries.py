"""Libraries that are slow to import and that few programs need: each is imported on first use.

`import ingot.core` must stay fast, so this is the one module whose functions import. It also keeps
the thread counts of the BLAS libraries that these load equal to the pool's.

Submodules are imported by `from`, which also finds one that is loaded but not yet an attribute of
its package: Ctrl-C during an import can leave it so.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from types import ModuleType
from typing import Any

from ingot import _native

__all__ = [
    "diff_library",
    "limit_blas_threads",
    "llvm_binding",
    "mpi_library",
    "opt_einsum_paths",
    "prepare_blas",
    "rich_library",
    "scipy_blas",
    "scipy_fft",
    "scipy_lapack",
    "scipy_linalg",
    "scipy_special",
    "zip_library",
]

# Each of these loads a BLAS library with a thread count of its own.
_BLAS_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@cache
def diff_library() -> ModuleType:
    """Python's difflib: the nearest of several names."""
    import difflib

    return difflib


@cache
def zip_library() -> ModuleType:
    """Python's zipfile: archives of arrays."""
    import zipfile

    return zipfile


@cache
def llvm_binding() -> ModuleType:
    """llvmlite's modules, for loading code that `object_file.py` cannot load."""
    from llvmlite import binding

    module: ModuleType = binding
    return module


@cache
def mpi_library() -> Any:
    """MPI through mpi4py, loaded but not started; None if it or an MPI library is missing."""
    try:
        import mpi4py

        # Loading would start MPI, which then has to be ended: only groups of processes need that.
        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return None
    return MPI


@cache
def scipy_blas() -> ModuleType:
    """SciPy's BLAS, whose functions native code can call by address."""
    from scipy.linalg import cython_blas

    _after_loading_blas()
    module: ModuleType = cython_blas
    return module


@cache
def scipy_fft() -> ModuleType:
    """SciPy's Fourier transforms."""
    from scipy import fft

    module: ModuleType = fft
    return module


@cache
def scipy_lapack() -> ModuleType:
    """SciPy's LAPACK, whose functions native code can call by address."""
    from scipy.linalg import cython_lapack

    _after_loading_blas()
    module: ModuleType = cython_lapack
    return module


@cache
def scipy_linalg() -> ModuleType:
    """SciPy's matrix decompositions, with LAPACK's routines in its module `lapack`."""
    from scipy import linalg

    _after_loading_blas()
    module: ModuleType = linalg
    return module


@cache
def scipy_special() -> ModuleType:
    """SciPy's special functions."""
    from scipy import special

    _after_loading_blas()
    module: ModuleType = special
    return module


@cache
def rich_library() -> Any:
    """Rich, which draws tables on terminals, with the modules used here; None if it is not
    installed.
    """
    try:
        import rich.box
        import rich.console
        import rich.markup
        import rich.progress
        import rich.table
    except ImportError:
        return None
    return rich


@cache
def opt_einsum_paths() -> ModuleType:
    """The search for the cheapest contraction order of an Einstein summation."""
    from opt_einsum import paths

    module: ModuleType = paths
    return module


def limit_blas_threads() -> None:
    """Make every loaded BLAS library use as many threads as the pool, or one where results must not
    depend on the number of threads.

    Must be called again after loading another library, such as SciPy's, because it starts with its
    own default.
    """
    import threadpoolctl

    threads = 1 if _native.is_deterministic() else _native.get_num_threads()
    threadpoolctl.threadpool_limits(limits=threads, user_api="blas")


@cache
def prepare_blas() -> None:
    """Make NumPy's BLAS use as many threads as the pool; must be called before its first use."""
    _after_loading_blas()


def _after_loading_blas() -> None:
    # Libraries default to one thread per available CPU, and looking them up takes 20 ms.
    if (
        _native.is_deterministic()
        or _native.get_num_threads() != _usable_cpus()
        or any(map(os.environ.get, _BLAS_VARIABLES))
    ):
        limit_blas_threads()


def _usable_cpus() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
