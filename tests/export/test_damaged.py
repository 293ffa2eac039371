"""Damaged files raise a sentence, and never crash, hang or take memory that is not there."""

from __future__ import annotations

import contextlib
import random
import struct
from pathlib import Path
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot.export.building.traces import applied, check
from ingot.export.format import File, read

KINDS = 1_000


def exported(folder: Path) -> bytes:
    """A file with several traces and many primitives, with states of all kinds."""
    file = folder / "f.mlxfn"
    weights = mlx.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    mlx.eval(weights)

    def function(x: Any, index: Any, y: Any = None) -> Any:
        h = mlx.softmax(x @ weights, -1)[::-1, 1:]
        taken = mlx.take_along_axis(h, index, 1)
        conv = mlx.conv1d(h[None], mlx.ones((2, 1, 3)), 1, 1)
        parts = mlx.split(mlx.pad(h, 1).reshape(-1, 4).astype(mlx.float16), 2, 1)
        spectrum = mlx.abs(mlx.fft.rfft(h))
        h = h.at[index[0]].add(2.0)
        return h.sum(0) if y is None else h + y, taken, conv, *parts, spectrum

    index = mlx.array([[0, 1], [1, 0]])
    with mlx.exporter(str(file), function, metadata="text") as export:
        export(mlx.ones((2, 3)), index)
        export(mlx.ones((2, 3)), index, y=mlx.ones((2, 3)))
    return file.read_bytes()


def damaged(data: bytes, generator: random.Random) -> bytes:
    """The bytes with one thing changed."""
    changed = bytearray(data)
    position = generator.randrange(len(data))
    kind = generator.randrange(7)
    if kind == 0:
        return data[:position]
    if kind == 1:
        changed[position] ^= 1 << generator.randrange(8)
    elif kind == 2:
        changed[position] = generator.randrange(256)
    elif kind == 3:  # a length or an identity
        number = generator.choice((0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1))
        changed[position : position + 8] = struct.pack("<Q", number)
    elif kind == 4:
        del changed[position : position + generator.randrange(1, 40)]
    elif kind == 5:
        changed[position:position] = generator.randbytes(generator.randrange(1, 40))
    else:
        other = generator.randrange(len(data))
        changed[position : position + 16] = data[other : other + 16]
    return bytes(changed)


def evaluate(file: File) -> None:
    """Run all that a file holds; indices that were damaged may be out of range."""
    for trace in file.traces:
        inputs = [mx.ones(spec.shape, dtype=spec.dtype) for spec in trace.specs]
        with contextlib.suppress(IndexError):
            mx.eval(applied(trace, inputs))


def test_damage(tmp_path: Path) -> None:
    """Each of a thousand kinds of damage raises, or is within numbers: elements of constants, the
    metadata, keywords, streams, operations of the same kind.
    """
    data = exported(tmp_path)
    generator = random.Random(5)
    refused: list[str] = []
    for _ in range(KINDS):
        try:
            file = read(damaged(data, generator), "f.mlxfn")
            for trace in file.traces:
                check(trace, "f.mlxfn")
        except ValueError as error:
            refused.append(str(error))
            continue
        evaluate(file)
    for message in refused:
        assert message.startswith("[import_function] f.mlxfn is damaged")
        assert message.endswith(".")
    assert len(refused) > 0.6 * KINDS


def test_every_prefix(tmp_path: Path) -> None:
    data = exported(tmp_path)
    for length in range(0, len(data), 41):
        with pytest.raises(ValueError, match="is damaged"):
            read(data[:length], "f.mlxfn")


def test_what_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "f.mlxfn"
    data = exported(tmp_path)
    for old, new, message in (
        (b"0.32.4", b"9.99.9", "written by MLX '9.99.9'"),
        (b"Softmax", b"Hardmax", "operation 'Hardmax', which ingot cannot read"),
    ):
        assert old in data
        file.write_bytes(data.replace(old, new))
        with pytest.raises(ValueError, match=message):
            mx.import_function(str(file))


def test_files_of_other_kinds(tmp_path: Path) -> None:
    for name, content in (
        ("empty", b""),
        ("text", b"def f(x): return x\n" * 9),
        ("zeros", bytes(99)),
    ):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged"):
            mx.import_function(str(file))
