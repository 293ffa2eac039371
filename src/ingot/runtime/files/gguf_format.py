"""The GGUF format of llama.cpp: metadata of many types, a table of arrays, then their elements.

Lengths of axes are in reverse order. The file is untrusted: all lengths and offsets are checked
against its size before anything is read or allocated, and no two arrays may overlap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import IO, Any, NamedTuple

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.dtype import (
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ingot.graph.shape import Shape, size_of
from ingot.runtime.files.access import FileError, as_bytes
from ingot.runtime.files.content import Content
from ingot.runtime.files.gguf_blocks import (
    BLOCKS,
    CODES_OF_PLAIN,
    PLAIN,
    grouped_codes,
    numbers_of_blocks,
)

__all__ = ["MAX_AXES", "METADATA_DTYPES", "WRITABLE", "Metadata", "read_gguf", "write_gguf"]

Metadata = dict[str, Any]  # strings, lists of strings, and arrays with no axis or one

_ALIGNMENT = "general.alignment"
_DEFAULT_ALIGNMENT = 32
_MAX_ALIGNMENT = 1 << 20
_MAGIC = b"GGUF"
_AHEAD = 1 << 16  # bytes read at a time
_SIZES = {"I": 4, "Q": 8}
_VERSIONS = (2, 3)
MAX_AXES = 8
_STRING, _ARRAY = 8, 9
_SCALARS: dict[int, Dtype] = {
    0: uint8,
    1: int8,
    2: uint16,
    3: int16,
    4: uint32,
    5: int32,
    6: float32,
    7: bool_,
    10: uint64,
    11: int64,
    12: float64,
}
_CODES_OF_SCALARS = {dtype: code for code, dtype in _SCALARS.items()}
METADATA_DTYPES = tuple(_CODES_OF_SCALARS)
_SUFFIX = ".weight"

# Only what MLX writes, so that it can read our files.
WRITABLE = (float32, float16, int8, int16, int32)


# Reading


class _Cursor:
    """A bounds-checked read position in a file."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.offset = 0
        self.ahead = b""  # the bytes from `begun` to `read`
        self.begun = self.read = 0

    def take(self, count: int, what: str) -> bytes:
        """The next bytes."""
        if count > self.content.size - self.offset:
            raise FileError(
                f"[load] {self.content.where} is damaged or incomplete: {what} should take {count} "
                f"bytes from {self.offset} on, but the file has {self.content.size}."
            )
        if self.offset + count > self.read:
            self._read_on(count)
        begin = self.offset - self.begun
        self.offset += count
        return self.ahead[begin : begin + count]

    def _read_on(self, count: int) -> None:
        """Read at least that many bytes: metadata are strings of a few bytes, so read ahead."""
        self.begun = self.offset
        count = min(max(count, _AHEAD), self.content.size - self.offset)
        self.ahead = self.content.bytes_at(self.offset, count).tobytes()
        self.read = self.offset + count

    def number(self, kind: str, what: str) -> int:
        return int.from_bytes(self.take(_SIZES[kind], what), "little")

    def text(self, what: str) -> str:
        raw = self.take(self.number("Q", what), what)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise FileError(
                f"[load] {what} in {self.content.where} is not UTF-8 text: {error.reason}."
            ) from error

    def fits(self, count: int, each: int, what: str) -> None:
        """Reject a count of items that cannot fit in the rest of the file, before
        allocating any.
        """
        if count * each > self.content.size - self.offset:
            raise FileError(
                f"[load] {self.content.where} is damaged or incomplete: it should have {count} "
                f"{what}, for which its {self.content.size} bytes have no room."
            )


class _Entry(NamedTuple):
    """The table's entry for one array."""

    name: str
    kind: int
    shape: Shape
    begin: int
    nbytes: int


def read_gguf(content: Content) -> tuple[dict[str, array], Metadata]:
    """Read arrays and metadata by name."""
    cursor = _Cursor(content)
    where = content.where
    if cursor.take(4, "the first word") != _MAGIC:
        raise FileError(f"[load] {where} is not a .gguf file: it does not begin with GGUF.")
    version = cursor.number("I", "the version")
    if version not in _VERSIONS:
        raise FileError(f"[load] {where} has version {version} of the .gguf format, not 2 or 3.")
    arrays = cursor.number("Q", "the number of arrays")
    values = cursor.number("Q", "the number of metadata")
    cursor.fits(values, 13, "metadata")
    metadata: Metadata = {}
    for _ in range(values):
        name = cursor.text("a name of metadata")
        if name in metadata:
            raise FileError(f"[load] {where} has the metadata {name!r} twice.")
        metadata[name] = _value(cursor, name)
    cursor.fits(arrays, 24, "arrays")
    entries = [_entry(cursor) for _ in range(arrays)]
    alignment = _alignment_of("load", metadata, where)
    first = -(-cursor.offset // alignment) * alignment
    _check_extents(entries, content, first)
    found: dict[str, array] = {}
    for entry in entries:
        for name, value in _arrays_of(entry, content, first):
            if name in found:
                raise FileError(f"[load] {where} has the array {name!r} twice.")
            found[name] = value
    return found, {name: _as_mlx(value) for name, value in metadata.items()}


def _value(cursor: _Cursor, name: str) -> str | list[str] | np.ndarray:
    what = f"the metadata {name!r}"
    kind = cursor.number("I", what)
    if kind == _STRING:
        return cursor.text(what)
    if kind in _SCALARS:
        return _scalars(cursor, kind, (), what)
    if kind != _ARRAY:
        raise FileError(f"[load] {what} in {cursor.content.where} has the unknown type {kind}.")
    kind = cursor.number("I", what)
    count = cursor.number("Q", what)
    if kind == _STRING:
        cursor.fits(count, 8, f"strings in {what}")
        return [cursor.text(what) for _ in range(count)]
    if kind in _SCALARS:
        return _scalars(cursor, kind, (count,), what)
    raise FileError(
        f"[load] {what} in {cursor.content.where} is a list of things of type {kind}; lists have "
        "numbers or strings."
    )


def _scalars(cursor: _Cursor, kind: int, shape: Shape, what: str) -> np.ndarray:
    dtype = _SCALARS[kind]
    raw = cursor.take(size_of(shape) * dtype.size, what)
    if dtype is bool_:
        return (np.frombuffer(raw, np.uint8) != 0).reshape(shape)
    return np.frombuffer(raw, dtype.numpy).reshape(shape)


def _as_mlx(value: str | list[str] | np.ndarray) -> str | list[str] | array:
    """Metadata as MLX returns them: numbers are arrays, 8-byte ones float32."""
    if not isinstance(value, np.ndarray):
        return value
    with np.errstate(over="ignore"):
        return array(value.astype(np.float32) if value.dtype == np.float64 else value)


def _alignment_of(function: str, metadata: Metadata, where: str) -> int:
    """The alignment of arrays; errors name the function that was called."""
    found = metadata.get(_ALIGNMENT, _DEFAULT_ALIGNMENT)
    number = np.asarray(found)
    if number.size != 1 or number.dtype.kind not in "iu":
        raise FileError(f"[{function}] {_ALIGNMENT} of {where} is not an integer.")
    alignment = int(number.reshape(()))
    if not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
        raise FileError(
            f"[{function}] {_ALIGNMENT} of {where} is {alignment}, not a power of two up to "
            f"{_MAX_ALIGNMENT}."
        )
    return alignment


def _entry(cursor: _Cursor) -> _Entry:
    """The validated entry of an array in the table."""
    where = cursor.content.where
    name = cursor.text("the name of an array")
    what = f"the shape of {name!r}"
    axes = cursor.number("I", what)
    if axes > MAX_AXES:
        raise FileError(f"[load] {name!r} in {where} has {axes} axes, more than {MAX_AXES}.")
    shape = tuple(cursor.number("Q", what) for _ in range(axes))[::-1]
    kind = cursor.number("I", what)
    begin = cursor.number("Q", what)
    if kind in PLAIN:
        return _Entry(name, kind, shape, begin, size_of(shape) * PLAIN[kind].size)
    if kind not in BLOCKS:
        known = ", ".join(block.name for block in BLOCKS.values())
        raise FileError(
            f"[load] {name!r} in {where} has elements of type {kind}, which ingot cannot read. It "
            f"reads F32, F16, integers, {known}."
        )
    block = BLOCKS[kind]
    if not shape or shape[-1] % block.elements != 0:
        raise FileError(
            f"[load] the last axis of {name!r} in {where}, of shape {shape}, does not divide into "
            f"blocks of {block.elements}, of which {block.name} is made."
        )
    return _Entry(name, kind, shape, begin, size_of(shape) // block.elements * block.nbytes)


def _check_extents(entries: list[_Entry], content: Content, first: int) -> None:
    """Reject arrays that extend beyond the end of the file or overlap."""
    body = content.size - first
    reached = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.nbytes)):
        if entry.begin + entry.nbytes > max(body, 0):
            raise FileError(
                f"[load] {entry.name!r} in {content.where} should have {entry.nbytes} bytes from "
                f"{entry.begin} on, of {max(body, 0)} that are there: the file is damaged or "
                "incomplete."
            )
        if entry.begin < reached and entry.nbytes:
            raise FileError(
                f"[load] {entry.name!r} in {content.where} shares bytes with another array."
            )
        reached = max(reached, entry.begin + entry.nbytes)


def _arrays_of(entry: _Entry, content: Content, first: int) -> Iterable[tuple[str, array]]:
    """An array, or the three arrays of a quantised one, by name."""
    what = f"{entry.name!r} in {content.where}"
    if entry.kind in PLAIN:
        dtype = PLAIN[entry.kind]
        return [(entry.name, content.elements_at(first + entry.begin, dtype, entry.shape, what))]
    block = BLOCKS[entry.kind]
    data = content.bytes_at(first + entry.begin, entry.nbytes)
    token = _native.enter_numpy_memory()
    try:
        if not block.grouped_bits:
            numbers = numbers_of_blocks(block, data).reshape(entry.shape)
            return [(entry.name, _native.constant(numbers, float16))]
        parts = [
            part.reshape(*entry.shape[:-1], entry.shape[-1] // block.elements * part.shape[-1])
            for part in grouped_codes(block, data)
        ]
    except (ValueError, OverflowError) as error:
        raise FileError(f"[load] {what} has the impossible shape {entry.shape}.") from error
    finally:
        _native.leave_numpy_memory(token)
    prefix = entry.name[: -len(_SUFFIX)]  # as MLX does, whatever the name ends with
    names = (entry.name, f"{prefix}.scales", f"{prefix}.biases")
    dtypes = (uint32, float16, float16)
    return [
        (name, _native.constant(part, dtype))
        for name, part, dtype in zip(names, parts, dtypes, strict=True)
    ]


# Writing


def write_gguf(stream: IO[bytes], arrays: dict[str, array], metadata: Metadata) -> None:
    """Write arrays, of the dtypes in `WRITABLE`, and metadata by name."""
    alignment = _alignment_of("save_gguf", metadata, "the metadata")
    header = [_MAGIC, struct.pack("<IQQ", _VERSIONS[-1], len(arrays), len(metadata))]
    for name, value in metadata.items():
        header += [_text(name), *_packed(value)]
    offset = 0
    for name, value in arrays.items():
        axes = value.ndim
        header += [_text(name), struct.pack(f"<I{axes}Q", axes, *value.shape[::-1])]
        header.append(struct.pack("<IQ", CODES_OF_PLAIN[value.dtype], offset))
        offset += value.nbytes + -value.nbytes % alignment
    text = b"".join(header)
    stream.write(text + bytes(-len(text) % alignment))
    for value in arrays.values():
        stream.write(as_bytes(value._data))
        stream.write(bytes(-value.nbytes % alignment))


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _packed(value: str | list[str] | array) -> Iterable[bytes]:
    if isinstance(value, str):
        return struct.pack("<I", _STRING), _text(value)
    if isinstance(value, list):
        head = struct.pack("<IIQ", _ARRAY, _STRING, len(value))
        return head, *map(_text, value)
    code = _CODES_OF_SCALARS[value.dtype]
    head = struct.pack("<I", code)
    if value.ndim == 1:
        head = struct.pack("<IIQ", _ARRAY, code, value.size)
    return head, bytes(as_bytes(value._data))
