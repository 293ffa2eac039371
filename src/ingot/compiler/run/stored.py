"""Stored programs: what tapes were compiled to, in the disk cache, so that later processes need no
passes.

An entry holds the arguments of a `NativeProgram`, with the digests of its kernels, which have
entries of their own. Its key is made of everything that a program depends on: the tape, the layout
of the inputs, the settings, the machine, the versions of Python and NumPy, and ingot's sources.
What only explanations and profiles ask for is not stored: they run the passes again.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot import _native
from ingot._native import MachineCode, NativeProgram, get_num_threads, sources_stamp
from ingot.compiler.forms.description import DESCRIBED_PACKAGES, description
from ingot.compiler.forms.size_code import evaluated
from ingot.compiler.forms.tape import Tape
from ingot.compiler.machine.disk_cache import current_disk, digest_of
from ingot.compiler.machine.jit import code_version
from ingot.compiler.machine.kernels import LoadedKernels, load_stored
from ingot.compiler.options import Strides
from ingot.graph.dtype import ALL_DTYPES, from_numpy
from ingot.graph.numerics.blas import prepare_products
from ingot.runtime.compile_log import log
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import numerics_key
from ingot.runtime.processor import vector_bytes
from ingot.runtime.verification import is_verifying

if TYPE_CHECKING:
    from ingot.compiler.machine.generate import Executable
    from ingot.compiler.machine.work import Work

__all__ = ["Key", "StoredExecutable", "has_programs", "key_of", "version"]

_FORMAT = b"program 1\n"
_INSTRUCTIONS = 8  # which of the parts of a program they are


class Key:
    """What identifies the programs of a tape on disk, one for each layout of the inputs."""

    def __init__(self, tape: bytes, mode: CompileMode) -> None:
        self._tape = tape
        self._mode = mode
        self._settings = _settings()

    def read(
        self, strides: Strides | None, made: Callable[[], Executable]
    ) -> StoredExecutable | None:
        """The program for a layout of the inputs; None if there is none. `made` compiles it."""
        if self._settings != _settings():
            return None
        name = self._name(strides)
        data = current_disk().read(name)
        if data is None or not data.startswith(_FORMAT):
            return None
        reader = _Reader(io.BytesIO(data[len(_FORMAT) :]))
        try:
            parts = reader.load()
        except _EvictedError:
            return None
        log.debug("program %s: from the disk cache, %d bytes", name[:32], len(data))
        return StoredExecutable(parts, reader.loaded, made)

    def write(self, strides: Strides | None, executable: Executable) -> None:
        """Stores a program, unless it holds objects that are known in this process only: the
        programs of loops, and routines.
        """
        if executable.repeated is not None or self._settings != _settings():
            return
        file = io.BytesIO(_FORMAT)
        file.seek(0, io.SEEK_END)
        try:
            _Writer(file, executable.loaded).dump(executable.parts)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            log.debug("the program is not stored: %s", error)
            return
        current_disk().write(self._name(strides), file.getvalue())

    def _name(self, strides: Strides | None) -> str:
        what = f"{version()}\n{self._mode.name} {self._settings} {strides}\n"
        return digest_of(what.encode() + self._tape).hex()


def key_of(tape: Tape, mode: CompileMode) -> Key | None:
    """The key of a tape's programs; None if they cannot be stored, or if forms are verified, which
    needs all of them.
    """
    if is_verifying() or current_disk().folder is None:
        return None
    found = description(tape)
    return None if found is None else Key(found, mode)


def has_programs() -> bool:
    """Whether there may be stored programs."""
    return not is_verifying() and not current_disk().is_empty()


class StoredExecutable:
    """A program from disk, with the interface of an `Executable` as far as running needs it."""

    def __init__(
        self, parts: tuple[Any, ...], loaded: LoadedKernels, made: Callable[[], Executable]
    ) -> None:
        self.parts = parts
        self.loaded = loaded
        self._made = made

    @cached_property
    def native(self) -> NativeProgram:
        """The program."""
        parts = evaluated(self.parts)
        if any(kind == "gemm" for kind, *_ in parts[_INSTRUCTIONS]):
            prepare_products()  # no pass has planned a product in this process
        return NativeProgram(*parts)

    def describe(self) -> Callable[[], list[Work]]:
        """What describes the instructions: it compiles the program again."""
        made = self._made
        return lambda: made().work


def _settings() -> tuple[Any, ...]:
    """What users may change while a process runs."""
    return numerics_key(), get_num_threads()


@cache
def version() -> str:
    """What does not change in a process."""
    python = sys.implementation.cache_tag
    root = os.path.dirname(_native.__file__)
    with os.scandir(root) as entries:  # the settings of the compiler lie beside its packages
        modules = [each.path for each in entries if each.name.startswith("tuning")]
    packages = [os.path.join(root, name) for name in DESCRIBED_PACKAGES]
    sources = sources_stamp(_native.__file__, *modules, *packages)
    return f"{python} {np.__version__} {vector_bytes()} {sources:x} {code_version()}"


_PROTOCOL = 5
_KERNEL, _DTYPE = "kernel", "dtype"


class _EvictedError(Exception):
    """A kernel is not in the cache any more."""


class _Writer(pickle.Pickler):
    """Writes kernels as their digests, and dtypes of NumPy as numbers."""

    def __init__(self, file: io.BytesIO, loaded: LoadedKernels) -> None:
        super().__init__(file, _PROTOCOL)
        self._digests = loaded.digests()

    def persistent_id(self, value: Any) -> Any:
        """What stands for a value; None: the value itself."""
        if isinstance(value, MachineCode):
            digest = self._digests.get(id(value))
            if digest is None:
                raise pickle.PicklingError("it runs a kernel of another program")
            return _KERNEL, digest
        if isinstance(value, np.dtype):
            known = from_numpy(value)
            return None if known is None else (_DTYPE, ALL_DTYPES.index(known))
        return None


class _Reader(pickle.Unpickler):
    """Reads what `_Writer` wrote."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.loaded = LoadedKernels()

    def persistent_load(self, found: Any) -> Any:
        """The value that something stands for."""
        kind, value = found
        if kind == _KERNEL:
            code = load_stored(value, self.loaded)
            if code is None:
                raise _EvictedError
            return code
        return ALL_DTYPES[value].numpy
