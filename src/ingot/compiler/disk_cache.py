"""The disk cache: object files by the hash of what they were made from.

Entries are written to a temporary file and renamed, carry a checksum, and are bounded in total
size, oldest first. A damaged, foreign or unwritable cache only costs time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from ingot.runtime.compile_log import log

__all__ = ["DiskCache"]

_MAGIC = b"ingot-object-1\n"
MOST_BYTES = 256 << 20
_OFF = {"0", "off", "false", "no", ""}


def _folder() -> Path | None:
    """Where entries are; None if the cache is switched off."""
    if os.environ.get("INGOT_CACHE", "1").lower() in _OFF:
        return None
    chosen = os.environ.get("INGOT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ingot"


class DiskCache:
    """Object files in a folder that INGOT_CACHE_DIR names; INGOT_CACHE=off switches it off."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder if folder is not None else _folder()

    def read(self, key: str) -> bytes | None:
        """The entry for a key; None if there is none, or it is not what was written."""
        if self._folder is None:
            return None
        path = self._folder / f"{key}.o"
        try:
            content = path.read_bytes()
            os.utime(path)  # recently used entries are evicted last
        except OSError:
            return None
        head = len(_MAGIC)
        digest, data = content[head : head + 32], content[head + 32 :]
        if content[:head] != _MAGIC or hashlib.sha256(data).digest() != digest:
            log.warning("the cached object %s is damaged and is compiled again", path.name)
            return None
        return data

    def write(self, key: str, data: bytes) -> None:
        """Adds an entry, as a whole or not at all."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".partial")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(data).digest() + data)
                os.replace(temporary, self._folder / f"{key}.o")
            except OSError:
                os.unlink(temporary)
                raise
            self._evict()
        except OSError as error:
            log.info("the disk cache cannot be written: %s", error)

    def _evict(self) -> None:
        assert self._folder is not None
        entries = []
        total = 0
        with os.scandir(self._folder) as found:
            for entry in found:
                if entry.name.endswith(".o"):
                    status = entry.stat()
                    entries.append((status.st_mtime, status.st_size, entry.path))
                    total += status.st_size
        for _, size, path in sorted(entries):
            if total <= MOST_BYTES:
                return
            os.unlink(path)
            total -= size
