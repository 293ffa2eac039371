"""Files of indexes: arrays and settings in one .safetensors file, with a checksum.

Nothing in a file is ever executed. Files are written as a whole or not at all.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ingot._native import array
from ingot.runtime.file_access import File, FileError, as_bytes, path_of
from ingot.runtime.files import load, save_safetensors

__all__ = ["load_index", "save_index"]

_SUFFIX = ".safetensors"
_VERSION = 1


def save_index(
    file: File, kind: str, settings: Mapping[str, Any], arrays: Mapping[str, array]
) -> None:
    """Saves an index.

    Args:
        file: A path, to which .safetensors is added if it is missing, or an open file.
        kind: The name of the index's class, which `load_index` asks for.
        settings: Numbers, strings and the like, by name.
        arrays: The arrays by name.
    """
    header = json.dumps(
        {"version": _VERSION, "kind": kind, "settings": dict(settings)}, sort_keys=True
    )
    metadata = {"ingot.search": header, "checksum": _checksum(header, arrays)}
    save_safetensors(file, dict(arrays), metadata)


def load_index(file: File, kind: str) -> tuple[dict[str, Any], dict[str, array]]:
    """The settings and the arrays of an index that `save_index` saved.

    Raises:
        FileError: The file cannot be read, holds something else, or is damaged.
    """
    where: Any = file
    path = path_of("load", file)
    if path is not None:
        where = path if path.suffix == _SUFFIX else path.with_name(path.name + _SUFFIX)
    shown = str(where) if isinstance(where, Path) else getattr(file, "name", "the file")
    arrays, metadata = load(where, "safetensors", True)
    header = metadata.get("ingot.search")
    if header is None:
        raise FileError(f"[load] {shown} holds arrays, but no index that ingot saved.")
    if metadata.get("checksum") != _checksum(header, arrays):
        raise FileError(
            f"[load] {shown} is damaged: its contents do not have the checksum that was saved."
        )
    found = json.loads(header)
    if found["version"] != _VERSION:
        raise FileError(
            f"[load] {shown} has version {found['version']} of the format; this ingot reads "
            f"version {_VERSION}."
        )
    if found["kind"] != kind:
        raise FileError(
            f"[load] {shown} holds an index of the class {found['kind']}, not {kind}: "
            f"use {found['kind']}.load."
        )
    return found["settings"], arrays


def _checksum(header: str, arrays: Mapping[str, array]) -> str:
    total = zlib.crc32(header.encode())
    for name in sorted(arrays):
        data = np.ascontiguousarray(arrays[name]._data)
        total = zlib.crc32(f"{name} {data.dtype.str} {data.shape}".encode(), total)
        total = zlib.crc32(as_bytes(data), total)
    return f"{total:08x}"
