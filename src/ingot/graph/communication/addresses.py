"""The addresses of MPI's functions and the values of its handles, for the extension.

The extension is not linked with an MPI library, because which one there is turns out when mpi4py
is imported: it calls functions of the library that mpi4py has loaded, by address.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

__all__ = ["address_of", "handle_bytes"]


@cache
def address_of(mpi: Any, function: str) -> int:
    """The address of one of MPI's functions."""
    # A search by the handle of mpi4py's own library covers those that it is linked with.
    found = ctypes.cast(getattr(ctypes.CDLL(mpi.__file__), function), ctypes.c_void_p).value
    assert found is not None
    return found


def handle_bytes(mpi: Any) -> int:
    """The size of a handle, which tells what it is: an int or a pointer."""
    size: int = mpi._sizeof(mpi.Comm)
    return size
