"""The .safetensors format: a JSON header that locates each array, then the elements.

A file begins with the length of the header, 8 bytes, little-endian. For each name the header has
the dtype, the shape, and the begin and end offsets of the elements, relative to the end of the
header. The header is untrusted: lengths must fit the file and each other, and no two arrays may
overlap. Arrays are the pages of a mapped file (`content.py`). 8-bit floats are read as uint8, as in
MLX, whose `from_fp8` converts them.
"""

from __future__ import annotations

import json
import struct
from typing import IO, Any, NamedTuple

from ingot._native import Dtype, array
from ingot.graph.dtype import ALL_DTYPES, uint8
from ingot.graph.shape import Shape, size_of
from ingot.runtime.files.access import FileError, as_bytes
from ingot.runtime.files.content import Content

__all__ = ["METADATA", "read_safetensors", "write_safetensors"]

METADATA = "__metadata__"

_LONGEST_HEADER = 100_000_000  # the limit of other readers of the format
_LENGTH = struct.Struct("<Q")
_NAMES = {
    "bool": "BOOL",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}


def _name_of(dtype: Dtype) -> str:
    return _NAMES.get(dtype.name) or dtype.name.replace("uint", "U").replace("int", "I")


_DTYPES = {_name_of(dtype): dtype for dtype in ALL_DTYPES} | {"F8_E4M3": uint8, "F8_E8M0": uint8}


def write_safetensors(
    stream: IO[bytes], arrays: dict[str, array], metadata: dict[str, str]
) -> None:
    """Write arrays and metadata by name."""
    header: dict[str, Any] = {METADATA: metadata} if metadata else {}
    # The largest elements first, so that all are aligned.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    offset = 0
    for name, value in ordered:
        header[name] = {
            "dtype": _name_of(value.dtype),
            "shape": list(value.shape),
            "data_offsets": [offset, offset + value.nbytes],
        }
        offset += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the first element is aligned
    stream.write(_LENGTH.pack(len(text)) + text)
    for _, value in ordered:
        stream.write(as_bytes(value._data))


class Entry(NamedTuple):
    """The header's entry for one array."""

    name: str
    dtype: Dtype
    shape: Shape
    begin: int
    end: int


def read_safetensors(content: Content) -> tuple[dict[str, array], dict[str, str]]:
    """Read arrays and metadata by name."""
    where = content.where
    header, length = _header(content)
    metadata = header.pop(METADATA, None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
        raise FileError(f"[load] the metadata of {where} must be a table of strings.")
    first = _LENGTH.size + length
    entries = [_entry(name, value, content.size - first, where) for name, value in header.items()]
    _refuse_overlaps(entries, where)
    arrays = {
        entry.name: content.elements_at(
            first + entry.begin, entry.dtype, entry.shape, f"{entry.name!r} in {where}"
        )
        for entry in entries
    }
    return arrays, metadata


def _header(content: Content) -> tuple[dict[str, Any], int]:
    """The parsed header and its size in bytes."""
    where, available = content.where, content.size
    if available < _LENGTH.size:
        raise FileError(f"[load] {where} has {available} bytes, fewer than a header takes.")
    (length,) = _LENGTH.unpack(content.bytes_at(0, _LENGTH.size).tobytes())
    if length > min(available - _LENGTH.size, _LONGEST_HEADER):
        raise FileError(
            f"[load] {where} is damaged or incomplete: its header should have {length} bytes, but "
            f"the file has {available}."
        )
    text = content.bytes_at(_LENGTH.size, length).tobytes()
    try:
        header = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise FileError(f"[load] the header of {where} is damaged: {error}.") from error
    if not isinstance(header, dict):
        raise FileError(f"[load] the header of {where} is not a table of arrays.")
    return header, length


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _entry(name: str, value: Any, body: int, where: str) -> Entry:
    """The validated entry of an array in the header."""
    try:
        kind, lengths, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
        numbers = [*lengths, begin, end]
    except (TypeError, KeyError, ValueError) as error:
        raise FileError(f"[load] the header of {where} does not describe {name!r}.") from error
    dtype = _DTYPES.get(kind) if isinstance(kind, str) else None
    if dtype is None:
        raise FileError(f"[load] {name!r} in {where} has the dtype {kind!r}, which no array has.")
    if not all(type(number) is int and number >= 0 for number in numbers) or begin > end:
        raise FileError(f"[load] {name!r} in {where} has impossible sizes: {value}.")
    needed = size_of(lengths) * dtype.size
    if end > body or end - begin != needed:
        raise FileError(
            f"[load] {name!r} in {where} should have {needed} bytes from {begin} to {end} of "
            f"{body} that are there: the file is damaged or incomplete."
        )
    return Entry(name, dtype, tuple(lengths), begin, end)


def _refuse_overlaps(entries: list[Entry], where: str) -> None:
    reached = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin < reached and entry.end > entry.begin:
            raise FileError(f"[load] {entry.name!r} in {where} shares bytes with another array.")
        reached = max(reached, entry.end)
