"""Functions of C's math library as NumPy ufuncs.

NumPy has its own logarithms, whose last bits differ. Code that needs the bits of a C program on the
same machine takes the functions from here: NumPy's generic loops over pointers to them.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache
from typing import Any

import numpy as np

__all__ = ["c_function"]

# Indices into the table of functions that NumPy exports to C, numpy/__ufunc_api.h: part of its ABI.
_UFUNC_OF_LOOPS = 1
_LOOP_OVER_DOUBLES = 5
_LOOP_OVER_FLOATS = 6

_NO_IDENTITY = -1
_Pair = ctypes.c_void_p * 2
_UfuncOfLoops = ctypes.PYFUNCTYPE(
    ctypes.py_object,
    *[ctypes.c_void_p] * 3,  # the loops, the data of each, the types of its operands
    *[ctypes.c_int] * 4,  # how many loops, inputs and outputs; the identity
    *[ctypes.c_void_p] * 2,  # the name, the documentation
    ctypes.c_int,  # not used
)


def c_function(name: str) -> np.ufunc:
    """The float64 function `name` together with its float32 counterpart, `name` with
    the suffix f.
    """
    return _made(name)[0]


@cache
def _made(name: str) -> tuple[np.ufunc, Any]:
    """The ufunc, and the objects it points to without owning them."""
    table = ctypes.cast(_exported_by_numpy(), ctypes.POINTER(ctypes.c_void_p))
    library = ctypes.CDLL(None)
    siblings = (getattr(library, f"{name}f"), getattr(library, name))
    functions = _Pair(*(ctypes.cast(sibling, ctypes.c_void_p) for sibling in siblings))
    loops = _Pair(table[_LOOP_OVER_FLOATS], table[_LOOP_OVER_DOUBLES])
    types = ctypes.create_string_buffer(bytes(np.dtype(kind).num for kind in "ffdd"))
    text = ctypes.create_string_buffer(name.encode())
    pointers = [ctypes.addressof(memory) for memory in (loops, functions, types, text)]
    ufunc_of_loops = _UfuncOfLoops(table[_UFUNC_OF_LOOPS] or 0)
    ufunc = ufunc_of_loops(*pointers[:3], 2, 1, 1, _NO_IDENTITY, pointers[3], pointers[3], 0)
    return ufunc, (library, functions, loops, types, text)


def _exported_by_numpy() -> Any:
    pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_in.restype = ctypes.c_void_p
    pointer_in.argtypes = (ctypes.py_object, ctypes.c_char_p)
    # The table's location for extensions. The module is private, hence not imported above.
    exporter: Any = importlib.import_module("numpy._core._multiarray_umath")
    return pointer_in(exporter._UFUNC_API, None)
