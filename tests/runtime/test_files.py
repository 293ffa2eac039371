"""Files: round trips, what MLX wrote and reads, and everything that can be wrong with a file."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import mlx.core as oracle
import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.dtype import ALL_DTYPES

VALUES = [[0, 1, 2], [3, 4, 5]]


def _array(module: Any, dtype: str) -> Any:
    return module.array(VALUES).astype(getattr(module, dtype))


DTYPES = ["bool_" if dtype.name == "bool" else dtype.name for dtype in ALL_DTYPES]


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_libraries_read_what_either_wrote(dtype: str, tmp_path: Path) -> None:
    for writer, reader in ((mx, mx), (mx, oracle), (oracle, mx)):
        x = _array(writer, dtype)
        writer.save(str(tmp_path / "x.npy"), x)
        writer.savez(str(tmp_path / "x.npz"), x, named=x.T)
        expected = _array(reader, dtype)
        loaded = reader.load(str(tmp_path / "x.npy"))
        assert loaded.dtype == expected.dtype
        assert loaded.tolist() == expected.tolist()
        archive = reader.load(str(tmp_path / "x.npz"))
        assert {"arr_0", "named"} == set(archive)
        assert archive["named"].tolist() == expected.T.tolist()
        if dtype == "float64" and oracle in (reader, writer):
            continue  # MLX has no float64 in .safetensors
        writer.save_safetensors(str(tmp_path / "x.safetensors"), {"w": x, "t": x.T})
        tensors = reader.load(str(tmp_path / "x.safetensors"))
        assert tensors["t"].tolist() == expected.T.tolist()
        assert tensors["w"].dtype == expected.dtype


def test_names_get_their_endings_and_open_files_are_taken(tmp_path: Path) -> None:
    x = mx.array([1.0, 2.0])
    mx.save(tmp_path / "plain", x)
    mx.savez_compressed(tmp_path / "archive", x=x)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive.npz", "plain.npy"]
    assert mx.load(tmp_path / "archive.npz")["x"].tolist() == [1.0, 2.0]
    stream = io.BytesIO()
    mx.save(stream, x)
    stream.seek(0)
    assert mx.load(stream, format="npy").tolist() == [1.0, 2.0]


def test_metadata(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    mx.save_safetensors(path, {"w": mx.zeros((0, 3))}, {"origin": "test"})
    arrays, metadata = mx.load(path, return_metadata=True)
    assert metadata == {"origin": "test"}
    assert arrays["w"].shape == (0, 3)
    with pytest.raises(ValueError, match="metadata is a dict of strings"):
        mx.save_safetensors(path, {"w": mx.zeros(1)}, {"k": 1})


def test_numpys_layouts(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    np.save(tmp_path / "b.npy", values.astype(">f4"))
    assert mx.load(tmp_path / "f.npy").tolist() == values.tolist()
    assert mx.load(tmp_path / "b.npy").tolist() == values.tolist()


def test_python_objects_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([None, 1], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="holds Python objects, which are never loaded"):
        mx.load(tmp_path / "o.npy")


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
def test_damaged_files_are_errors(kind: str, tmp_path: Path) -> None:
    whole = tmp_path / f"whole.{kind}"
    x = mx.arange(100, dtype=mx.float32)
    {
        "npy": mx.save,
        "npz": lambda f, x: mx.savez(f, x=x),
        "safetensors": lambda f, x: mx.save_safetensors(f, {"x": x}),
    }[kind](whole, x)
    content = whole.read_bytes()
    broken = tmp_path / f"broken.{kind}"
    for length in (0, 1, 7, 9, 60, len(content) // 2, len(content) - 1):
        broken.write_bytes(content[:length])
        with pytest.raises((RuntimeError, ValueError), match=r"\[load\]"):
            mx.load(broken)
    broken.write_bytes(b"garbage" * 100)
    with pytest.raises((RuntimeError, ValueError), match=r"\[load\]"):
        mx.load(broken)


def _safetensors(header: Any, body: bytes = b"") -> io.BytesIO:
    text = json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text)) + text + body)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 16]}, "should have 8 bytes"),
        ({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}, "damaged or incomplete"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}, "impossible sizes"),
        ({"dtype": "F32", "shape": [2**62], "data_offsets": [0, 8]}, "damaged or incomplete"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}, "impossible sizes"),
        ({"dtype": "F4", "shape": [1], "data_offsets": [0, 4]}, "which no array has"),
        ({"shape": [1]}, "does not describe"),
        ([1, 2], "does not describe"),
    ],
)
def test_impossible_headers_are_errors(entry: Any, message: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=message):
        mx.load(_safetensors({"x": entry}, bytes(8)), format="safetensors")


def test_unknown_files(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"\[load\] cannot open .*nothing.npy: No such file"):
        mx.load(tmp_path / "nothing.npy")
    with pytest.raises(ValueError, match="foo is no known format"):
        mx.load("x.foo")
    with pytest.raises(ValueError, match="has no extension"):
        mx.load("x")
    with pytest.raises(TypeError, match="must be an array, got list"):
        mx.save(tmp_path / "x.npy", [1, 2])  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.npy"
    mx.save(path, mx.array([1.0]))

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space left"):
        mx.save(path, mx.array([2.0]))
    assert mx.load(path).tolist() == [1.0]
    assert [item.name for item in tmp_path.iterdir()] == ["x.npy"]
