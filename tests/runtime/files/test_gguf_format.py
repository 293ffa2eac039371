"""The .gguf format against MLX, which reads and writes it, and the `gguf` package."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import gguf
import mlx.core as oracle
import numpy as np
import pytest

import ingot.core as mx

KINDS = gguf.GGMLQuantizationType
SCALARS = "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 bool_".split()


def _written(module: Any, path: Path) -> None:
    arrays = {
        "a.weight": module.arange(6, dtype=module.float32).reshape(2, 3),
        "t": module.arange(6, dtype=module.float32).reshape(2, 3).T,
        "scalar": module.array(3.0),
        "deep": module.ones((1, 2, 1, 2, 1)).astype(module.float16),
        **{name: module.array([[1, -2]]).astype(getattr(module, name)) for name in SMALL},
    }
    metadata = {
        "general.name": "näme",
        "texts": ["a", "", "längere"],
        **{f"one.{name}": module.array(1).astype(getattr(module, name)) for name in SCALARS},
        **{f"some.{name}": module.array([0, 1]).astype(getattr(module, name)) for name in SCALARS},
    }
    module.save_gguf(str(path), arrays, metadata)


SMALL = ("int8", "int16", "int32")


def _plain(value: Any) -> Any:
    """A value that does not depend on the library."""
    if isinstance(value, (str, list)):
        return value
    return str(value.dtype).rpartition(".")[2], value.shape, value.tolist()


@pytest.mark.parametrize(("writer", "reader"), [(mx, mx), (mx, oracle), (oracle, mx)])
def test_both_libraries_read_what_either_wrote(writer: Any, reader: Any, tmp_path: Path) -> None:
    path, own = tmp_path / "x.gguf", tmp_path / "own.gguf"
    _written(writer, path)
    _written(oracle, own)
    found = reader.load(str(path), return_metadata=True)
    expected = oracle.load(str(own), return_metadata=True)
    for these, those in zip(found, expected, strict=True):
        assert {k: _plain(v) for k, v in these.items()} == {k: _plain(v) for k, v in those.items()}


def _blocks(kind: Any, path: Path, name: str = "a.weight") -> np.ndarray:
    """A file with one matrix of random blocks with scales of usual sizes."""
    random = np.random.default_rng(int(kind))
    elements, nbytes = gguf.GGML_QUANT_SIZES[kind]
    if kind is KINDS.BF16:
        codes = (random.normal(size=(3, 512)).astype(np.float32).view(np.uint32) >> 16).view("<u2")
        raw = codes[:, ::2].copy().view(np.uint8)
    else:
        blocks = random.integers(0, 256, (6 * 256 // elements, nbytes), dtype=np.uint8)
        for first in SCALES[kind.name]:
            scales = random.normal(size=(len(blocks), 1)).astype(np.float16)
            blocks[:, first : first + 2] = scales.view(np.uint8)
        raw = blocks.reshape(3, -1)
    writer = gguf.GGUFWriter(path, "test")
    writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return raw


# Where float16 numbers are in a block.
SCALES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("key", ["a.weight", "another_name"])
def test_codes_stay_codes(name: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    raw = _blocks(KINDS[name], path, key)
    found, expected = mx.load(path), oracle.load(str(path))
    assert {k: _plain(v) for k, v in found.items()} == {k: _plain(v) for k, v in expected.items()}
    parts = [found[key], found[f"{key[:-7]}.scales"], found[f"{key[:-7]}.biases"]]
    bits = 8 if name == "Q8_0" else 4
    numbers = mx.dequantize(*parts, group_size=32, bits=bits, dtype=mx.float32)
    exact = gguf.dequantize(raw, KINDS[name])
    np.testing.assert_allclose(np.array(numbers), exact, rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize("name", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q5_0", "Q5_1", "BF16"])
def test_other_blocks_become_float16(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    raw = _blocks(KINDS[name], path)
    found = mx.load(path)["a.weight"]
    assert found.dtype == mx.float16
    exact = gguf.dequantize(raw, KINDS[name])
    np.testing.assert_array_equal(np.array(found), exact.astype(np.float16))
    # MLX knows no others, and reads the second half of each Q4_K sub-block with wrong scales.
    if name in ("Q2_K", "Q6_K", "BF16"):
        expected = np.array(oracle.load(str(path))["a.weight"])
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-3, atol=1e-3)


def _file(entries: bytes = b"", metadata: bytes = b"", counts: tuple[int, int] = (0, 0)) -> Any:
    return io.BytesIO(b"GGUF" + struct.pack("<IQQ", 3, *counts) + metadata + entries)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _entry(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return _text(name) + axes + struct.pack("<IQ", kind, offset)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (io.BytesIO(b"GGML" + bytes(20)), "does not begin with GGUF"),
        (io.BytesIO(b"GGUF" + struct.pack("<IQQ", 1, 0, 0)), "version 1"),
        (_file(counts=(2**60, 0)), "should have 1152921504606846976 arrays"),
        (_file(counts=(0, 2**60)), "should have 1152921504606846976 metadata"),
        (_file(_entry("x", (4,), 0, 0), counts=(1, 0)), "should have 16 bytes from 0 on"),
        (_file(_entry("x", (2**62, 2**62), 0, 0), counts=(1, 0)), "damaged or incomplete"),
        (_file(_entry("x", (1,), 0, 2**63), counts=(1, 0)), "damaged or incomplete"),
        (_file(_entry("x", (0, 2**62, 2**62), 0, 0), counts=(1, 0)), "impossible shape"),
        (_file(_entry("x", (1,) * 9, 0, 0), counts=(1, 0)), "has 9 axes"),
        (_file(_entry("x", (1,), 99, 0), counts=(1, 0)), "elements of type 99"),
        (_file(_entry("x", (31,), 2, 0), counts=(1, 0)), "does not divide into blocks of 32"),
        (_file(_entry("x", (), 2, 0), counts=(1, 0)), "does not divide into blocks of 32"),
        (
            _file(_entry("x", (4,), 0, 0) + _entry("y", (1,), 0, 8) + bytes(99), counts=(2, 0)),
            "'y' in the file shares bytes",
        ),
        (
            _file(_entry("x", (1,), 0, 0) + _entry("x", (1,), 0, 32) + bytes(99), counts=(2, 0)),
            "has the array 'x' twice",
        ),
        (_file(metadata=(_text("k") + bytes(5)) * 2, counts=(0, 2)), "metadata 'k' twice"),
        (_file(metadata=_text("k") + struct.pack("<IQ", 8, 2**63), counts=(0, 1)), "should take"),
        (
            _file(metadata=_text("k") + struct.pack("<IIQ", 9, 8, 2**60), counts=(0, 1)),
            "strings in the metadata 'k'",
        ),
        (
            _file(metadata=_text("k") + struct.pack("<IIQ", 9, 9, 1), counts=(0, 1)),
            "lists have numbers or strings",
        ),
        (_file(metadata=_text("k") + struct.pack("<IQ", 77, 1), counts=(0, 1)), "unknown type 77"),
        (
            _file(metadata=struct.pack("<Q", 1) + b"\xff" + bytes(5), counts=(0, 1)),
            "not UTF-8 text",
        ),
        (
            _file(metadata=_text("general.alignment") + struct.pack("<II", 4, 0), counts=(0, 1)),
            "is 0, not a power of two",
        ),
        (
            _file(metadata=_text("general.alignment") + struct.pack("<I", 8) + _text("a"),
                  counts=(0, 1)),
            "is not an integer",
        ),
        (
            _file(metadata=_text("general.alignment") + struct.pack("<If", 6, np.inf),
                  counts=(0, 1)),
            "is not an integer",
        ),
    ],
)  # fmt: skip
def test_hostile_files_are_errors(file: io.BytesIO, message: str) -> None:
    file.seek(0)
    with pytest.raises(ValueError, match=message):
        mx.load(file, format="gguf")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    x = mx.array([1.0])
    for dtype in (mx.bfloat16, mx.float64, mx.uint8, mx.bool_, mx.complex64):
        with pytest.raises(RuntimeError, match=r"\[save_gguf\] 'x' is .*: use astype"):
            mx.save_gguf(path, {"x": x.astype(dtype)})
    with pytest.raises(RuntimeError, match="no empty arrays"):
        mx.save_gguf(path, {"x": x[:0]})
    with pytest.raises(RuntimeError, match="has 9 axes"):
        mx.save_gguf(path, {"x": x.reshape((1,) * 9)})
    with pytest.raises(RuntimeError, match="has 2 axes: an array there has at most one"):
        mx.save_gguf(path, {"x": x}, {"k": mx.ones((2, 2))})
    with pytest.raises(ValueError, match="cannot be bfloat16"):
        mx.save_gguf(path, {"x": x}, {"k": x.astype(mx.bfloat16)})
    with pytest.raises(RuntimeError, match="a string, a list of strings or an array, got 3"):
        mx.save_gguf(path, {"x": x}, {"k": 3})
    with pytest.raises(ValueError, match="metadata must be a dict by name"):
        mx.save_gguf(path, {"x": x}, ["k"])
    assert list(tmp_path.iterdir()) == []


def test_errors_of_alignments_name_the_function(tmp_path: Path) -> None:
    for value, text in ((mx.array(48), "is 48, not a power of two"), ("a", "is not an integer")):
        with pytest.raises(ValueError, match=rf"\[save_gguf\] general.alignment .* {text}"):
            mx.save_gguf(tmp_path / "bad", {"x": mx.ones((3,))}, {"general.alignment": value})


def test_alignment_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "named"
    alignment = {"general.alignment": mx.array(256, mx.uint32)}
    mx.save_gguf(path, {"x": mx.ones((3,)), "y": mx.arange(5).astype(mx.int32)}, alignment)
    path = tmp_path / "named.gguf"
    for module in (mx, oracle):
        assert module.load(str(path))["y"].tolist() == [0, 1, 2, 3, 4]
    reader = gguf.GGUFReader(path)
    assert [tensor.data_offset % 256 for tensor in reader.tensors] == [0, 0]
