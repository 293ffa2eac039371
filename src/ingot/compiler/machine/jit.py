"""The JIT: from LLVM code to machine code, in this process. The only module that uses
`llvmlite.binding`, which is imported when the first kernel is compiled: code from the disk cache
runs without it where `object_file.py` can load it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
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

# LLVM is not thread-safe here; reentrant, because garbage collection may run users' code that
# compiles.
_lock = threading.RLock()


class _Machine:
    """The target machine of this process and its optimiser."""

    def __init__(self) -> None:
        llvm = llvm_binding()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.cpu: str = llvm.get_host_cpu_name()
        self.features: str = llvm.get_host_cpu_features().flatten()
        self.target = self._new_target()

    def _new_target(self) -> Any:
        return (
            llvm_binding()
            .Target.from_default_triple()
            .create_target_machine(
                cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="default"
            )
        )

    def new_engine(self) -> Any:
        """An engine that loads one object file and frees its code when it is deleted. It owns its
        target.
        """
        llvm = llvm_binding()
        empty = llvm.parse_assembly("", llvm.create_context())
        return llvm.create_mcjit_compiler(empty, self._new_target())

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
        passes.run(module, builder)
        # llvmlite does not free pass managers by itself: another base class hides the method that
        # does.
        llvm.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()
        return module


@lru_cache(maxsize=1)
def _machine() -> _Machine:
    return _Machine()


def machine_description() -> str:
    """What machine code depends on besides the LLVM code: the processor and the version of LLVM."""
    machine = _machine()
    version = ".".join(map(str, llvm_binding().llvm_version_info))
    return f"llvm {version} {machine.cpu} {machine.features}"


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
    """LLVM assembly into an object file."""
    with _lock:
        machine = _machine()
        found: bytes = machine.target.emit_object(machine.optimised(code))
        return found


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
        engine = _machine().new_engine()
        engine.add_object_file(llvm_binding().ObjectFileRef.from_data(data))
        engine.finalize_object()
        address: int = engine.get_function_address(function)
    if not address:
        raise RuntimeError(f"the object file has no function {function}; this is a bug in ingot.")
    return MachineCode.kept_by(engine, address, len(data))


def assembly(code: str) -> str:
    """The machine code for LLVM code, as text."""
    with _lock:
        machine = _machine()
        text: str = machine.target.emit_assembly(machine.optimised(code))
        return text
