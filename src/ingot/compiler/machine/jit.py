"""The JIT: from LLVM code to machine code, in this process. LLVM is loaded when the first kernel is
compiled: code from the disk cache runs without it where `object_file.py` can load it.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from ingot._native import MachineCode
from ingot.compiler.llvm.module import IN_VECTORS
from ingot.compiler.machine.llvm_library import library_file, llvm
from ingot.compiler.machine.object_file import Image, image_of, undefined_symbols
from ingot.graph.deferred import Deferred
from ingot.graph.libraries import llvm_binding
from ingot.runtime.processor import gathers_slowly, processor_description

if TYPE_CHECKING:
    from ingot.compiler.machine import scaling
else:
    scaling = Deferred("ingot.compiler.machine.scaling")

__all__ = [
    "assembly",
    "code_version",
    "compile_object",
    "linked",
    "load_object",
    "machine_description",
]

_DEFINED = re.compile(r"^define [^@]*@([\w.]+)\(", re.MULTILINE)  # functions of a module
# what asks LLVM to vectorise or unroll: stores of numbers, and hints
_FOR_LOOPS = re.compile(r"^  store [^<]|llvm\.loop\.(?:vectorize|unroll\.count)", re.MULTILINE)

# For loading through LLVM; reentrant, because garbage collection may run users' code that compiles.
_lock = threading.RLock()


@cache
def _host() -> tuple[str, str]:
    """The processor as LLVM knows it, and its features."""
    library = llvm()
    library.InitializeNativeTarget()
    library.InitializeNativeAsmPrinter()
    features = [*library.text(library.GetHostCPUFeatures).split(","), *_preferences()]
    return library.text(library.GetHostCPUName), ",".join(sorted(features, key=lambda x: x[1:]))


def _preferences() -> list[str]:
    """What LLVM does not know of the processor, as features."""
    return ["+prefer-no-gather"] if gathers_slowly() else []


class _Machine:
    """A target machine and its optimiser, for one thread at a time."""

    def __init__(self) -> None:
        self.target = self._new_target()
        self._options = llvm().CreatePipelineTuningOptions()
        llvm().PTOSetLoopVectorization(self._options, True)
        llvm().PTOSetLoopInterleaving(self._options, True)
        llvm().PTOSetLoopUnrolling(self._options, True)
        # loops are vectorised; SLP vectorisation of scalar code is not worth its compile time
        llvm().PTOSetSLPVectorization(self._options, False)

    def _new_target(self) -> int:
        library, (cpu, features) = llvm(), _host()
        triple = library.text(library.GetDefaultTargetTriple).encode()
        target, error = library.result_and_text(library.GetTargetFromTriple, triple)
        if error:
            raise RuntimeError(f"LLVM has no target for this machine: {error}.")
        options = (cpu.encode(), features.encode(), 3, b"pic", b"default", 0, 0, b"")
        made: int = library.CreateTargetMachine(target, triple, *options)
        return made

    def object_file(self, code: str) -> bytes:
        """The object file of a module."""
        return self._emitted(code, True)

    def assembly(self, code: str) -> str:
        """The machine code of a module, as text."""
        return self._emitted(code, False).decode()

    def _emitted(self, code: str, is_binary: bool) -> bytes:
        library = llvm()
        with self._optimised(code) as module:
            buffer, error = library.result_and_text(
                library.TargetMachineEmitToMemory, self.target, module, is_binary
            )
        if not buffer:
            raise RuntimeError(f"LLVM emits no machine code: {error}; this is a bug in ingot.")
        try:
            size = library.GetBufferSize(buffer)
            return ctypes.string_at(library.GetBufferStart(buffer), size)
        finally:
            library.DisposeMemoryBuffer(buffer)

    @contextmanager
    def _optimised(self, code: str) -> Iterator[int]:
        """A module after LLVM's passes."""
        library = llvm()
        # A context of its own, because types and constants live as long as their context.
        context = library.ContextCreate()
        module = None
        try:
            text = scaling.with_scaling(code, library.version[0]).encode()
            module, error = library.result_and_text(library.ParseAssembly, context, text)
            if not error:
                error = library.text(library.VerifyModule, module)
            if error:
                raise RuntimeError(f"LLVM rejects the code: {error}; this is a bug in ingot.")
            self._optimise(module, code)
            yield module
        finally:
            if module:
                library.DisposeModule(module)
            library.ContextDispose(context)

    def _optimise(self, module: int, code: str) -> None:
        """Runs LLVM's passes. Their builder is new each time: llvmlite adds callbacks to it in each
        run, all of which every pass of later runs would call.
        """
        library = llvm()
        builder = library.CreatePassBuilder(self.target, self._options)
        if _is_simple(code):
            self._simplify(module, code, builder)
        else:
            # O1 leaves out what finds redundant loads, stores and branches, of which loops in
            # vectors have none, and takes 0.75 of the time.
            level = 1 if code.startswith(IN_VECTORS) else 3
            passes = library.buildPerModuleDefaultPipeline(builder, level, 0)
            # of variants for vectors, which loops call once they are vectorised
            library.module_AddAlwaysInlinerPass(passes)
            library.RunNewModulePassManager(passes, module, builder)
            library.DisposeNewModulePassManger(passes)
        library.DisposePassBuilder(builder)

    def _simplify(self, module: int, code: str, builder: int) -> None:
        """Runs fewer passes, on each function by itself, without those that vectorise and unroll
        loops, which take a third of the time.
        """
        library = llvm()
        inlining = library.CreateNewModulePassManager()
        library.module_AddAlwaysInlinerPass(inlining)
        library.RunNewModulePassManager(inlining, module, builder)
        library.DisposeNewModulePassManger(inlining)
        passes = library.buildFunctionSimplificationPipeline(builder, 1, 0)
        for name in _DEFINED.findall(code):
            function = library.GetNamedFunction(module, name.encode())
            if function:  # it is gone if it was inlined
                library.RunNewFunctionPassManager(passes, function, builder)
        library.DisposeNewFunctionPassManger(passes)


def _is_simple(code: str) -> bool:
    """Whether there are no loops, or only such that LLVM need neither vectorise nor unroll: those
    of products, if nothing but vectors is stored.
    """
    if "\n  br " not in code:
        return True
    return code.startswith(IN_VECTORS) and not _FOR_LOOPS.search(code)


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
    """The dependencies of machine code besides LLVM IR: the processor and the version of LLVM."""
    cpu, features = _host()
    version = ".".join(map(str, llvm().version))
    return f"llvm {version} {cpu} {features}"


@cache
def code_version() -> str:
    """What machine code depends on besides the LLVM code, without loading LLVM: the processor as
    the system describes it, and the file of the LLVM library.
    """
    library, processor = library_file(), processor_description()
    if not library or not processor:
        return machine_description()
    return f"{library} {processor} {_preferences()}"


def compile_object(code: str) -> bytes:
    """LLVM assembly into an object file. Threads may do so at the same time."""
    with _machine() as machine:
        return machine.object_file(code)


def linked(data: bytes) -> bytes:
    """An object file as the disk cache holds it: as an image, if it can be loaded without LLVM."""
    image = image_of(data)
    return data if image is None or image.missing() else image.packed()


def _new_engine() -> Any:
    """An engine of llvmlite's that loads one object file and frees its code when it is deleted. It
    owns its target.
    """
    binding, (cpu, features) = llvm_binding(), _host()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default"
    )
    empty = binding.parse_assembly("", binding.create_context())
    return binding.create_mcjit_compiler(empty, target)


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
        return machine.assembly(code)
