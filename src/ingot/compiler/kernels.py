"""Kernels in this process: equal code is compiled once and is there as long as a program holds it;
the object files are kept on disk for later processes.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from weakref import WeakValueDictionary

from ingot._native import MachineCode
from ingot.compiler.disk_cache import DiskCache
from ingot.compiler.jit import code_version, compile_object, load_object

__all__ = ["load_kernels"]


class _Kernels:
    """The machine code that programs hold, by the text that it was made of."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # garbage collection may run code of users that compiles
        self.loaded: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()

    def get(self, text: str) -> MachineCode:
        """The code of a kernel, whose text calls itself KERNEL."""
        with self.lock:
            found = self.loaded.get(text)
            if found is None:
                found = self.loaded[text] = _load(text)
            return found


def _load(text: str) -> MachineCode:
    digest = hashlib.sha256(f"{code_version()}\n{text}".encode()).hexdigest()
    name = f"ingot_{digest[:32]}"
    disk = DiskCache()
    data = disk.read(digest)
    if data is None:
        data = compile_object(text.replace("KERNEL", name))
        disk.write(digest, data)
    return load_object(data, name)


_kernels = _Kernels()


def load_kernels(texts: Sequence[str]) -> list[MachineCode]:
    """The machine code of each of the kernels of a program, which keeps it."""
    return [_kernels.get(text) for text in texts]
