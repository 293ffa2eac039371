"""Stored programs: what is read back is what was compiled, and only if nothing has changed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.test_pipeline import FUNCTIONS, tape_of_call

import ingot.core as mx
from ingot.compiler.forms.tape import Tape
from ingot.compiler.machine.generate import Executable
from ingot.compiler.pipeline import run_pipeline
from ingot.compiler.run import stored
from ingot.compiler.run.stored import Key, StoredExecutable, has_programs, key_of
from ingot.runtime.compile_mode import CompileMode

X = mx.array(np.random.default_rng(3).standard_normal((6, 40)).astype(np.float32))

pytestmark = pytest.mark.usefixtures("program_folder")


@pytest.fixture
def threads() -> Iterator[None]:
    before = mx.get_num_threads()
    yield
    mx.set_num_threads(before)


def refused() -> Executable:
    raise AssertionError("the program is compiled again")


def key(tape: Tape) -> Key:
    found = key_of(tape, CompileMode.enabled)
    assert found is not None
    return found


def compiled(tape: Tape, strides: Any = None) -> Executable:
    return run_pipeline(tape, CompileMode.enabled).program.finish(strides).executable


def read(tape: Tape, strides: Any = None) -> StoredExecutable | None:
    return key(tape).read(strides, refused)


def comparable(part: Any) -> Any:
    """Parts of programs, with arrays as what is in them."""
    if isinstance(part, np.ndarray):
        return part.dtype, part.shape, part.tobytes()
    if isinstance(part, (tuple, list)):
        return type(part), tuple(map(comparable, part))
    return part


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_is_read_is_what_was_compiled(function: Any) -> None:
    tape = tape_of_call(function, FUNCTIONS[function])
    executable = compiled(tape)
    key(tape).write(None, executable)
    again = tape_of_call(function, FUNCTIONS[function])
    found = read(again)
    assert found is not None
    assert comparable(found.parts) == comparable(executable.parts)
    assert found.loaded.codes == executable.loaded.codes  # equal kernels are loaded once


SMALL_PRODUCT = """
import numpy as np, ingot.core as mx
x = np.arange(64, dtype=np.float32).reshape(8, 8)
found = mx.compile(lambda a: a @ a)(mx.array(x))
np.testing.assert_array_equal(np.array(found), x @ x)
"""


def test_a_new_process_runs_a_stored_product_of_blas(tmp_path: Path) -> None:
    settings = {"INGOT_CACHE_DIR": str(tmp_path), "INGOT_CACHE": "on", "INGOT_VERIFY": "0"}
    environment = {**os.environ, **settings, "INGOT_LOG": "compile:debug"}
    command = [sys.executable, "-c", SMALL_PRODUCT]
    for is_stored in (False, True):
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert bool(re.search(r"program \w+: from the disk cache", run.stderr)) is is_stored


def test_strides_have_programs_of_their_own() -> None:
    tape = tape_of_call(lambda x: mx.exp(x) * 2, (X,))
    key(tape).write(None, compiled(tape))
    transposed = ((4, 24),)
    assert read(tape, transposed) is None
    executable = compiled(tape, transposed)
    key(tape).write(transposed, executable)
    found = read(tape, transposed)
    assert found is not None
    assert comparable(found.parts) == comparable(executable.parts)
    x = np.asarray(np.array(X).T.copy().T)
    (result,) = found.native.run((x,))
    np.testing.assert_allclose(result, np.exp(x) * 2, rtol=1e-6)


def test_settings_are_part_of_the_key(threads: None) -> None:
    tape = tape_of_call(lambda x: x @ x.T, (X,))
    key(tape).write(None, compiled(tape))
    assert read(tape) is not None
    assert key_of(tape, CompileMode.no_fuse).read(None, refused) is None  # type: ignore[union-attr]
    mx.set_product_engine("blas")
    try:
        assert read(tape) is None
    finally:
        mx.set_product_engine("ingot")
    mx.set_excess_precision(True)
    try:
        assert read(tape) is None
    finally:
        mx.set_excess_precision(False)
    assert read(tape) is not None
    mx.set_num_threads(mx.get_num_threads() + 1)
    assert read(tape) is None


def test_settings_that_changed_since_the_key_was_made(threads: None) -> None:
    """A graph may be built under one setting and evaluated under another."""
    tape = tape_of_call(lambda x: x @ x.T, (X,))
    before = key(tape)
    executable = compiled(tape)
    mx.set_num_threads(mx.get_num_threads() + 1)
    before.write(None, executable)
    assert before.read(None, refused) is None
    mx.set_num_threads(mx.get_num_threads() - 1)
    assert before.read(None, refused) is None


def test_the_sources_are_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = tape_of_call(lambda x: x * 2, (X,))
    key(tape).write(None, compiled(tape))
    assert read(tape) is not None
    stored.version.cache_clear()
    monkeypatch.setattr(stored, "sources_stamp", lambda *paths: 1)
    assert read(tape) is None
    stored.version.cache_clear()


def test_evicted_kernels_take_their_programs_with_them(program_folder: Path) -> None:
    tape = tape_of_call(lambda x: mx.exp(x) * 1.25, (X,))
    executable = compiled(tape)
    key(tape).write(None, executable)
    for digest in executable.loaded.digests().values():
        (program_folder / f"{digest}.o").unlink()
    assert read(tape) is not None  # they are in memory
    del executable
    assert read(tape) is None


@pytest.mark.parametrize("damage", ["truncated", "changed", "foreign"])
def test_damaged_entries_are_not_used(program_folder: Path, damage: str) -> None:
    tape = tape_of_call(lambda x: mx.exp(x) * 1.5, (X,))
    executable = compiled(tape)
    before = set(program_folder.iterdir())
    key(tape).write(None, executable)
    (entry,) = set(program_folder.iterdir()) - before
    data = entry.read_bytes()
    if damage == "truncated":
        entry.write_bytes(data[: len(data) // 2])
    elif damage == "changed":
        entry.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        (digest,) = executable.loaded.digests().values()
        entry.write_bytes((program_folder / f"{digest}.o").read_bytes())
    assert read(tape) is None


def test_programs_with_objects_of_this_process_are_not_written(program_folder: Path) -> None:
    """LAPACK's routines are addresses."""
    tape = tape_of_call(lambda x: mx.linalg.qr(x, stream=mx.cpu)[1], (X,))
    executable = compiled(tape)
    before = set(program_folder.iterdir())
    key(tape).write(None, executable)
    kinds = {work.kind for work in executable.work}
    assert ("routine" in kinds) is (set(program_folder.iterdir()) == before)


def test_nothing_is_stored_where_forms_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = tape_of_call(lambda x: x * 2, (X,))
    monkeypatch.setattr(stored, "is_verifying", lambda: True)
    assert key_of(tape, CompileMode.enabled) is None


def test_nothing_is_stored_without_a_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = tape_of_call(lambda x: x * 2, (X,))
    monkeypatch.setenv("INGOT_CACHE", "off")
    assert key_of(tape, CompileMode.enabled) is None


def test_an_empty_folder_has_no_programs(program_folder: Path) -> None:
    assert not has_programs()
    tape = tape_of_call(lambda x: x * 2, (X,))
    key(tape).write(None, compiled(tape))
    assert has_programs()
