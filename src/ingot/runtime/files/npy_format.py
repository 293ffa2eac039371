"""The .npy format: one array, its dtype and shape in a line of text, then its elements.

NumPy reads and writes the text, a Python literal that is parsed but not executed. It has no name
for bfloat16; like MLX, ingot stores it as two untyped bytes (V2) and reads such elements as
bfloat16.
"""

from __future__ import annotations

import io
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from ingot._native import Dtype, array
from ingot.graph.dtype import bfloat16, from_numpy
from ingot.graph.shape import Shape, size_of
from ingot.runtime.files.access import FileError, as_bytes, read_elements

__all__ = ["read_npy", "write_npy"]

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
MAX_QUOTED = 200  # characters quoted from NumPy's message about a corrupt file


class Header(NamedTuple):
    """The parsed header, and the offset of the elements."""

    kind: np.dtype
    shape: Shape
    transposed: bool
    size: int


def write_npy(stream: IO[bytes], value: array) -> None:
    """Write an array."""
    kind = "|V2" if value.dtype is bfloat16 else npy.dtype_to_descr(value.dtype.numpy)
    header = {"descr": kind, "fortran_order": False, "shape": value.shape}
    npy.write_array_header_1_0(stream, header)
    stream.write(as_bytes(value._data))


def read_npy(stream: IO[bytes], where: str, available: int) -> array:
    """Read an array from at most `available` bytes; `where` names them in error messages."""
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
    """The header as NumPy reads it."""
    before = stream.tell()
    version = _version(stream, where)
    reader = _READERS.get(version)
    if reader is None:
        raise FileError(f"[load] {where} has version {version[0]} of the .npy format, not 1 or 2.")
    try:
        shape, transposed, kind = reader(stream)
    except Exception as error:  # of many types, from parsing and from building the dtype
        raise FileError(f"[load] {where} is damaged: {_sentence(error)}") from None
    if not all(type(length) is int and length >= 0 for length in shape):
        raise FileError(f"[load] {where} is damaged: its header has the shape {shape}.")
    return Header(kind, shape, transposed, stream.tell() - before)


def _version(stream: IO[bytes], where: str) -> tuple[int, int]:
    front = stream.read(npy.MAGIC_LEN)
    try:
        return npy.read_magic(io.BytesIO(front))
    except ValueError:
        raise FileError(f"[load] {where} is not a .npy file: it begins with {front!r}.") from None


def _sentence(error: BaseException) -> str:
    """NumPy's message on one line."""
    text = " ".join(str(error).split())
    return f"{text[:MAX_QUOTED]} ..." if len(text) > MAX_QUOTED else text or type(error).__name__


def _dtype_of(kind: np.dtype, where: str) -> Dtype:
    if kind.hasobject:
        raise FileError(f"[load] {where} holds Python objects, which are never loaded.")
    if kind.type is np.void and kind.itemsize == 2 and kind.names is None and kind.subdtype is None:
        return bfloat16
    dtype = from_numpy(kind.newbyteorder("="))
    if dtype is None:
        raise FileError(f"[load] {where} has elements of dtype {kind}, which no array has.")
    return dtype
