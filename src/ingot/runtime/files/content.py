"""Random access to the bytes of a file: memory-mapped if possible, read otherwise.

Arrays of a mapped file are its pages: loading a model costs the page faults, and its weights are in
memory once, however many processes use them. Mappings are private, so writing to such an array
copies a page and never changes the file. A file that is replaced or deleted lives on in the
mapping. Truncating a file while it is mapped makes its arrays unreadable, as with every program
that maps files.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
from contextlib import suppress
from typing import IO, Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.shape import Shape, size_of
from ingot.runtime.files.access import FileError, read_elements
from ingot.tuning_memory import MIN_MAPPED_BYTES

__all__ = ["Content"]

# Without it the kernel charges a private mapping to committed memory, and refuses to map a file
# that is larger than memory.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0)
# File systems that can do so read what is advised into huge pages of the page cache, from which
# weights are read up to twice as fast (`MIN_USE_PER_WASTE`).
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


class Content:
    """The bytes from the current position of a stream to its end.

    Args:
        stream: The open file.
        where: The name of the file in error messages.
        available: The number of bytes from there to the end.
    """

    def __init__(self, stream: IO[bytes], where: str, available: int) -> None:
        self.where = where
        self.size = available
        self._stream = stream
        self._start = stream.tell()
        self._pages = _pages_of(stream, self._start + available)

    def bytes_at(self, offset: int, count: int) -> np.ndarray:
        """The given number of bytes at an offset, which must exist; not a copy if the file is
        mapped.
        """
        if self._pages is not None:
            first = self._start + offset
            return self._pages[first : first + count]
        self._stream.seek(self._start + offset)
        found: Any = np.frombuffer(self._stream.read(count), np.uint8)
        if len(found) != count:
            raise FileError(f"[load] {self.where} ends after {offset + len(found)} bytes.")
        return found

    def elements_at(self, offset: int, dtype: Dtype, shape: Shape, what: str) -> array:
        """The array whose elements begin at an offset, which must all exist."""
        if self._pages is not None and (self._start + offset) % dtype.size == 0:
            try:
                data = self.bytes_at(offset, size_of(shape) * dtype.size).view(dtype.numpy)
                return _native.constant(data.reshape(shape), dtype)
            except (ValueError, OverflowError) as error:
                raise FileError(
                    f"[load] {what} has the impossible shape {shape}: {error}."
                ) from error
        self._stream.seek(self._start + offset)
        return read_elements(self._stream, dtype, shape, what)


def _pages_of(stream: IO[bytes], size: int) -> np.ndarray | None:
    """The mapped bytes of a regular file; None if it should be read instead."""
    # Compressed streams have the descriptor of the underlying file, whose bytes differ.
    if size < MIN_MAPPED_BYTES or not isinstance(getattr(stream, "raw", stream), io.FileIO):
        return None
    try:
        handle = stream.fileno()
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        pages = mmap.mmap(
            handle,
            size,
            flags=mmap.MAP_PRIVATE | _NO_RESERVE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    except (OSError, ValueError):  # the file system does not support mapping
        return None
    if _HUGE_PAGES is not None:
        with suppress(OSError):  # the system was built without huge pages
            pages.madvise(_HUGE_PAGES)
    return np.frombuffer(pages, np.uint8)
