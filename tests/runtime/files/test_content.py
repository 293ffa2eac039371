"""Mapped files: their arrays are pages, and outlive the file and what is done to them."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import mlx.core as oracle
import numpy as np
import pytest

import ingot.core as mx
from ingot.tuning_memory import MIN_MAPPED_BYTES

COUNT = MIN_MAPPED_BYTES // 4 + 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "x.safetensors"
    mx.save_safetensors(found, {"x": mx.arange(COUNT, dtype=mx.float32), "y": mx.ones((3,))})
    return found


def test_loading_copies_nothing(path: Path) -> None:
    mx.clear_cache()
    before = mx.get_active_memory()
    arrays = mx.load(path)
    assert mx.get_active_memory() - before < 1000
    assert mx.sum(arrays["x"][-3:]).item() == 3 * COUNT - 6
    assert arrays["y"].tolist() == [1, 1, 1]


def test_small_files_are_read(tmp_path: Path) -> None:
    small = tmp_path / "x.safetensors"
    mx.save_safetensors(small, {"x": mx.arange(10)})
    x = mx.load(small)["x"]
    small.write_bytes(b"")
    assert x.tolist() == list(range(10))


def test_arrays_outlive_the_file(path: Path) -> None:
    x = mx.load(path)["x"]
    mx.save_safetensors(path, {"x": mx.zeros(COUNT)})  # under another name, and then renamed
    assert x[5].item() == 5
    other = mx.load(path)["x"]
    path.unlink()
    assert other[5].item() == 0
    assert x[COUNT - 1].item() == COUNT - 1


def test_changes_of_arrays_leave_the_file_alone(path: Path) -> None:
    content = path.read_bytes()
    x = mx.load(path)["x"]
    x[3] = 100
    x += 1
    mx.eval(x)
    double = mx.compile(lambda x: x * 2)
    mx.eval(double(mx.load(path)["x"]))
    memoryview(mx.load(path)["x"]).cast("B")
    assert x[3].item() == 101
    assert path.read_bytes() == content
    assert mx.load(path)["x"][3].item() == 3


def _file(header: dict, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_elements_at_odd_offsets(tmp_path: Path) -> None:
    values = np.arange(COUNT, dtype=np.float32)
    header = {
        "b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "x": {"dtype": "F32", "shape": [COUNT], "data_offsets": [1, 1 + 4 * COUNT]},
    }
    path = tmp_path / "odd.safetensors"
    path.write_bytes(_file(header, b"\7" + values.tobytes()))
    arrays = mx.load(path)
    assert arrays["b"].tolist() == [7]
    np.testing.assert_array_equal(np.array(arrays["x"]), values)


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E8M0"])
def test_floats_of_8_bits_are_codes(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    codes = bytes(range(256))
    path.write_bytes(_file({"x": {"dtype": kind, "shape": [256], "data_offsets": [0, 256]}}, codes))
    found, expected = mx.load(path)["x"], oracle.load(str(path))["x"]
    assert str(expected.dtype).endswith(found.dtype.name)
    assert found.tolist() == expected.tolist()


def test_open_files_are_mapped_from_where_they_are(path: Path) -> None:
    shifted = path.with_name("shifted")
    shifted.write_bytes(bytes(8) + path.read_bytes())
    with shifted.open("rb") as stream:
        stream.seek(8)
        x = mx.load(stream, format="safetensors")["x"]
    assert x[:4].tolist() == [0, 1, 2, 3]


def test_compressed_files_are_read(path: Path) -> None:
    noise = np.random.default_rng(0).bytes(2 * MIN_MAPPED_BYTES)  # which compression makes longer
    mx.save_safetensors(path, {"x": mx.array(np.frombuffer(noise, np.uint8))})
    compressed = path.with_name("compressed")
    with gzip.open(compressed, "wb") as stream:
        stream.write(path.read_bytes())
    assert compressed.stat().st_size > path.stat().st_size
    with gzip.open(compressed, "rb") as stream:
        x = mx.load(stream, format="safetensors")["x"]
    assert np.array(x).tobytes() == noise


def test_headers_of_mapped_files_are_checked(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="damaged or incomplete"):
        mx.load(path)
    header = {"x": {"dtype": "F32", "shape": [0, 2**80], "data_offsets": [0, 0]}}
    path.write_bytes(_file(header, bytes(2 * MIN_MAPPED_BYTES)))
    with pytest.raises(ValueError, match="impossible shape"):
        mx.load(path)
