"""The JIT: from LLVM code to machine code, in this process. The only module that uses
`llvmlite.binding`, which is imported when the first kernel is compiled: code from the disk cache
runs without it where `object_file.py` can load it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from ingot._native import MachineCode
from ingot.compiler.machine.object_file import Image, image_of, undefined_symbols
from ingot.graph.libraries import llvm_binding
from ingot.runtime.processor import processor_description

__all__ = [
    "assembly",
    "code_version",
    "compile_object",
    "linked",
    "load_object",
    "machine_description",
]

_LIBRARY = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}.get(
    sys.platform, "libllvmlite.so"
)

# For loading through LLVM; reentrant, because garbage collection may run users' code that compiles.
_lock = threading.RLock()


@lru_cache(maxsize=1)
def _host() -> tuple[str, str]:
    """The processor as LLVM knows it, and its features."""
    llvm = llvm_binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _new_target() -> Any:
    cpu, features = _host()
    target = llvm_binding().Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default"
    )


def _new_engine() -> Any:
    """An engine that loads one object file and frees its code when it is deleted. It owns its
    target.
    """
    llvm = llvm_binding()
    empty = llvm.parse_assembly("", llvm.create_context())
    return llvm.create_mcjit_compiler(empty, _new_target())


@cache
def _unlocked(name: str) -> Any:
    """A function of LLVM's without the lock that llvmlite puts around every call. LLVM may be used
    by several threads at a time as long as each has its own context and target machine.
    """
    library = llvm_binding().ffi.lib
    locked = getattr(library, name)
    function = getattr(ctypes.CDLL(library._name, handle=library._handle), name)
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function


class _Machine:
    """A target machine and its optimiser, for one thread at a time."""

    def __init__(self) -> None:
        self.target = _new_target()

    def object_file(self, code: str) -> bytes:
        """The object file of a module."""
        library = llvm_binding().ffi.lib
        with llvm_binding().ffi.OutputString() as error:
            emit = _unlocked("LLVMPY_TargetMachineEmitToMemory")
            buffer = emit(self.target, self.optimised(code), 1, error)
            if not buffer:
                raise RuntimeError(f"LLVM emits no machine code: {error}; this is a bug in ingot.")
        try:
            size = library.LLVMPY_GetBufferSize(buffer)
            return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), size)
        finally:
            library.LLVMPY_DisposeMemoryBuffer(buffer)

    def optimised(self, code: str) -> Any:
        """A module after LLVM's passes."""
        llvm = llvm_binding()
        # A context of its own, because types and constants live as long as their context.
        module = llvm.parse_assembly(code, llvm.create_context())
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        options.loop_interleaving = True
        options.loop_unrolling = True
        # loops are vectorised; SLP vectorisation of scalar code is not worth its compile time
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(self.target, options)
        passes = builder.getModulePassManager()
        _unlocked("LLVMPY_RunNewModulePassManager")(passes, module, builder)
        # llvmlite does not free pass managers by itself: another base class hides the method that
        # does.
        llvm.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()
        return module


_idle: list[_Machine] = []  # as many as threads have compiled at a time


@contextmanager
def _machine() -> Iterator[_Machine]:
    """A machine that no one else uses meanwhile: neither another thread, nor users' code that
    garbage collection runs in this one.
    """
    try:
        machine = _idle.pop()
    except IndexError:
        machine = _Machine()
    try:
        yield machine
    finally:
        _idle.append(machine)


def machine_description() -> str:
    """What machine code depends on besides the LLVM code: the processor and the version of LLVM."""
    cpu, features = _host()
    version = ".".join(map(str, llvm_binding().llvm_version_info))
    return f"llvm {version} {cpu} {features}"


@cache
def code_version() -> str:
    """What machine code depends on besides the LLVM code, without loading LLVM: the processor as
    the system describes it, and the file of the LLVM library.
    """
    library, processor = _library(), processor_description()
    return f"{library} {processor}" if library and processor else machine_description()


def _library() -> tuple[str, int, int] | None:
    """The file of LLVM, its size and its time. Looked for where imports look first, because the
    import system takes 0.15 ms to say where.
    """
    for folder in sys.path:
        found = _library_in(os.path.join(folder, "llvmlite"))
        if found is not None:
            return found
    spec = importlib.util.find_spec("llvmlite")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return next(filter(None, map(_library_in, folders)), None)


def _library_in(package: str) -> tuple[str, int, int] | None:
    path = os.path.join(package, "binding", _LIBRARY)
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_size, status.st_mtime_ns


def compile_object(code: str) -> bytes:
    """LLVM assembly into an object file. Threads may do so at the same time."""
    with _machine() as machine:
        return machine.object_file(code)


def linked(data: bytes) -> bytes:
    """An object file as the disk cache holds it: as an image, if it can be loaded without LLVM."""
    image = image_of(data)
    return data if image is None or image.missing() else image.packed()


def load_object(data: bytes, function: str) -> MachineCode:
    """Loads an object file, linked or not, for one of its functions."""
    image = Image.unpacked(data) or image_of(data)
    if image is not None and function in image.functions and not image.missing():
        return image.loaded(function)
    with _lock:
        for name in undefined_symbols(data):
            if llvm_binding().address_of_symbol(name) is None:
                raise RuntimeError(
                    f"machine code calls {name}, which no library defines; this is a bug in ingot."
                )
        engine = _new_engine()
        engine.add_object_file(llvm_binding().ObjectFileRef.from_data(data))
        engine.finalize_object()
        address: int = engine.get_function_address(function)
    if not address:
        raise RuntimeError(f"the object file has no function {function}; this is a bug in ingot.")
    return MachineCode.kept_by(engine, address, len(data))


def assembly(code: str) -> str:
    """The machine code for LLVM code, as text."""
    with _machine() as machine:
        text: str = machine.target.emit_assembly(machine.optimised(code))
        return text
