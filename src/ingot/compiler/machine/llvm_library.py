"""LLVM's C functions, in the library that llvmlite brings along.

Importing `llvmlite.binding` takes about 30 ms, as long as compiling two small kernels and mostly
for modules that write LLVM code, which this package does by itself; loading the library takes 6.
llvmlite also puts a lock around every call, although several threads may use LLVM at a time if
each has its own context and target machine.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any

from ingot.graph.deferred import Deferred
from ingot.graph.libraries import llvm_binding

if TYPE_CHECKING:
    from importlib import util as importing
else:
    importing = Deferred("importlib.util")

__all__ = ["LLVM", "SIGNATURES", "SIZED", "library_file", "llvm"]

_LIBRARY = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}.get(
    sys.platform, "libllvmlite.so"
)
_TEXT = ctypes.POINTER(c_char_p)  # through which a function returns a string

# The functions: what each returns and takes. Versions of llvmlite before 0.48 have a third
# argument of the functions in `SIZED`, the level of size optimisation; later ones ignore it.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "GetVersionInfo": (c_uint,),
    "DisposeString": (None, c_void_p),
    "InitializeNativeTarget": (c_int,),
    "InitializeNativeAsmPrinter": (c_int,),
    "GetHostCPUName": (None, _TEXT),
    "GetHostCPUFeatures": (c_int, _TEXT),
    "GetDefaultTargetTriple": (None, _TEXT),
    "GetTargetFromTriple": (c_void_p, c_char_p, _TEXT),
    "CreateTargetMachine": (
        c_void_p,
        c_void_p,
        *(c_char_p, c_char_p, c_char_p),  # triple, processor, features
        c_int,  # the level of optimisation
        *(c_char_p, c_char_p),  # relocation and code models
        *(c_int, c_int),  # whether to print machine code, and whether it is for a JIT
        c_char_p,  # the ABI
    ),
    "ContextCreate": (c_void_p,),
    "ContextDispose": (None, c_void_p),
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _TEXT),
    "VerifyModule": (c_bool, c_void_p, _TEXT),
    "DisposeModule": (None, c_void_p),
    "CreatePipelineTuningOptions": (c_void_p,),
    "PTOSetLoopVectorization": (None, c_void_p, c_bool),
    "PTOSetLoopInterleaving": (None, c_void_p, c_bool),
    "PTOSetLoopUnrolling": (None, c_void_p, c_bool),
    "PTOSetSLPVectorization": (None, c_void_p, c_bool),
    "CreatePassBuilder": (c_void_p, c_void_p, c_void_p),
    "DisposePassBuilder": (None, c_void_p),
    "buildPerModuleDefaultPipeline": (c_void_p, c_void_p, c_int, c_int),
    "module_AddAlwaysInlinerPass": (None, c_void_p),
    "RunNewModulePassManager": (None, c_void_p, c_void_p, c_void_p),
    "DisposeNewModulePassManger": (None, c_void_p),
    "CreateNewModulePassManager": (c_void_p,),
    "buildFunctionSimplificationPipeline": (c_void_p, c_void_p, c_int, c_int),
    "GetNamedFunction": (c_void_p, c_void_p, c_char_p),
    "RunNewFunctionPassManager": (None, c_void_p, c_void_p, c_void_p),
    "DisposeNewFunctionPassManger": (None, c_void_p),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _TEXT),
    "GetBufferStart": (c_void_p, c_void_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "DisposeMemoryBuffer": (None, c_void_p),
}
SIZED = ("buildPerModuleDefaultPipeline", "buildFunctionSimplificationPipeline")
# Major versions of LLVM with which the signatures were compared (llvmlite 0.45 to 0.50).
_KNOWN_VERSIONS = (20, 22)


class LLVM:
    """The functions of LLVM as attributes, named as in `SIGNATURES`."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, f"LLVMPY_{name}")
        function.restype, *function.argtypes = SIGNATURES[name]
        setattr(self, name, function)
        return function

    @property
    def version(self) -> tuple[int, int, int]:
        """The version of LLVM."""
        number = self.GetVersionInfo()
        return number >> 16, number >> 8 & 255, number & 255

    def text(self, function: Callable[..., object], *arguments: object) -> str:
        """The string that a function returns through its last argument; "" if there is none."""
        return self.result_and_text(function, *arguments)[1]

    def result_and_text(
        self, function: Callable[..., object], *arguments: object
    ) -> tuple[Any, str]:
        """The result of a function, and what it returns through its last argument."""
        out = c_char_p()
        result = function(*arguments, ctypes.byref(out))
        text = (out.value or b"").decode(errors="replace")
        self.DisposeString(out)
        return result, text


@cache
def llvm() -> LLVM:
    """LLVM, loaded."""
    found = library_file()
    path = llvm_binding().ffi.lib._name if found is None else found[0]
    library = LLVM(path)
    if library.version[0] not in _KNOWN_VERSIONS:
        _compare_signatures(library)
    return library


def _compare_signatures(library: LLVM) -> None:
    """ImportError unless llvmlite declares the functions in the same way."""
    theirs = llvm_binding().ffi.lib
    for name, (_, *ours) in SIGNATURES.items():
        declared = getattr(theirs, f"LLVMPY_{name}", None)
        expected = len(ours) - (name in SIZED)
        if declared is None or len(declared.argtypes or ours) not in (expected, len(ours)):
            version = ".".join(map(str, library.version))
            raise ImportError(
                f"this version of llvmlite, with LLVM {version}, has another function {name} than "
                f"ingot knows; install llvmlite 0.50."
            )


@cache
def library_file() -> tuple[str, int, int] | None:
    """The file of LLVM, its size and its time. Looked for where imports look first, because the
    import system takes 0.15 ms to say where.
    """
    for folder in sys.path:
        found = _library_in(os.path.join(folder, "llvmlite"))
        if found is not None:
            return found
    spec = importing.find_spec("llvmlite")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return next(filter(None, map(_library_in, folders)), None)


def _library_in(package: str) -> tuple[str, int, int] | None:
    path = os.path.join(package, "binding", _LIBRARY)
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_size, status.st_mtime_ns
