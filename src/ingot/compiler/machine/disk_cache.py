"""The disk cache: machine code and programs, by a digest of what they were made from.

Entries are written to a temporary file and renamed, carry a checksum, and are bounded in total
size: the least recently used ones are evicted. Several processes may share a folder: a file that
another process removed is not an error. The folder is measured whenever about a sixteenth of the
limit was written: a process begins to count at random, because measuring tens of thousands of files
takes longer than compiling what a short process writes. A damaged or unwritable cache only costs
time.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

try:
    from _blake2 import blake2b  # hashlib's, which would load OpenSSL
except ImportError:
    from hashlib import blake2b

from ingot.graph.deferred import Deferred
from ingot.runtime.compile_log import log

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = Deferred("tempfile")

__all__ = ["DiskCache", "cache_folder", "current_disk", "digest_of"]

_MAGIC = b"ingot-object-3\n"
_DIGEST = 32  # bytes
MAX_MEGABYTES = 256  # unless INGOT_CACHE_SIZE says otherwise
MAX_PARTIAL_AGE = 3600.0  # seconds after which the writer of a temporary file is presumed dead
_OFF = {"0", "off", "false", "no", ""}


def digest_of(data: bytes) -> bytes:
    """A digest that no two texts, and no two objects, have in common."""
    digest: bytes = blake2b(data, digest_size=_DIGEST).digest()
    return digest


def cache_folder() -> str | None:
    """Where entries are; None if the cache is switched off."""
    if os.environ.get("INGOT_CACHE", "1").lower() in _OFF:
        return None
    chosen = os.environ.get("INGOT_CACHE_DIR")
    if chosen:
        return chosen
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ingot")


def _limit() -> int:
    """The limit on the total size of the entries, in bytes."""
    wanted = os.environ.get("INGOT_CACHE_SIZE", "")
    try:
        megabytes = float(wanted or MAX_MEGABYTES)
    except ValueError:
        megabytes = -1.0
    if not 0 <= megabytes < 1 << 40:
        log.warning(
            "INGOT_CACHE_SIZE must be a number of megabytes, got %r: it is %d",
            wanted,
            MAX_MEGABYTES,
        )
        megabytes = MAX_MEGABYTES
    return int(megabytes * (1 << 20))


def _is_left_over(status: os.stat_result) -> bool:
    """Whether a temporary file is so old that its writer must be dead."""
    return time.time() - status.st_mtime > MAX_PARTIAL_AGE


def _is_open_to_others(folder: str) -> bool:
    """Whether others than the user and root could put machine code into the folder."""
    try:
        status = os.stat(folder)
    except OSError:
        return False  # it is made later, or cannot be used anyway
    if status.st_uid in (0, os.getuid()) and not status.st_mode & 0o022:
        return False
    log.warning(
        "the disk cache %s is not used, because other users may write to it: chmod go-w %s, or set "
        "INGOT_CACHE_DIR to a folder of your own",
        folder,
        folder,
    )
    return True


class DiskCache:
    """Machine code and programs in a folder; without a folder, nothing is read or written."""

    def __init__(self, folder: str | None, limit: int | None = None) -> None:
        self.wanted = folder
        self.folder = None if folder is None or _is_open_to_others(folder) else folder
        self._limit = _limit() if limit is None else limit
        self._step = max(1, self._limit // 16)
        # bytes since this process last measured the folder
        self._written = time.time_ns() % self._step

    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        if self.folder is None:
            return True
        try:
            with os.scandir(self.folder) as entries:
                return next(entries, None) is None
        except OSError:
            return True

    def read(self, key: str) -> bytes | None:
        """The entry for a key; None if there is none or it is damaged."""
        if self.folder is None:
            return None
        path = os.path.join(self.folder, f"{key}.o")
        try:
            with open(path, "rb", buffering=0) as file:  # in one read
                content = file.read()
        except OSError:
            return None
        with suppress(OSError):  # a read-only folder keeps no access times
            os.utime(path)  # recently used entries are evicted last
        head = len(_MAGIC)
        digest, data = content[head : head + _DIGEST], content[head + _DIGEST :]
        if content[:head] != _MAGIC or digest_of(data) != digest:
            log.warning("the cached entry %s is damaged and is compiled again", f"{key}.o")
            return None
        return data

    def write(self, key: str, data: bytes) -> None:
        """Adds an entry atomically."""
        if self.folder is None:
            return
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".partial")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + digest_of(data) + data)
                os.replace(temporary, os.path.join(self.folder, f"{key}.o"))
            except OSError:
                os.unlink(temporary)
                raise
            self._written += len(data)
            if self._written >= self._step:
                self._written = 0
                self._evict(self.folder)
        except OSError as error:
            log.info("the disk cache cannot be written: %s", error)

    def _evict(self, folder: str) -> None:
        """Evicts least recently used entries down to an eighth below the limit, so that the next
        eviction is some time away, and removes temporary files of killed processes.
        """
        entries = []
        total = 0
        with os.scandir(folder) as found:
            for entry in found:
                with suppress(FileNotFoundError):  # another process removed it
                    status = entry.stat()
                    if entry.name.endswith(".o"):
                        entries.append((status.st_mtime_ns, status.st_size, entry.path))
                        total += status.st_size
                    elif entry.name.endswith(".partial") and _is_left_over(status):
                        os.unlink(entry.path)
        if total <= self._limit:
            return
        removed = 0
        for _, size, path in sorted(entries):
            if total <= self._limit - self._limit // 8:
                break
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= size
            removed += 1
        log.debug("the disk cache was over its limit: %d entries removed", removed)


_disk = DiskCache(None)


def current_disk() -> DiskCache:
    """The disk cache in the folder that the environment names now."""
    global _disk
    folder = cache_folder()
    if folder != _disk.wanted:
        _disk = DiskCache(folder)
    return _disk
