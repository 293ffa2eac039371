"""The disk cache: a hit skips compilation; whatever is wrong with it only costs time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.compiler import disk_cache
from ingot.compiler.disk_cache import DiskCache

SCRIPT = """
import ingot.core as mx
from ingot.compiler import jit, kernels
compiled = []
original = jit.compile_object
kernels.compile_object = lambda code: compiled.append(code) or original(code)
print(mx.compile(lambda x: mx.exp(x) + 1)(mx.array([0.0, 0.0])).tolist(), len(compiled))
"""


def _run(folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "INGOT_CACHE_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert _run(tmp_path) == "[2.0, 2.0] 1"
    assert _run(tmp_path) == "[2.0, 2.0] 0"


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert _run(tmp_path, INGOT_CACHE="off") == "[2.0, 2.0] 1"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign"])
def test_damaged_entries_are_compiled_again(tmp_path: Path, damage: str) -> None:
    _run(tmp_path)
    (entry,) = tmp_path.glob("*.o")
    content = bytearray(entry.read_bytes())
    if damage == "truncate":
        entry.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[-10] ^= 1
        entry.write_bytes(content)
    elif damage == "empty":
        entry.write_bytes(b"")
    else:
        entry.write_bytes(b"\\x7fELF" + bytes(1000))
    assert _run(tmp_path) == "[2.0, 2.0] 1"
    assert _run(tmp_path) == "[2.0, 2.0] 0"


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert _run(blocked) == "[2.0, 2.0] 1"


def test_entries_are_whole_or_not_there(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.write("a" * 64, b"code")
    assert cache.read("a" * 64) == b"code"
    assert cache.read("b" * 64) is None
    assert [path.suffix for path in tmp_path.iterdir()] == [".o"]
    assert stat.S_ISREG((tmp_path / ("a" * 64 + ".o")).stat().st_mode)


def test_the_size_is_bounded_and_the_oldest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "MOST_BYTES", 4000)
    cache = DiskCache(tmp_path)
    for number in range(6):
        cache.write(f"{number:064}", bytes(1000))
        os.utime(tmp_path / f"{number:064}.o", (number, number))
    assert cache.read(f"{0:064}") is None
    assert cache.read(f"{5:064}") is not None
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 4000
