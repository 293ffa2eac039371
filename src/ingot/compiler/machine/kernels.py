"""The kernels of this process: equal code is compiled once and lives as long as a program uses it;
linked code is cached on disk for later processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from typing import NamedTuple
from weakref import WeakValueDictionary

from ingot._native import MachineCode
from ingot.compiler.machine.disk_cache import DiskCache, cache_folder, digest_of
from ingot.compiler.machine.jit import code_version, compile_object, linked, load_object
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.collection import collection_paused
from ingot.runtime.compile_log import log
from ingot.runtime.progress import reporter
from ingot.runtime.threads import get_num_threads

__all__ = ["LoadedKernels", "load_kernels"]


@dataclass
class LoadedKernels:
    """The machine code of the kernels of a program, in order, and where it came from."""

    codes: list[MachineCode] = field(default_factory=list)
    compiled: int = 0  # by LLVM
    from_disk: int = 0  # the others were in memory


class _Kernel(NamedTuple):
    """A kernel that is not in memory: its text, in which it is called KERNEL, and its digest."""

    text: str
    digest: str

    @classmethod
    def of(cls, text: str) -> _Kernel:
        """The kernel of a text."""
        return cls(text, digest_of(f"{code_version()}\n{text}".encode()).hex())

    @property
    def name(self) -> str:
        """The name of its function."""
        return f"ingot_{self.digest[:32]}"

    def compiled(self) -> bytes:
        """Its linked code, made by LLVM."""
        started = time.perf_counter()
        data = linked(compile_object(self.text.replace("KERNEL", self.name)))
        seconds = time.perf_counter() - started
        log.debug("kernel %s: compiled in %.1f ms, %d bytes", self.name, seconds * 1e3, len(data))
        return data


class _Kernels:
    """The machine code that programs use, by its LLVM text."""

    def __init__(self) -> None:
        self.lock = (
            threading.RLock()
        )  # reentrant: garbage collection may run users' code that compiles
        self.loaded: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()
        self._disk = DiskCache(None)

    def load(self, texts: Iterable[str], to: LoadedKernels) -> dict[str, MachineCode]:
        """The code of each kernel, by its text."""
        with self.lock:
            found = {text: code for text in texts if (code := self.loaded.get(text)) is not None}
            disk = self._current_disk()
            new = []
            for kernel in map(_Kernel.of, (text for text in texts if text not in found)):
                data = disk.read(kernel.digest)
                if data is None:
                    new.append(kernel)
                    continue
                to.from_disk += 1
                log.debug("kernel %s: from the disk cache, %d bytes", kernel.name, len(data))
                found[kernel.text] = self._add(kernel, data)
            if not new:
                return found
            compilation = _Compilation(new, len(found))
            compilation.run()
            for kernel, data in compilation.codes.items():
                to.compiled += 1
                disk.write(kernel.digest, data)
                found[kernel.text] = self._add(kernel, data)
            if compilation.errors:
                raise compilation.errors[0]
            return found

    def _add(self, kernel: _Kernel, data: bytes) -> MachineCode:
        code = self.loaded[kernel.text] = load_object(data, kernel.name)
        return code

    def _current_disk(self) -> DiskCache:
        folder = cache_folder()
        if folder != self._disk.folder:
            self._disk = DiskCache(folder)
        return self._disk


class _Compilation:
    """Kernels that threads compile together, the longest first."""

    def __init__(self, kernels: Sequence[_Kernel], known: int) -> None:
        self.codes: dict[_Kernel, bytes] = {}
        self.errors: list[BaseException] = []  # also of Ctrl-C
        self._waiting = sorted(kernels, key=lambda kernel: len(kernel.text))
        self._known = known
        self._total = known + len(kernels)
        self._report = reporter()

    def run(self) -> None:
        """Compiles them in this thread and in others, which have ended when it returns."""
        count = min(get_num_threads(), len(self._waiting))
        helpers = [
            threading.Thread(target=self._work, name="ingot: compiling") for _ in range(1, count)
        ]
        # This thread holds locks, which users' code that the collector runs in another would need.
        with collection_paused():
            for helper in helpers:
                helper.start()
            self._work()
            for helper in helpers:
                helper.join()

    def _work(self) -> None:
        try:
            while (kernel := self._next()) is not None and not self.errors:
                self._report("kernels", self._known + len(self.codes), self._total)
                self.codes[kernel] = kernel.compiled()
        except BaseException as error:
            self.errors.append(error)

    def _next(self) -> _Kernel | None:
        with suppress(IndexError):
            return self._waiting.pop()
        return None


_kernels = _Kernels()


def load_kernels(texts: Sequence[str]) -> LoadedKernels:
    """The machine code of each kernel of a program, which keeps it alive."""
    loaded = LoadedKernels()
    codes = _kernels.load(dict.fromkeys(texts), loaded)
    loaded.codes = [codes[text] for text in texts]
    return loaded
