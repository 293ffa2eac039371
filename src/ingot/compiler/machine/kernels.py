"""The kernels of this process: equal code is compiled once and lives as long as a program uses it;
linked code is cached on disk for later processes.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import field
from weakref import WeakValueDictionary

from ingot._native import MachineCode
from ingot.compiler.machine.disk_cache import DiskCache, cache_folder
from ingot.compiler.machine.jit import code_version, compile_object, linked, load_object
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.compile_log import log
from ingot.runtime.progress import working

__all__ = ["LoadedKernels", "load_kernels"]


@dataclass
class LoadedKernels:
    """The machine code of the kernels of a program, in order, and where it came from."""

    codes: list[MachineCode] = field(default_factory=list)
    compiled: int = 0  # by LLVM
    from_disk: int = 0  # the others were in memory


class _Kernels:
    """The machine code that programs use, by its LLVM text."""

    def __init__(self) -> None:
        self.lock = (
            threading.RLock()
        )  # reentrant: garbage collection may run users' code that compiles
        self.loaded: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()
        self._disk = DiskCache(None)

    def add(self, text: str, to: LoadedKernels) -> MachineCode:
        """The code of a kernel, which is called KERNEL in its text."""
        with self.lock:
            found = self.loaded.get(text)
            if found is None:
                found = self.loaded[text] = _load(text, self._current_disk(), to)
            return found

    def _current_disk(self) -> DiskCache:
        folder = cache_folder()
        if folder != self._disk.folder:
            self._disk = DiskCache(folder)
        return self._disk


def _load(text: str, disk: DiskCache, to: LoadedKernels) -> MachineCode:
    digest = hashlib.sha256(f"{code_version()}\n{text}".encode()).hexdigest()
    name = f"ingot_{digest[:32]}"
    data = disk.read(digest)
    if data is not None:
        to.from_disk += 1
        log.debug("kernel %s: from the disk cache, %d bytes", name, len(data))
    else:
        started = time.perf_counter()
        data = linked(compile_object(text.replace("KERNEL", name)))
        to.compiled += 1
        seconds = time.perf_counter() - started
        log.debug("kernel %s: compiled in %.1f ms, %d bytes", name, seconds * 1e3, len(data))
        disk.write(digest, data)
    return load_object(data, name)


_kernels = _Kernels()


def load_kernels(texts: Sequence[str]) -> LoadedKernels:
    """The machine code of each kernel of a program, which keeps it alive."""
    loaded = LoadedKernels()
    distinct: dict[str, MachineCode] = {}
    total = len(set(texts))
    for text in texts:
        if text not in distinct:
            working("kernels", len(distinct), total)
            distinct[text] = _kernels.add(text, loaded)
    loaded.codes = [distinct[text] for text in texts]
    return loaded
