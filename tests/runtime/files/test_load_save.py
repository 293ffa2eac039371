"""Files: round trips, what MLX wrote and reads, and everything that can be wrong with a file."""

from __future__ import annotations

import io
import json
import struct
import zipfile
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


def test_names_get_extensions_and_open_files_are_accepted(tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match="metadata must be a dict of strings"):
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


def _contents() -> list[tuple[str, bytes]]:
    """One file of each format, and its format."""
    x, y = mx.arange(30, dtype=mx.float32).reshape(5, 6), mx.array([1, 2]).astype(mx.bfloat16)
    writers: list[tuple[str, Any]] = [
        ("npy", lambda stream: mx.save(stream, x)),
        ("npz", lambda stream: mx.savez(stream, x, y=y)),
        ("npz", lambda stream: mx.savez_compressed(stream, x, y=y)),
        ("safetensors", lambda stream: mx.save_safetensors(stream, {"x": x, "y": y}, {"a": "b"})),
        ("gguf", lambda stream: mx.save_gguf(stream, {"x": x}, {"a": "b", "n": x[0], "s": ["t"]})),
    ]
    found = []
    for kind, write in writers:
        stream = io.BytesIO()
        write(stream)
        found.append((kind, stream.getvalue()))
    return found


def _damaged(content: bytes, random: np.random.Generator) -> bytes:
    """The content with some bytes changed, put in or left out."""
    damaged = bytearray(content)
    place = int(random.integers(len(damaged)))
    kind = random.integers(4)
    if kind == 0:
        for other in random.integers(min(len(damaged), 200), size=3):
            damaged[other] = int(random.integers(256))
    elif kind == 1:
        damaged[place:place] = random.bytes(int(random.integers(1, 6)))
    elif kind == 2:
        del damaged[place : place + int(random.integers(1, 9))]
    else:
        del damaged[place:]
    return bytes(damaged)


@pytest.mark.parametrize("number", range(5))
def test_any_damage_is_an_error_or_harmless(number: int) -> None:
    kind, content = _contents()[number]
    random = np.random.default_rng(number)
    messages = []
    for _ in range(1000):
        stream = io.BytesIO(_damaged(content, random))
        try:
            mx.load(stream, format=kind)
        except (ValueError, RuntimeError) as error:
            messages.append(str(error))
    assert len(messages) > 400
    assert all(message.startswith("[load]") for message in messages)


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "gguf"])
def test_damaged_files_are_errors(kind: str, tmp_path: Path) -> None:
    whole = tmp_path / f"whole.{kind}"
    x = mx.arange(104, dtype=mx.float32)  # no padding behind it
    {
        "npy": mx.save,
        "npz": lambda f, x: mx.savez(f, x=x),
        "safetensors": lambda f, x: mx.save_safetensors(f, {"x": x}),
        "gguf": lambda f, x: mx.save_gguf(f, {"x": x}),
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
    with pytest.raises(ValueError, match="type 'foo'"):
        mx.load("x.foo")
    with pytest.raises(ValueError, match="does not say its format"):
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


def test_overlaps_and_duplicates_are_errors() -> None:
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    two = {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}
    with pytest.raises(RuntimeError, match="'b' in the file shares bytes with another array"):
        mx.load(_safetensors({"a": one, "b": two}, bytes(12)), format="safetensors")
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}
    arrays = mx.load(_safetensors({"a": one, "b": empty}, bytes(8)), format="safetensors")
    assert arrays["b"].shape == (0,)
    text = b'{"a":%s,"a":%s}' % ((json.dumps(one).encode(),) * 2)
    stream = io.BytesIO(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(RuntimeError, match="a name occurs twice"):
        mx.load(stream, format="safetensors")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([1], "not a table of arrays"),
        ({"__metadata__": {"a": 1}}, "metadata of the file must be"),
        ({"__metadata__": ["a"]}, "metadata of the file must be"),
        ({"x": {"dtype": "F32", "shape": [0] * 99, "data_offsets": [0, 0]}}, "impossible shape"),
        ({"x": {"dtype": "F32", "shape": [0, 2**80], "data_offsets": [0, 0]}}, "impossible shape"),
        ({"x": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, "impossible sizes"),
        ({"x": {"dtype": ["F32"], "shape": [], "data_offsets": [0, 4]}}, "which no array has"),
    ],
)
def test_other_headers_are_errors(header: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        mx.load(_safetensors(header, bytes(8)), format="safetensors")


def test_headers_cannot_be_longer_than_files() -> None:
    for length in (9, 2**63, 200_000_000):
        with pytest.raises(RuntimeError, match=f"its header should have {length} bytes"):
            mx.load(io.BytesIO(struct.pack("<Q", length) + bytes(8)), format="safetensors")


def _npy(header: str, body: bytes = b"") -> io.BytesIO:
    return io.BytesIO(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body
    )


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "takes 8 bytes, of which 4"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "damaged"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "damaged"),
        ("{'descr': '<f4', 'shape': (1,)}", "damaged"),
        ("__import__('os').getcwd()", "damaged"),
        ("(" * 200, "damaged"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "which no array has"),
        ("{'descr': '<f4, <f4', 'fortran_order': False, 'shape': (1,)}", "which no array has"),
        ("{'descr': '<U3', 'fortran_order': False, 'shape': (0,)}", "which no array has"),
        ("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (0,)}", "which no array has"),
        ("{'descr': '<c16', 'fortran_order': False, 'shape': (0,)}", "which no array has"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}" % ("0," * 99), "impossible"),
        ("", "Cannot parse header"),
    ],
)
def test_headers_of_arrays(header: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        mx.load(_npy(header, bytes(4)), format="npy")
    with pytest.raises(ValueError, match=r"version 3 of the .npy format"):
        mx.load(io.BytesIO(b"\x93NUMPY\x03\x00" + bytes(50)), format="npy")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "\\x", "..\\x", ""])
def test_unsafe_names_are_errors(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be the name of an array in an archive"):
        mx.savez(tmp_path / "x.npz", **{name: mx.array(1.0)})
    assert list(tmp_path.iterdir()) == []
    if not name:
        return
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        content = io.BytesIO()
        mx.save(content, mx.array(1.0))
        archive.writestr(f"{name}.npy", content.getvalue())
    with pytest.raises(ValueError, match="has an array of the name"):
        mx.load(tmp_path / "x.npz")


def test_names_in_directories_are_fine(tmp_path: Path) -> None:
    mx.savez(tmp_path / "x.npz", **{"layers/0.weight": mx.array(1.0), "ä": mx.array(2.0)})
    assert set(mx.load(tmp_path / "x.npz")) == {"layers/0.weight", "ä"}


def test_wrong_arguments(tmp_path: Path) -> None:
    x = mx.array(1.0)
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="'arr_0' is the name of an argument without one"):
        mx.savez(path, x, arr_0=x)
    with pytest.raises(RuntimeError, match="'x' must be an array, got list"):
        mx.savez(path, x=[1])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"'x' must be an array, got list\. Flatten trees first"):
        mx.save_safetensors(path, {"x": [1]})  # type: ignore[dict-item]
    with pytest.raises(RuntimeError, match="the name of an array must be a string, got 1"):
        mx.save_safetensors(path, {1: x})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="arrays must be a dict, got list"):
        mx.save_safetensors(path, [x])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'__metadata__' cannot be the name"):
        mx.save_safetensors(path, {"__metadata__": x})
    with pytest.raises(ValueError, match="a file must be a path or an open file, got int"):
        mx.load(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\.npy files have no metadata"):
        mx.load("x.npy", return_metadata=True)
    with pytest.raises(ValueError, match="opened in binary mode"):
        mx.load(io.StringIO("text"), format="npy")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"cannot write .*: there is no folder .*missing"):
        mx.save(tmp_path / "missing" / "x.npy", x)
    assert list(tmp_path.iterdir()) == []


def test_values_that_cannot_be_computed_leave_no_file(tmp_path: Path) -> None:
    wrong = mx.linalg.inv(mx.zeros((2, 2)))
    with pytest.raises(RuntimeError):
        mx.save_safetensors(tmp_path / "x.safetensors", {"x": wrong})
    assert list(tmp_path.iterdir()) == []


class _Pipe(io.RawIOBase):
    """Bytes that can be read once, from front to back."""

    def __init__(self, content: bytes) -> None:
        self.content = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self.content.read(size)


@pytest.mark.parametrize("number", range(5))
def test_streams_that_cannot_go_back(number: int) -> None:
    kind, content = _contents()[number]
    found, expected = (mx.load(s, format=kind) for s in (_Pipe(content), io.BytesIO(content)))
    if kind == "npy":
        found, expected = {"x": found}, {"x": expected}
    assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in expected.items()}


def test_several_arrays_in_one_stream() -> None:
    stream = io.BytesIO()
    for number in range(3):
        mx.save(stream, mx.full((number,), number))
    stream.seek(0)
    assert [mx.load(stream, format="npy").tolist() for _ in range(3)] == [[], [1], [2, 2]]


def test_links_and_permissions_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target.npy", tmp_path / "link.npy"
    mx.save(target, mx.array(1.0))
    target.chmod(0o640)
    link.symlink_to(target)
    mx.save(link, mx.array(2.0))
    assert link.is_symlink()
    assert mx.load(target).item() == 2.0
    assert target.stat().st_mode & 0o777 == 0o640


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    mx.save(tmp_path / "x.npy", mx.array(1.0))
    usual, found = ((tmp_path / name).stat().st_mode for name in ("usual", "x.npy"))
    assert found == usual


def test_strided_and_scalar_arrays(tmp_path: Path) -> None:
    x = mx.arange(24).reshape(2, 3, 4)
    arrays = {
        "moved": x.transpose(2, 0, 1),
        "stepped": x[:, ::-1, ::2],
        "repeated": mx.broadcast_to(x[:, :1], (2, 3, 4)),
        "scalar": mx.array(5),
        "empty": mx.zeros((3, 0)),
    }
    mx.save_safetensors(tmp_path / "x.safetensors", arrays)
    mx.savez_compressed(tmp_path / "x.npz", **arrays)
    for path in tmp_path.iterdir():
        loaded = mx.load(path)
        for name, value in arrays.items():
            assert loaded[name].shape == value.shape
            assert loaded[name].tolist() == value.tolist()
