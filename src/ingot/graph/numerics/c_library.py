"""Functions of C's math library as ufuncs of NumPy.

NumPy has logarithms of its own, whose last bits differ. Whoever needs the bits that a C program
gets on the same machine takes the functions from here: NumPy's own loops, over pointers to them.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache
from typing import Any

import numpy as np

__all__ = ["c_function"]

# Places in the table of functions that NumPy exports to C, numpy/__ufunc_api.h: part of its ABI.
_UFUNC_OF_LOOPS = 1
_LOOP_OVER_DOUBLES = 5
_LOOP_OVER_FLOATS = 6

_NO_IDENTITY = -1
_Pair = ctypes.c_void_p * 2
_UfuncOfLoops = ctypes.PYFUNCTYPE(
    ctypes.py_object,
    *[ctypes.c_void_p] * 3,  # the loops, what each is given, the types of its operands
    *[ctypes.c_int] * 4,  # how many loops, inputs and outputs; the identity
    *[ctypes.c_void_p] * 2,  # the name, the documentation
    ctypes.c_int,  # not used
)


def c_function(name: str) -> np.ufunc:
    """The function `name` of float64 together with its sibling of float32, `name` and an f."""
    return _made(name)[0]


@cache
def _made(name: str) -> tuple[np.ufunc, Any]:
    """The ufunc, and what it points at without owning it."""
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
    # Where extensions look for it. The module is not a public one, hence not imported above.
    exporter: Any = importlib.import_module("numpy._core._multiarray_umath")
    return pointer_in(exporter._UFUNC_API, None)
