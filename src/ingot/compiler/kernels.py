"""Kernels in this process: equal code is compiled once; the object files are kept on disk for later
processes.
"""

from __future__ import annotations

import hashlib
import threading

from ingot.compiler.disk_cache import DiskCache
from ingot.compiler.jit import code_version, compile_object, load_object

__all__ = ["kernel_address"]

_addresses: dict[str, int] = {}
_lock = threading.Lock()


def kernel_address(text: str) -> int:
    """The address of the machine code of a kernel, whose text calls itself KERNEL."""
    found = _addresses.get(text)
    if found is not None:
        return found
    with _lock:
        if text not in _addresses:
            digest = hashlib.sha256(f"{code_version()}\n{text}".encode()).hexdigest()
            name = f"ingot_{digest[:32]}"
            disk = DiskCache()
            data = disk.read(digest)
            if data is None:
                data = compile_object(text.replace("KERNEL", name))
                disk.write(digest, data)
            _addresses[text] = load_object(data, name)
        return _addresses[text]
