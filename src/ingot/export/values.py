"""Numbers, texts and shapes as the bytes of a `.mlxfn` file: little-endian, lengths in 64 bits.

Reading never trusts a length: what the file cannot hold raises before memory is reserved for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot._native import Dtype
from ingot.graph.dtype import ALL_DTYPES, bfloat16, bool_, complex64
from ingot.graph.shape import Shape, shape_text, size_of
from ingot.runtime.files.access import FileError

__all__ = ["Reader", "Writer"]

# The numbers of dtypes in files are their positions here: bfloat16 follows the other floats.
_DTYPES = (*(x for x in ALL_DTYPES if x not in (bfloat16, complex64)), bfloat16, complex64)
_NUMBERS = {dtype: number for number, dtype in enumerate(_DTYPES)}
_INT32 = range(-(2**31), 2**31)


class Reader:
    """The bytes of a file, read from front to back."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = memoryview(data)
        self.name = name
        self.position = 0

    def error(self, problem: str) -> FileError:
        """The error for a problem at the current position."""
        return FileError(
            f"[import_function] {self.name} is damaged, or of a version that is not known: "
            f"{problem} (at byte {self.position})."
        )

    @property
    def rest(self) -> int:
        """The number of bytes that have not been read."""
        return len(self.data) - self.position

    def take(self, count: int, what: str) -> memoryview:
        """The next bytes."""
        if count > self.rest:
            raise self.error(f"{what} takes {count} bytes, of which {self.rest} are left")
        found = self.data[self.position : self.position + count]
        self.position += count
        return found

    def _number(self, code: str, what: str) -> Any:
        (found,) = struct.unpack(code, self.take(struct.calcsize(code), what))
        return found

    def length(self, what: str, size: int = 1) -> int:
        """The number of elements, each of at least `size` bytes, that follow."""
        count: int = self._number("<Q", f"the number of {what}")
        if count * size > self.rest:
            raise self.error(f"there are said to be {count} {what} in {self.rest} bytes")
        return count

    def identity(self) -> int:
        """The number by which a file refers to an array."""
        found: int = self._number("<Q", "the identity of an array")
        return found

    def boolean(self) -> bool:
        """A byte that is 0 or 1."""
        found = self._number("<B", "a flag")
        if found > 1:
            raise self.error(f"a flag is 0 or 1, not {found}")
        return bool(found)

    def int32(self) -> int:
        """A signed number of 32 bits."""
        found: int = self._number("<i", "an int")
        return found

    def size(self) -> int:
        """An unsigned number of 64 bits."""
        found: int = self._number("<Q", "a size")
        return found

    def float32(self) -> float:
        """A number of 32 bits."""
        found: float = self._number("<f", "a float")
        return found

    def float64(self) -> float:
        """A number of 64 bits."""
        found: float = self._number("<d", "a double")
        return found

    def text(self) -> str:
        """A text in UTF-8."""
        data = self.take(self.length("bytes of a text"), "a text")
        try:
            return bytes(data).decode()
        except UnicodeDecodeError as error:
            raise self.error("a text is not UTF-8") from error

    def many(self, read: Callable[[], Any], what: str, size: int) -> list[Any]:
        """A length and as many elements, of at least `size` bytes each."""
        return [read() for _ in range(self.length(what, size))]

    def ints(self) -> tuple[int, ...]:
        """A vector of ints, such as axes."""
        return tuple(self.many(self.int32, "ints", 4))

    def sizes(self) -> tuple[int, ...]:
        """A vector of unsigned numbers of 64 bits."""
        return tuple(self.many(self.size, "sizes", 8))

    def strides(self) -> tuple[int, ...]:
        """A vector of signed numbers of 64 bits."""
        return tuple(self.many(lambda: int(self._number("<q", "a stride")), "strides", 8))

    def shape(self) -> Shape:
        """The shape of an array."""
        found = self.ints()
        if any(length < 0 for length in found):
            raise self.error(f"a shape has negative lengths: {shape_text(found)}")
        return found

    def dtype(self) -> Dtype:
        """A dtype: its number and its size in bytes."""
        number, size = self._number("<i", "a dtype"), self._number("<B", "the size of a dtype")
        if not 0 <= number < len(_DTYPES):
            raise self.error(f"there is no dtype number {number}")
        dtype = _DTYPES[number]
        if dtype.size != size:
            raise self.error(f"{dtype.name} has {dtype.size} bytes, not {size}")
        return dtype

    def elements(self, shape: Shape, dtype: Dtype) -> np.ndarray:
        """The elements of an array in row-major order."""
        data = self.take(size_of(shape) * dtype.size, f"an array of shape {shape_text(shape)}")
        if dtype is bool_:
            return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
        return np.frombuffer(data, dtype.numpy).reshape(shape).copy()


class Writer:
    """Bytes of a file, written from front to back."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def bytes(self) -> bytes:
        """All that was written."""
        return b"".join(self.parts)

    def _number(self, code: str, value: Any) -> None:
        self.parts.append(struct.pack(code, value))

    def length(self, count: int) -> None:
        """The number of elements that follow."""
        self._number("<Q", count)

    def identity(self, number: int) -> None:
        """The number by which a file refers to an array."""
        self._number("<Q", number)

    def boolean(self, value: bool) -> None:
        """A byte that is 0 or 1."""
        self._number("<B", bool(value))

    def int32(self, value: int) -> None:
        """A signed number of 32 bits."""
        if value not in _INT32:
            raise ValueError(f"[export_function] {value} does not fit into 32 bits.")
        self._number("<i", value)

    def size(self, value: int) -> None:
        """An unsigned number of 64 bits."""
        self._number("<Q", value)

    def float32(self, value: float) -> None:
        """A number of 32 bits."""
        self._number("<f", value)

    def float64(self, value: float) -> None:
        """A number of 64 bits."""
        self._number("<d", value)

    def text(self, value: str) -> None:
        """A text in UTF-8."""
        data = value.encode()
        self.length(len(data))
        self.parts.append(data)

    def many(self, write: Callable[[Any], None], values: Sequence[Any]) -> None:
        """A length and as many elements."""
        self.length(len(values))
        for value in values:
            write(value)

    def ints(self, values: Sequence[int]) -> None:
        """A vector of ints, such as axes."""
        self.many(self.int32, values)

    def sizes(self, values: Sequence[int]) -> None:
        """A vector of unsigned numbers of 64 bits."""
        self.many(self.size, values)

    def strides(self, values: Sequence[int]) -> None:
        """A vector of signed numbers of 64 bits."""
        self.many(lambda value: self._number("<q", value), values)

    shape = ints

    def dtype(self, dtype: Dtype) -> None:
        """A dtype: its number and its size in bytes."""
        self._number("<i", _NUMBERS[dtype])
        self._number("<B", dtype.size)

    def elements(self, value: np.ndarray) -> None:
        """The elements of an array in row-major order."""
        self.parts.append(np.ascontiguousarray(value).tobytes())
