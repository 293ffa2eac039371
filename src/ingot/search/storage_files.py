"""Files of indexes: arrays and settings in one .safetensors file, with a checksum.

Nothing in a file is ever executed. Files are written atomically. An index declares the arrays of
its file (`ArraySpec`), and a file whose arrays contradict that or each other is rejected when it is
read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ingot._native import array
from ingot.graph.errors import value_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.files.access import File, FileError, as_bytes, path_of
from ingot.runtime.files.load_save import load, save_safetensors

__all__ = ["ArraySpec", "IndexFile", "load_index", "save_index"]

_SUFFIX = ".safetensors"
_VERSION = 1


def save_index(
    file: File, kind: str, settings: Mapping[str, Any], arrays: Mapping[str, array]
) -> None:
    """Save an index.

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


@dataclass(frozen=True)
class ArraySpec:
    """The requirements on an array of a file.

    Attributes:
        dtype: Its dtype.
        shape: Its lengths. A name is a variable, which has the same value in all arrays.
        trained: Whether only trained indexes have it.
        optional: Whether it may be missing.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]
    trained: bool = False
    optional: bool = False


@dataclass(frozen=True)
class IndexFile:
    """The contents of a file of an index.

    Attributes:
        name: The file's name in error messages.
        settings: Numbers, strings and the like, by name.
        arrays: The arrays by name.
    """

    name: str
    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def refuse(self, reason: str) -> NoReturn:
        """Raises FileError: the contents of the file contradict each other."""
        raise FileError(f"[load] {self.name} contradicts itself: {reason}.")

    def require(self, holds: bool, reason: str) -> None:
        """Raise FileError with the reason unless the condition holds."""
        if not holds:
            self.refuse(reason)

    def integer(
        self, settings: Mapping[str, Any], name: str, least: int, most: int = 2**63 - 1
    ) -> int:
        """The setting of that name, which must be an int from `least` up to `most`."""
        value = settings.get(name)
        if type(value) is not int or not least <= value <= most:
            self.refuse(f"{name} must be an int from {least} to {most}, got {value_text(value)}")
        return value

    def make(self, kind: Any, arguments: Any) -> Any:
        """Construct an index of the class with arguments from the file."""
        if not isinstance(arguments, dict):
            self.refuse(
                f"the arguments of {kind.__name__} must be a dict, got {value_text(arguments)}"
            )
        try:
            return kind(**arguments)
        except (TypeError, ValueError) as error:
            self.refuse(f"its settings make no {kind.__name__}: {str(error).rstrip('.')}")

    def check(self, expected: Mapping[str, ArraySpec]) -> None:
        """FileError unless the arrays match the specifications and are finite."""
        for name in self.arrays:
            self.require(name in expected, f"an index of this class has no {name}")
        lengths: dict[str, tuple[int, str]] = {}
        for name, spec in expected.items():
            found = self.arrays.get(name)
            if found is None:
                self.require(spec.trained or spec.optional, f"{name} is missing")
                continue
            self._check_array(name, spec, found, lengths)
        trained = [name for name, spec in expected.items() if spec.trained]
        there = [name for name in trained if name in self.arrays]
        missing = [name for name in trained if name not in self.arrays]
        if missing and (there or len(self.arrays.get("ids", ())) > 0):
            self.refuse(f"{missing[0]} is missing, without which there is nothing trained")

    def _check_array(
        self, name: str, spec: ArraySpec, found: np.ndarray, lengths: dict[str, tuple[int, str]]
    ) -> None:
        if found.dtype != spec.dtype:
            self.refuse(f"{name} must be of dtype {spec.dtype}, got {found.dtype}")
        if found.ndim != len(spec.shape):
            self.refuse(f"{name} must have {len(spec.shape)} axes, got shape {found.shape}")
        for length, wanted in zip(found.shape, spec.shape, strict=True):
            if isinstance(wanted, str):
                known, owner = lengths.setdefault(wanted, (length, name))
                if length != known:
                    self.refuse(f"{owner} has {known} rows, and {name} has {length}")
            elif length != wanted:
                self.refuse(f"{name} must have the shape {spec.shape}, got {found.shape}")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            self.refuse(f"{name} has NaN or infinity in it")


def load_index(file: File, kind: str) -> IndexFile:
    """Load the settings and arrays that `save_index` saved.

    Raises:
        FileError: The file cannot be read, holds something else, or is damaged.
    """
    where: Any = file
    path = path_of("load", file)
    if path is not None:
        where = path if path.suffix == _SUFFIX else path.with_name(path.name + _SUFFIX)
    label = str(where) if isinstance(where, Path) else str(getattr(file, "name", "the file"))
    arrays, metadata = load(where, "safetensors", True)
    header = metadata.get("ingot.search")
    if header is None:
        raise FileError(f"[load] {label} holds arrays, but no index that ingot saved.")
    if metadata.get("checksum") != _checksum(header, arrays):
        raise FileError(
            f"[load] {label} is damaged: its contents do not have the checksum that was saved."
        )
    found = _parsed(label, header)
    if found["version"] != _VERSION:
        raise FileError(
            f"[load] {label} has version {found['version']} of the format; this ingot reads "
            f"version {_VERSION}."
        )
    if found["kind"] != kind:
        raise FileError(
            f"[load] {label} holds an index of the class {found['kind']}, not {kind}: "
            f"use {found['kind']}.load."
        )
    values = {name: value._data for name, value in arrays.items()}
    return IndexFile(label, found["settings"], values)


def _parsed(label: str, header: str) -> dict[str, Any]:
    try:
        found = json.loads(header)
    except (ValueError, RecursionError):
        found = None
    if (
        not isinstance(found, dict)
        or set(found) != {"version", "kind", "settings"}
        or not isinstance(found["settings"], dict)
    ):
        raise FileError(f"[load] {label} is damaged: its settings cannot be read.")
    return found


def _checksum(header: str, arrays: Mapping[str, array]) -> str:
    total = zlib.crc32(header.encode())
    for name in sorted(arrays):
        data = np.ascontiguousarray(arrays[name]._data)
        total = zlib.crc32(f"{name} {data.dtype.str} {data.shape}".encode(), total)
        total = zlib.crc32(as_bytes(data), total)
    return f"{total:08x}"
