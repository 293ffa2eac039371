"""How files are opened, read and written, whatever their format.

A file is written under a temporary name in the same folder and then renamed, so that readers find
the old one or the new one and nothing in between. Elements are read straight into
the memory of the new array, and only once the file is known to have them all.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.shape import Shape

__all__ = [
    "File",
    "FileError",
    "as_bytes",
    "kind_of",
    "opened",
    "path_of",
    "read_elements",
    "write_file",
    "write_text",
]

File = str | os.PathLike[str] | IO[bytes]


class FileError(ValueError, RuntimeError):
    """A file that cannot be read or written. MLX raises ValueError or RuntimeError, depending on
    the format.
    """


class MissingFileError(FileError, FileNotFoundError):
    """A file that is not there."""

    __str__ = Exception.__str__  # an OSError shows its error number


def kind_of(error: OSError) -> type[FileError]:
    """The exception to raise instead of one of the system."""
    return MissingFileError if isinstance(error, FileNotFoundError) else FileError


def path_of(name: str, file: Any) -> Path | None:
    """The path that a user gave; None for an open file."""
    if isinstance(file, (str, os.PathLike)):
        path = Path(os.fsdecode(file))
        if not path.name or "\0" in path.name:
            raise FileError(f"[{name}] {os.fsdecode(file)!r} is not the name of a file.")
        return path
    if hasattr(file, "read") or hasattr(file, "write"):
        return None
    raise ValueError(f"[{name}] a file must be a path or an open file, got {type(file).__name__}.")


# Writing


def write_text(name: str, file: Any, text: str) -> None:
    """Write text to a path, or to an object with a method `write`."""
    if hasattr(file, "write"):
        file.write(text)
        return
    if not isinstance(file, (str, os.PathLike)):
        raise ValueError(
            f"[{name}] file must be a path or an object with a method `write`, got "
            f"{type(file).__name__}."
        )
    with open(file, "w", encoding="utf-8") as opened:
        opened.write(text)


def write_file(name: str, file: File, suffix: str, write: Callable[[IO[bytes]], None]) -> None:
    """Write a file atomically; a path without the suffix gets it.

    Writes to an open file go there directly.
    """
    path = path_of(name, file)
    if path is None:
        write(file)  # type: ignore[arg-type]
        return
    if path.suffix != suffix:
        path = path.with_name(path.name + suffix)
    target = Path(os.path.realpath(path))  # follow symlinks
    try:
        mode = target.stat().st_mode
    except OSError:
        mode = None
    try:
        if mode is not None and not stat.S_ISREG(mode):  # a pipe or a device
            with target.open("wb") as stream:
                write(stream)
            return
        temporary = target.with_name(f".ingot-{os.urandom(8).hex()}.partial")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError as error:
        raise MissingFileError(
            f"[{name}] cannot write {path}: there is no folder {target.parent}."
        ) from error
    except OSError as error:
        raise FileError(f"[{name}] cannot write {path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            if mode is not None:
                with contextlib.suppress(OSError):
                    os.fchmod(handle, stat.S_IMODE(mode))
            write(stream)
            stream.flush()
            os.fsync(handle)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink()
        raise


def as_bytes(data: np.ndarray) -> memoryview:
    """The elements as bytes in row-major order, without a copy if they are contiguous."""
    flat: Any = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return memoryview(flat)


# Reading


@contextlib.contextmanager
def opened(file: File, where: str) -> Iterator[tuple[IO[bytes], int]]:
    """The file as `_seekable` returns it, open for the duration of the context."""
    path = path_of("load", file)
    if path is None:
        yield _seekable(file)
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise kind_of(error)(f"[load] cannot open {where}: {error.strerror}.") from error
    with stream:
        yield _seekable(stream)


def _seekable(stream: Any) -> tuple[IO[bytes], int]:
    """A seekable stream, and the number of bytes left in it."""
    if isinstance(stream, io.TextIOBase):
        raise ValueError("[load] takes a file that was opened in binary mode, 'rb'.")
    if not (isinstance(stream, io.IOBase) and hasattr(stream, "readinto") and stream.seekable()):
        stream = io.BytesIO(stream.read())
    here = stream.tell()
    end = stream.seek(0, os.SEEK_END)
    stream.seek(here)
    return stream, end - here


def read_elements(
    stream: IO[bytes],
    dtype: Dtype,
    shape: Shape,
    where: str,
    backward: bool = False,
    swapped: bool = False,
) -> array:
    """Read an array from the stream.

    Args:
        stream: Where to read.
        dtype: The dtype of the elements.
        shape: The shape of the array.
        where: The name of the stream in error messages.
        backward: Whether the elements are in the order of the transposed array.
        swapped: Whether the bytes of each element are in the order of other machines.
    """
    token = _native.enter_numpy_memory()
    try:
        data = np.empty(shape[::-1] if backward else shape, dtype.numpy)
        _fill(stream, as_bytes(data), where)
        if swapped:
            data.byteswap(inplace=True)
        if backward:
            data = np.ascontiguousarray(data.T)
    except (ValueError, MemoryError, OverflowError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"[load] {where} has the impossible shape {shape}: {error}.") from error
    finally:
        _native.leave_numpy_memory(token)
    return _native.constant(data, dtype)


def _fill(stream: Any, memory: memoryview, where: str) -> None:
    """Read until the buffer is full."""
    done = 0
    while done < len(memory):
        count = stream.readinto(memory[done:])
        if not count:
            raise FileError(
                f"[load] {where} is incomplete: it ends after {done} of {len(memory)} bytes."
            )
        done += count
