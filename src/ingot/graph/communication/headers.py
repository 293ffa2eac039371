"""Headers: what a process is about to communicate, exchanged first so that mismatches are errors.

MPI trusts its callers: ranks that disagree on a shape or on the order of their calls get garbage,
a truncation error, or wait forever. A header says in 128 bytes which collective a rank calls, with
what dtype and shape, and which number it has in its group; all are compared before any data moves.
The next 64 bytes carry the data itself where it is small, so that small messages cost one exchange.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np

from ingot.graph.dtype import ALL_DTYPES
from ingot.graph.shape import shape_text

__all__ = ["ENVELOPE", "HEADER", "INLINE", "OVERLAPPED", "Header", "envelope", "opened"]

_CODES = {dtype.numpy: code for code, dtype in enumerate(ALL_DTYPES)}

# A sum that does not block: MPI does not match it with one that does.
OVERLAPPED = "all_sum of average_gradients"

_KINDS = (
    *("all_sum", "all_max", "all_min", "all_gather", "sum_scatter"),
    *("all_to_all", "broadcast", "send", "split", "end", OVERLAPPED),
)
_KIND_CODES = {kind: code for code, kind in enumerate(_KINDS)}

_DIMENSIONS = 8  # of a shape that a header spells out; a checksum stands for the others
_WORDS = 8 + _DIMENSIONS
INLINE = 64  # bytes of data that travel with the header
HEADER = 8 * _WORDS
ENVELOPE = HEADER + INLINE


class Header(NamedTuple):
    """The description of what one rank communicates."""

    number: int  # of the call in its group, from 0
    kind: str
    root: int  # the rank that sends, for a broadcast
    dtype: str
    shape: tuple[int, ...]
    checksum: int  # of the whole shape

    def __str__(self) -> str:
        if self.kind in ("split", "end"):
            return "Group.split" if self.kind == "split" else "the end of the program"
        root = f" from rank {self.root}" if self.kind == "broadcast" else ""
        shape = shape_text(self.shape[:_DIMENSIONS])
        return f"{self.kind}{root} of {self.dtype} of shape {shape}"


def envelope(number: int, kind: str, root: int, x: np.ndarray) -> np.ndarray:
    """The header of a call with the array `x`, and its data if they are small."""
    packed = np.zeros(ENVELOPE, np.uint8)
    words = packed[:HEADER].view(np.int64)
    shape = x.shape
    words[:6] = number, _KIND_CODES[kind], root, _CODES[x.dtype], len(shape), _checksum(shape)
    words[8 : 8 + min(len(shape), _DIMENSIONS)] = shape[:_DIMENSIONS]
    if 0 < x.nbytes <= INLINE:
        data = np.asarray(x, order="C").reshape(-1).view(np.uint8)
        packed[HEADER : HEADER + x.nbytes] = data
    return packed


def opened(packed: np.ndarray) -> Header:
    """The header in an envelope."""
    words: Any = packed[:HEADER].view(np.int64).tolist()
    number, kind, root, dtype, ndim, checksum = words[:6]
    shape = tuple(words[8 : 8 + min(ndim, _DIMENSIONS)])
    return Header(number, _KINDS[kind], root, ALL_DTYPES[dtype].name, shape, checksum)


def _checksum(shape: tuple[int, ...]) -> int:
    return zlib.crc32(np.array(shape, np.int64).tobytes())
