"""The .npy format: one array, its dtype and shape in a line of text, then its elements.

The text is a Python literal, which is read as such: nothing in it is executed. NumPy has no name
for bfloat16; like MLX, ingot stores it as two bytes without a type (V2) and reads such elements as
bfloat16.
"""

from __future__ import annotations

import ast
import re
import struct
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from ingot._native import Dtype, array
from ingot.graph.dtype import bfloat16, from_numpy
from ingot.graph.shape import Shape, size_of
from ingot.runtime.file_access import FileError, as_bytes, read_elements

__all__ = ["read_npy", "write_npy"]

_MAGIC = b"\x93NUMPY"
_LENGTHS = {1: struct.Struct("<H"), 2: struct.Struct("<I")}  # of the header, by version
_KIND = re.compile(r"[<>|=]?[biufcmMOSUV]\d*(\[.*\])?")
_LONGEST_HEADER = 10_000  # characters; what NumPy accepts, too


class Header(NamedTuple):
    """What the text says, and how many bytes there are before the elements."""

    kind: np.dtype
    shape: Shape
    transposed: bool
    size: int


def write_npy(stream: IO[bytes], value: array) -> None:
    """Writes an array."""
    kind = "|V2" if value.dtype is bfloat16 else npy.dtype_to_descr(value.dtype.numpy)
    header = {"descr": kind, "fortran_order": False, "shape": value.shape}
    npy.write_array_header_1_0(stream, header)
    stream.write(as_bytes(value._data))


def read_npy(stream: IO[bytes], where: str, available: int) -> array:
    """Reads an array from at most `available` bytes; `where` is what error sentences call them."""
    header = _header(stream, where)
    dtype = _dtype_of(header.kind, where)
    needed = size_of(header.shape) * dtype.size
    if needed > available - header.size:
        raise FileError(
            f"[load] {where} is damaged or incomplete: {header.shape} of {dtype.name} takes "
            f"{needed} bytes, of which {available - header.size} are there."
        )
    swapped = not header.kind.isnative
    return read_elements(stream, dtype, header.shape, where, header.transposed, swapped)


def _header(stream: IO[bytes], where: str) -> Header:
    front = stream.read(8)
    if len(front) < 8 or not front.startswith(_MAGIC):
        raise FileError(f"[load] {where} is no .npy file: it begins with {front!r}.")
    length_format = _LENGTHS.get(front[6])
    if length_format is None:
        raise FileError(f"[load] {where} has version {front[6]} of the .npy format, not 1 or 2.")
    size = stream.read(length_format.size)
    length = length_format.unpack(size)[0] if len(size) == length_format.size else 0
    if not 0 < length <= _LONGEST_HEADER:
        raise FileError(f"[load] {where} is damaged: its header has {length} characters.")
    text = stream.read(length)
    if len(text) < length:
        raise FileError(f"[load] {where} is incomplete: it ends within its header.")
    kind, shape, transposed = _fields(text.decode("latin1"), where)
    return Header(kind, shape, transposed, len(front) + len(size) + length)


def _fields(text: str, where: str) -> tuple[np.dtype, Shape, bool]:
    """Dtype, shape and order, once the text is known to have them and nothing else."""
    damaged = FileError(f"[load] {where} is damaged: its header is {text[:80]!r}.")
    try:
        fields: Any = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise damaged from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise damaged
    kind, transposed, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    if not isinstance(transposed, bool) or not isinstance(shape, tuple):
        raise damaged
    if not all(type(length) is int and length >= 0 for length in shape):
        raise damaged
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):  # a list describes fields
        raise FileError(f"[load] {where} has elements of dtype {kind!r}, which no array has.")
    try:
        return np.dtype(kind), shape, transposed
    except (TypeError, ValueError):
        raise damaged from None


def _dtype_of(kind: np.dtype, where: str) -> Dtype:
    if kind.hasobject:
        raise FileError(f"[load] {where} holds Python objects, which are never loaded.")
    if kind.type is np.void and kind.itemsize == 2 and kind.names is None and kind.subdtype is None:
        return bfloat16
    dtype = from_numpy(kind.newbyteorder("="))
    if dtype is None:
        raise FileError(f"[load] {where} has elements of dtype {kind}, which no array has.")
    return dtype
