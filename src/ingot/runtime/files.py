"""Files: arrays to and from .npy, .npz and .safetensors, as MLX stores them.

Nothing in a file is ever executed: there is no pickle. Every size is checked against the file
before memory is touched. Files are written beside their place and renamed, so that a reader finds
the old one or the new one.
"""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import ALL_DTYPES, bfloat16, from_numpy
from ingot.graph.shape import size_of

__all__ = ["load", "save", "save_gguf", "save_safetensors", "savez", "savez_compressed"]

File = str | os.PathLike[str] | IO[bytes]

_SAFETENSORS_NAMES = {
    "bool_": "BOOL",
    "bool": "BOOL",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
_MOST_HEADER_BYTES = 100_000_000  # what other readers of the format accept


def _safetensors_name(dtype: Dtype) -> str:
    found = _SAFETENSORS_NAMES.get(dtype.name)
    return found or dtype.name.replace("uint", "U").replace("int", "I")


_SAFETENSORS_DTYPES = {_safetensors_name(dtype): dtype for dtype in ALL_DTYPES}


# Paths and streams


def _path(name: str, file: Any) -> Path | None:
    """The path that a user gave; None for an open file."""
    if isinstance(file, (str, os.PathLike)):
        return Path(file)
    if hasattr(file, "read") or hasattr(file, "write"):
        return None
    raise TypeError(f"[{name}] a file is a path or an open file, got {type(file).__name__}.")


def _write(name: str, file: File, suffix: str, write: Callable[[IO[bytes]], None]) -> None:
    """Writes a file as a whole or not at all; a path without the suffix gets it."""
    path = _path(name, file)
    if path is None:
        buffer = io.BytesIO()
        write(buffer)
        file.write(buffer.getvalue())  # type: ignore[union-attr]
        return
    if path.suffix != suffix:
        path = path.with_name(path.name + suffix)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".partial")
    except OSError as error:
        raise RuntimeError(f"[{name}] cannot write {path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as opened:
            write(opened)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _checked(name: str, value: Any, what: str) -> array:
    if not isinstance(value, array):
        raise TypeError(f"[{name}] {what} must be an array, got {type(value).__name__}.")
    return value


# .npy


def _npy_bytes(value: array) -> bytes:
    data = np.ascontiguousarray(value._data).reshape(value.shape)
    if value.dtype is bfloat16:  # NumPy has no name for it; MLX writes two bytes without a type
        data = data.view("V2")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, data, allow_pickle=False)
    return buffer.getvalue()


def _from_npy(name: str, stream: IO[bytes], where: str) -> array:
    try:
        data = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, TypeError, MemoryError, UnicodeDecodeError) as error:
        raise _damaged(name, where, error) from error
    return _as_array(name, data, where)


def _as_array(name: str, data: np.ndarray, where: str) -> array:
    if data.dtype.kind == "V" and data.dtype.itemsize == 2 and data.dtype.names is None:
        return _native.constant(data.view(bfloat16.numpy), bfloat16)
    dtype = from_numpy(data.dtype.newbyteorder("="))
    if dtype is None:
        raise ValueError(
            f"[{name}] {where} has elements of dtype {data.dtype}, which no array has."
        )
    return _native.constant(np.array(data, dtype.numpy, order="C", ndmin=0), dtype)


def _damaged(name: str, where: str, error: object) -> Exception:
    text = str(error).splitlines()[0] if str(error) else "it ends too early"
    if "Object arrays" in text:
        return ValueError(f"[{name}] {where} holds Python objects, which are never loaded.")
    return RuntimeError(f"[{name}] {where} is damaged or no such file: {text}")


def save(file: File, arr: array) -> None:
    """Save an array in the .npy format.

    Args:
        file: A path, to which .npy is added if it is missing, or an open file.
        arr: The array.
    """
    content = _npy_bytes(_checked("save", arr, "arr"))
    _write("save", file, ".npy", lambda stream: _put(stream, content))


def _put(stream: IO[bytes], content: bytes) -> None:
    stream.write(content)


# .npz


def _save_zip(name: str, file: File, compression: int, args: Any, kwargs: Any) -> None:
    arrays = dict(kwargs)
    for position, value in enumerate(args):
        key = f"arr_{position}"
        if key in arrays:
            raise ValueError(
                f"[{name}] {key!r} is the name of an argument without one; use another."
            )
        arrays[key] = value
    contents = {key: _npy_bytes(_checked(name, value, repr(key))) for key, value in arrays.items()}

    def write(stream: IO[bytes]) -> None:
        with zipfile.ZipFile(stream, "w", compression) as archive:
            for key, content in contents.items():
                archive.writestr(f"{key}.npy", content)

    _write(name, file, ".npz", write)


def savez(file: File, *args: array, **kwargs: array) -> None:
    """Save several arrays in the .npz format.

    Args:
        file: A path, to which .npz is added if it is missing, or an open file.
        args: Arrays, named arr_0, arr_1 and so on.
        kwargs: Arrays by name.
    """
    _save_zip("savez", file, zipfile.ZIP_STORED, args, kwargs)


def savez_compressed(file: File, *args: array, **kwargs: array) -> None:
    """Save several arrays in the .npz format, compressed.

    Args:
        file: A path, to which .npz is added if it is missing, or an open file.
        args: Arrays, named arr_0, arr_1 and so on.
        kwargs: Arrays by name.
    """
    _save_zip("savez_compressed", file, zipfile.ZIP_DEFLATED, args, kwargs)


def _load_npz(stream: IO[bytes], where: str) -> dict[str, array]:
    try:
        with zipfile.ZipFile(stream) as archive:
            return {
                name.removesuffix(".npy"): _from_npy(
                    "load", io.BytesIO(archive.read(name)), f"{name} in {where}"
                )
                for name in archive.namelist()
            }
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, zlib.error) as error:
        raise _damaged("load", where, error) from error


# .safetensors


def save_safetensors(
    file: File, arrays: dict[str, array], metadata: dict[str, str] | None = None
) -> None:
    """Save arrays by name in the .safetensors format.

    Args:
        file: A path, to which .safetensors is added if it is missing, or an open file.
        arrays: The arrays by name.
        metadata: Strings by name, kept in the file's header.
    """
    name = "save_safetensors"
    if not isinstance(arrays, dict):
        raise TypeError(f"[{name}] arrays is a dict of arrays, got {type(arrays).__name__}.")
    header: dict[str, Any] = {}
    if metadata:
        texts = (*metadata.keys(), *metadata.values()) if isinstance(metadata, dict) else (0,)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"[{name}] metadata is a dict of strings, got {metadata!r}.")
        header["__metadata__"] = metadata
    offset = 0
    parts: list[bytes] = []
    for key, value in arrays.items():
        if not isinstance(key, str) or key == "__metadata__":
            raise ValueError(f"[{name}] {key!r} cannot be the name of an array.")
        _checked(name, value, repr(key))
    # The largest elements first, so that all are aligned.
    for key, value in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        content = np.ascontiguousarray(value._data).tobytes()
        header[key] = {
            "dtype": _safetensors_name(value.dtype),
            "shape": list(value.shape),
            "data_offsets": [offset, offset + len(content)],
        }
        offset += len(content)
        parts.append(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the elements are aligned

    def write(stream: IO[bytes]) -> None:
        stream.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            stream.write(part)

    _write(name, file, ".safetensors", write)


def _load_safetensors(stream: IO[bytes], where: str) -> tuple[dict[str, array], dict[str, str]]:
    content = stream.read()
    if len(content) < 8:
        raise RuntimeError(f"[load] {where} has {len(content)} bytes, fewer than a header takes.")
    (length,) = struct.unpack_from("<Q", content)
    if length > min(len(content) - 8, _MOST_HEADER_BYTES):
        raise RuntimeError(
            f"[load] {where} is damaged or incomplete: its header should have {length} bytes, "
            f"but the file has {len(content)}."
        )
    try:
        header = json.loads(content[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise _damaged("load", where, error) from error
    if not isinstance(header, dict):
        raise RuntimeError(f"[load] the header of {where} is no table of arrays.")
    metadata = header.pop("__metadata__", {})
    body = memoryview(content)[8 + length :]
    arrays = {key: _tensor(key, entry, body, where) for key, entry in header.items()}
    return arrays, metadata if isinstance(metadata, dict) else {}


def _tensor(key: str, entry: Any, body: memoryview, where: str) -> array:
    try:
        dtype = _SAFETENSORS_DTYPES.get(entry["dtype"])
        shape = tuple(entry["shape"])
        begin, end = entry["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise RuntimeError(f"[load] the header of {where} does not describe {key!r}.") from error
    if dtype is None:
        raise ValueError(
            f"[load] {key!r} in {where} has the dtype {entry['dtype']!r}, which no array has."
        )
    numbers = (*shape, begin, end)
    if not all(type(number) is int and number >= 0 for number in numbers) or begin > end:
        raise RuntimeError(f"[load] {key!r} in {where} has impossible sizes: {entry}.")
    if end > len(body) or end - begin != size_of(shape) * dtype.size:
        raise RuntimeError(
            f"[load] {key!r} in {where} should have {size_of(shape) * dtype.size} bytes from "
            f"{begin} to {end}, but the file has {len(body)}: it is damaged or incomplete."
        )
    data = np.frombuffer(body[begin:end], np.uint8).copy().view(dtype.numpy).reshape(shape)
    return _native.constant(data, dtype)


# Loading


def load(
    file: File,
    /,
    format: str | None = None,
    return_metadata: bool = False,
    *,
    stream: StreamLike = None,
) -> Any:
    """Load arrays from a .npy, .npz or .safetensors file.

    Args:
        file: A path or an open file.
        format: "npy", "npz" or "safetensors"; by default what the file's name ends with.
        return_metadata: Whether to return the metadata of a .safetensors file, too.
        stream: Where the work belongs.

    Returns:
        One array from a .npy file, else a dict of arrays by name; with `return_metadata`, a pair of
        that and a dict.
    """
    path = _path("load", file)
    where = str(path if path is not None else getattr(file, "name", "the file"))
    kind = format or Path(where).suffix.removeprefix(".")
    if not kind:
        raise ValueError(
            f"[load] {where} has no extension: give format= 'npy', 'npz' or 'safetensors'."
        )
    if kind not in ("npy", "npz", "safetensors"):
        raise ValueError(f"[load] {kind} is no known format: npy, npz and safetensors are.")
    if path is None:
        return _loaded(kind, file, where, return_metadata)  # type: ignore[arg-type]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RuntimeError(f"[load] cannot open {where}: {error.strerror}.") from error
    return _loaded(kind, io.BytesIO(content), where, return_metadata)


def _loaded(kind: str, stream: IO[bytes], where: str, return_metadata: bool) -> Any:
    if kind == "safetensors":
        arrays, metadata = _load_safetensors(stream, where)
        return (arrays, metadata) if return_metadata else arrays
    if return_metadata:
        raise ValueError(f"[load] .{kind} files have no metadata; .safetensors files have.")
    return _from_npy("load", stream, where) if kind == "npy" else _load_npz(stream, where)


def save_gguf(file: File, arrays: dict[str, array], metadata: Any = None) -> None:
    """The .gguf format is not written by ingot: raises ValueError."""
    raise ValueError(
        "[save_gguf] ingot does not write .gguf files: use save_safetensors, which keeps names, "
        "dtypes and metadata."
    )
