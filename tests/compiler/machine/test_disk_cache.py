"""The disk cache: a hit skips compilation; whatever is wrong with it only costs time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingot.compiler.machine.disk_cache import DiskCache

SCRIPT = """
import ingot.core as mx
from ingot.compiler.machine import jit
from ingot.compiler.machine import kernels
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
    cache = DiskCache(str(tmp_path))
    cache.write("a" * 64, b"code")
    assert cache.read("a" * 64) == b"code"
    assert cache.read("b" * 64) is None
    assert [path.suffix for path in tmp_path.iterdir()] == [".o"]
    assert stat.S_ISREG((tmp_path / ("a" * 64 + ".o")).stat().st_mode)


def test_the_size_is_bounded_and_the_oldest_goes(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), limit=6400)
    for number in range(9):
        cache.write(f"{number:064}", bytes(1000))
        os.utime(tmp_path / f"{number:064}.o", (number, number))
        if number == 5:
            assert cache.read(f"{0:064}") is not None  # which makes it the latest
    assert cache.read(f"{1:064}") is None
    assert cache.read(f"{0:064}") is not None
    assert cache.read(f"{8:064}") is not None
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 6400


def test_the_limit_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("INGOT_CACHE_SIZE", "0.01")
    cache = DiskCache(str(tmp_path))
    for number in range(40):
        cache.write(f"{number:064}", bytes(1000))
    assert 0 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 0.01 * (1 << 20)
    assert caplog.records == []
    monkeypatch.setenv("INGOT_CACHE_SIZE", "plenty")
    assert DiskCache(str(tmp_path))._limit == 256 << 20
    assert "INGOT_CACHE_SIZE must be a number of megabytes, got 'plenty'" in caplog.text


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "old.partial", tmp_path / "new.partial"
    old.write_bytes(b"half")
    os.utime(old, (0, 0))
    new.write_bytes(b"half")
    DiskCache(str(tmp_path), limit=16).write("a" * 64, b"code")
    assert not old.exists()
    assert new.exists()


def test_a_folder_that_is_only_read_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DiskCache(str(tmp_path)).write("a" * 64, b"code")

    def refuse(path: Path) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(os, "utime", refuse)
    assert DiskCache(str(tmp_path)).read("a" * 64) == b"code"


WRITES_MUCH = """
import logging, sys
from ingot.compiler.machine.disk_cache import DiskCache
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
cache = DiskCache(sys.argv[1], limit=20_000)
for number in range(150):
    key = f"{number * 7 % 60:064}"
    found = cache.read(key)
    assert found in (None, bytes(1000)), found
    cache.write(key, bytes(1000))
"""


def test_short_processes_seldom_measure_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether one does depends on where it begins to count."""
    measured: list[str] = []
    monkeypatch.setattr(DiskCache, "_evict", lambda self, folder: measured.append(folder))
    for began, expected in ((0, 0), (898, 0), (899, 1), (999, 1)):
        monkeypatch.setattr(time, "time_ns", lambda began=began: 7_000 + began)
        DiskCache(str(tmp_path), limit=16_000).write("a" * 64, bytes(101))
        assert len(measured) == expected, began
        measured.clear()


def test_processes_share_a_folder(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITES_MUCH, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert outputs == ["", "", ""]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000 + 3 * 20_000 // 16


def test_it_is_private_to_the_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New folders are closed to others, and those into which others may write are not used."""
    folder = tmp_path / "cache"
    DiskCache(str(folder)).write("key", b"code")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert DiskCache(str(folder)).read("key") == b"code"
    for mode in (0o770, 0o702):
        folder.chmod(mode)
        assert DiskCache(str(folder)).read("key") is None
    assert "chmod go-w" in caplog.text
    folder.chmod(0o755)
    assert DiskCache(str(folder)).read("key") == b"code"
    if os.getuid() == 0:
        os.chown(folder, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 1)
    assert DiskCache(str(folder)).read("key") is None
