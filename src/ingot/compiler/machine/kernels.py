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
from ingot.compiler.machine.disk_cache import current_disk, digest_of
from ingot.compiler.machine.jit import code_version, compile_object, linked, load_object
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.collection import collection_paused
from ingot.runtime.compile_log import log
from ingot.runtime.progress import reporter
from ingot.runtime.threads import get_num_threads

__all__ = ["LoadedKernels", "load_kernels", "load_stored"]


@dataclass
class LoadedKernels:
    """The machine code of the kernels of a program, in order, and where it came from."""

    codes: list[MachineCode] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # none if digests were given instead of texts
    compiled: int = 0  # by LLVM
    from_disk: int = 0  # the others were in memory

    def digests(self) -> dict[int, str]:
        """The digests that later processes find the kernels by, by the ids of their code."""
        kernels = {text: _Kernel.of(text).digest for text in set(self.texts)}
        return {id(code): kernels[x] for code, x in zip(self.codes, self.texts, strict=True)}


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
        return _name(self.digest)

    def compiled(self) -> bytes:
        """Its linked code, made by LLVM."""
        started = time.perf_counter()
        data = linked(compile_object(self.text.replace("KERNEL", self.name)))
        seconds = time.perf_counter() - started
        log.debug("kernel %s: compiled in %.1f ms, %d bytes", self.name, seconds * 1e3, len(data))
        return data


def _name(digest: str) -> str:
    return f"ingot_{digest[:32]}"


class _Kernels:
    """The machine code that programs use, by its LLVM text and by the digest of that."""

    def __init__(self) -> None:
        # reentrant: garbage collection may run users' code that compiles
        self.lock = threading.RLock()
        self.by_text: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()
        self.by_digest: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()

    def load(self, texts: Iterable[str], to: LoadedKernels) -> dict[str, MachineCode]:
        """The code of each kernel, by its text."""
        with self.lock:
            found = {text: code for text in texts if (code := self.by_text.get(text)) is not None}
            new = []
            for kernel in map(_Kernel.of, (text for text in texts if text not in found)):
                code = self.stored(kernel.digest, to)
                if code is None:
                    new.append(kernel)
                else:
                    found[kernel.text] = self.by_text[kernel.text] = code
            if not new:
                return found
            compilation = _Compilation(new, len(found))
            compilation.run()
            for kernel, data in compilation.codes.items():
                to.compiled += 1
                current_disk().write(kernel.digest, data)
                code = self._add(kernel.digest, data)
                found[kernel.text] = self.by_text[kernel.text] = code
            if compilation.errors:
                raise compilation.errors[0]
            return found

    def stored(self, digest: str, to: LoadedKernels) -> MachineCode | None:
        """The code of a kernel that is in memory or on disk."""
        with self.lock:
            code = self.by_digest.get(digest)
            if code is not None:
                return code
            data = current_disk().read(digest)
            if data is None:
                return None
            to.from_disk += 1
            log.debug("kernel %s: from the disk cache, %d bytes", _name(digest), len(data))
            return self._add(digest, data)

    def _add(self, digest: str, data: bytes) -> MachineCode:
        code = self.by_digest[digest] = load_object(data, _name(digest))
        return code


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
    loaded.texts = list(texts)
    return loaded


def load_stored(digest: str, to: LoadedKernels) -> MachineCode | None:
    """The machine code of a kernel of a stored program; None if it is neither in memory nor on
    disk.
    """
    code = _kernels.stored(digest, to)
    if code is not None:
        to.codes.append(code)
    return code
