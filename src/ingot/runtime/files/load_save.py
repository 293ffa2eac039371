"""Files: arrays to and from .npy, .npz, .safetensors and .gguf, as MLX stores them.

Nothing in a file is ever executed: there is no pickle. `access.py` opens and writes files, and
there is a module per format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ingot._native import array, evaluate
from ingot.graph.device import StreamLike
from ingot.graph.errors import ConversionError, value_text
from ingot.graph.libraries import zip_library
from ingot.runtime.files.access import File, FileError, opened, path_of, write_file
from ingot.runtime.files.content import Content
from ingot.runtime.files.gguf_format import (
    MAX_AXES,
    METADATA_DTYPES,
    WRITABLE,
    read_gguf,
    write_gguf,
)
from ingot.runtime.files.npy_format import read_npy, write_npy
from ingot.runtime.files.safetensors_format import METADATA, read_safetensors, write_safetensors

__all__ = ["load", "save", "save_gguf", "save_safetensors", "savez", "savez_compressed"]

# The exceptions of Python's zip reader for corrupt archives. An encrypted archive is a
# RuntimeError, unsupported compression a NotImplementedError, which is a subclass.
_DAMAGED_ARCHIVE = (
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    LookupError,
    OverflowError,
)
_KINDS = ("npy", "npz", "safetensors", "gguf")
_PICKLED = ("bin", "ckpt", "pickle", "pkl", "pt", "pth")


def save(file: File, arr: array) -> None:
    """Save an array in the .npy format.

    Args:
        file: A path, to which .npy is added if it is missing, or an open file.
        arr: The array.
    """
    if not isinstance(arr, array):
        raise TypeError(f"[save] arr must be an array, got {type(arr).__name__}.")
    evaluate([arr])
    write_file("save", file, ".npy", lambda stream: write_npy(stream, arr))


def savez(file: File, *args: array, **kwargs: array) -> None:
    """Save several arrays in the .npz format.

    Args:
        file: A path, to which .npz is added if it is missing, or an open file.
        args: Arrays, named arr_0, arr_1 and so on.
        kwargs: Arrays by name.
    """
    _save_archive("savez", file, zip_library().ZIP_STORED, args, kwargs)


def savez_compressed(file: File, *args: array, **kwargs: array) -> None:
    """Save several arrays in the .npz format, compressed.

    Args:
        file: A path, to which .npz is added if it is missing, or an open file.
        args: Arrays, named arr_0, arr_1 and so on.
        kwargs: Arrays by name.
    """
    _save_archive("savez_compressed", file, zip_library().ZIP_DEFLATED, args, kwargs)


def _save_archive(
    name: str, file: File, compression: int, args: tuple[array, ...], kwargs: dict[str, array]
) -> None:
    arrays = dict(kwargs)
    for position, value in enumerate(args):
        key = f"arr_{position}"
        if key in arrays:
            raise ValueError(
                f"[{name}] {key!r} is the name of an argument without one: use another."
            )
        arrays[key] = value
    _check_arrays(name, arrays)
    for key in arrays:
        if not _is_plain(key):
            raise ValueError(f"[{name}] {key!r} cannot be the name of an array in an archive.")

    def write(stream: IO[bytes]) -> None:
        with zip_library().ZipFile(stream, "w", compression) as archive:
            for key, value in arrays.items():
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    write_npy(member, value)

    write_file(name, file, ".npz", write)


def save_safetensors(file: File, arrays: dict[Any, Any], metadata: Any = None) -> None:
    """Save arrays by name in the .safetensors format.

    Args:
        file: A path, to which .safetensors is added if it is missing, or an open file.
        arrays: The arrays by name.
        metadata: Strings by name, kept in the file's header.
    """
    name = "save_safetensors"
    if not isinstance(arrays, dict):
        raise TypeError(f"[{name}] arrays must be a dict of arrays, got {type(arrays).__name__}.")
    texts = {} if metadata is None else metadata
    if not isinstance(texts, dict) or not all(
        isinstance(text, str) for pair in texts.items() for text in pair
    ):
        raise ValueError(
            f"[{name}] metadata must be a dict of strings, got {value_text(metadata)}."
        )
    _check_arrays(name, arrays)
    if METADATA in arrays:
        raise ValueError(f"[{name}] {METADATA!r} cannot be the name of an array.")
    write_file(name, file, ".safetensors", lambda stream: write_safetensors(stream, arrays, texts))


def _check_arrays(name: str, arrays: Mapping[Any, Any]) -> None:
    """All values must be arrays, which are computed before a file is opened."""
    for key, value in arrays.items():
        if not isinstance(key, str):
            raise ConversionError(f"[{name}] the name of an array must be a string, got {key!r}.")
        if not isinstance(value, array):
            nested = isinstance(value, (dict, list, tuple))
            way_out = " Flatten trees first: dict(tree_flatten(tree))." if nested else ""
            raise ConversionError(
                f"[{name}] {key!r} must be an array, got {type(value).__name__}.{way_out}"
            )
    evaluate(list(arrays.values()))


def _is_plain(name: str) -> bool:
    """Whether a name in an archive stays inside the directory it is unpacked into."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return (
        bool(parts) and not name.startswith(("/", "\\")) and ".." not in parts and "\0" not in name
    )


def load(
    file: File,
    /,
    format: str | None = None,
    return_metadata: bool = False,
    *,
    stream: StreamLike = None,
) -> Any:
    """Load arrays from a .npy, .npz, .safetensors or .gguf file.

    Arrays of large .safetensors files are mapped: their elements are read when they are used, and
    take no memory that cannot be given back. The file may be replaced or deleted meanwhile, and
    changing an array does not change it; a file that is written over in place must not be one that
    arrays were loaded from.

    Quantised matrices of .gguf files (Q4_0, Q4_1, Q8_0) are three arrays, as `quantize` makes them
    in groups of 32: `x.weight`, `x.scales` and `x.biases`. Other quantised types become float16.

    Args:
        file: A path or an open file.
        format: "npy", "npz", "safetensors" or "gguf"; by default what the file's name ends with.
        return_metadata: Whether to return the metadata of a .safetensors or .gguf file too.
        stream: The stream or device to run on.

    Returns:
        One array from a .npy file, else a dict of arrays by name; with `return_metadata`, a pair of
        that and a dict.
    """
    path = path_of("load", file)
    where = str(path if path is not None else getattr(file, "name", "the file"))
    kind = format or Path(where).suffix.removeprefix(".")
    if not kind:
        raise ValueError(
            f"[load] the name of {where} does not say its format: give format='npy', 'npz', "
            "'safetensors' or 'gguf'."
        )
    if kind not in _KINDS:
        pickled = (
            " Such files can run code when loaded; save the tensors as .safetensors instead."
            if kind in _PICKLED
            else ""
        )
        raise ValueError(
            f"[load] cannot read files of type {kind!r}, only npy, npz, safetensors and gguf."
            f"{pickled}"
        )
    if return_metadata and kind in ("npy", "npz"):
        raise ValueError(
            f"[load] .{kind} files have no metadata; .safetensors and .gguf files have."
        )
    with opened(file, where) as (content, available):
        if kind == "npy":
            return read_npy(content, where, available)
        if kind == "npz":
            return _load_archive(content, where)
        read: Any = read_gguf if kind == "gguf" else read_safetensors
        arrays, metadata = read(Content(content, where, available))
    return (arrays, metadata) if return_metadata else arrays


def _load_archive(stream: IO[bytes], where: str) -> dict[str, array]:
    arrays: dict[Any, Any] = {}
    try:
        with zip_library().ZipFile(stream) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if not _is_plain(member.filename) or name in arrays:
                    raise FileError(f"[load] {where} has an array of the name {name!r}, or two.")
                with archive.open(member) as content:
                    arrays[name] = read_npy(content, f"{name!r} in {where}", member.file_size)
    except FileError:
        raise
    except (*_DAMAGED_ARCHIVE, zip_library().BadZipFile) as error:
        raise FileError(f"[load] {where} is damaged or no .npz file: {error}.") from error
    return arrays


def save_gguf(file: File, arrays: dict[Any, Any], metadata: Any = None) -> None:
    """Save arrays by name in the .gguf format.

    Args:
        file: A path, to which .gguf is added if it is missing, or an open file.
        arrays: The arrays by name: float32, float16, int8, int16 or int32, and none of them empty.
        metadata: By name, strings, lists of strings, and arrays of numbers with at most one axis.
    """
    name = "save_gguf"
    if not isinstance(arrays, dict):
        raise TypeError(f"[{name}] arrays must be a dict of arrays, got {type(arrays).__name__}.")
    _check_arrays(name, arrays)
    for key, value in arrays.items():
        if value.dtype not in WRITABLE:
            known = ", ".join(dtype.name for dtype in WRITABLE)
            raise FileError(
                f"[{name}] {key!r} is {value.dtype.name}; .gguf files have {known}: use astype."
            )
        if value.size == 0:
            raise FileError(f"[{name}] {key!r} is empty; .gguf files have no empty arrays.")
        if value.ndim > MAX_AXES:
            raise FileError(f"[{name}] {key!r} has {value.ndim} axes, more than {MAX_AXES}.")
    texts = {} if metadata is None else metadata
    if not isinstance(texts, dict) or not all(isinstance(key, str) for key in texts):
        raise ValueError(f"[{name}] metadata must be a dict by name, got {value_text(metadata)}.")
    for key, value in texts.items():
        _check_metadata(name, key, value)
    evaluate([value for value in texts.values() if isinstance(value, array)])
    write_file(name, file, ".gguf", lambda stream: write_gguf(stream, arrays, texts))


def _check_metadata(name: str, key: str, value: Any) -> None:
    if isinstance(value, str):
        return
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return
    if not isinstance(value, array):
        raise ConversionError(
            f"[{name}] the metadata {key!r} must be a string, a list of strings or an array, got "
            f"{value_text(value)}."
        )
    if value.ndim > 1:
        raise FileError(
            f"[{name}] the metadata {key!r} has {value.ndim} axes: an array there has at most one."
        )
    if value.dtype not in METADATA_DTYPES:
        raise ValueError(f"[{name}] the metadata {key!r} cannot be {value.dtype.name}.")
