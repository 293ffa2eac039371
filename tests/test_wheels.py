"""`make wheels`: what it asks Debian for, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingot.compiler.machine.object_file import image_of

PROJECT = Path(__file__).resolve().parent.parent
TOOL = PROJECT / "build_support" / "wheels"
sys.path.append(str(TOOL))
import cross_compiler  # noqa: E402
import emulated_tests  # noqa: E402
import interpreters  # noqa: E402
import remote_llvm  # noqa: E402
import sampled  # noqa: E402
import without_mlx  # noqa: E402


def test_targets_have_the_names_that_wheels_have() -> None:
    target = interpreters.Target("3.14", "aarch64")
    assert target.tag == "cp314"
    assert target.triplet == "aarch64-linux-gnu"
    assert target.module == "_native.cpython-314-aarch64-linux-gnu.so"


def test_an_unknown_target_is_refused_with_those_there_are() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--only", "cp27-vax"],
        check=False,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1
    assert "no target cp27-vax; there are cp311-x86_64, " in done.stderr


def test_without_apt_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interpreters, "FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(interpreters.PackagesMissingError, match=r"Debian.*make wheel"):
        interpreters.Target("3.11", "x86_64").include_dirs()


def test_a_seed_chooses_among_all_parameter_sets() -> None:
    assert sampled.chosen([*range(10)], 0, "") == [*range(10)]
    assert sampled.chosen([*range(3)], 5, "") == [0, 1, 2]
    some = [sampled.chosen([*range(10)], 2, str(seed)) for seed in range(50)]
    assert all(a < b for a, b in some)
    assert {i for pair in some for i in pair} == {*range(10)}
    assert sampled.chosen([*range(10)], 2, "7") == some[7]


def test_every_test_function_is_in_a_sample(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('x', range(50))\n"
        "def test_many(x): print('ran', x)\n"
        "def test_one(): print('ran alone')\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-s",
            "-p",
            "sampled",
            "-p",
            "no:cacheprovider",
            ".",
        ],
        check=False,
        text=True,
        capture_output=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(TOOL),
            "INGOT_SAMPLE": "2",
            "INGOT_RECORD": str(tmp_path / "record"),
        },
    )
    first, second, last = re.findall(r"ran (\w+)", done.stdout)
    assert int(first) < int(second)
    assert last == "alone"
    assert "3 passed, 48 deselected" in done.stdout
    lines = [line.split() for line in (tmp_path / "record").read_text().splitlines()]
    assert [(line[0], line[2]) for line in lines] == [
        ("passed", f"test_some.py::test_many[{first}]"),
        ("passed", f"test_some.py::test_many[{second}]"),
        ("passed", "test_some.py::test_one"),
        ("covered", "test_some.py"),
    ]


def test_no_test_begins_after_the_deadline(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_first(): pass\ndef test_second(): pass\n")
    (tmp_path / "test_b.py").write_text("def test_third(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sampled", "-p", "no:cacheprovider"]
    variables = {"PYTHONPATH": str(TOOL), "INGOT_RECORD": str(tmp_path / "record")}
    done = subprocess.run(
        [*command, "test_a.py", "test_b.py"],
        check=False,
        text=True,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, **variables, "INGOT_DEADLINE": "1"},
    )
    assert done.returncode == 2
    (line,) = (tmp_path / "record").read_text().splitlines()
    assert line.endswith("test_a.py::test_first")


def test_a_crash_costs_one_file(tmp_path: Path) -> None:
    """Another process goes on with the files after that at which the first ended."""
    files = ["tests/a.py", "tests/b.py", "tests/c.py"]
    batch = emulated_tests.Batch("some", files)
    lines = ["passed 0.1 tests/a.py::test_one", "covered 0.1 tests/a.py"]

    def ran(batch: emulated_tests.Batch) -> emulated_tests.Result:
        if "tests/b.py" in batch.files:
            return emulated_tests.Result(batch, lines, "pytest ended with -11", 1.0)
        done = [f"passed 0.1 {file}::test" for file in batch.files]
        done += [f"covered 0.2 {file}" for file in batch.files]
        return emulated_tests.Result(batch, done, "", 1.0)

    found = list(emulated_tests.results([batch], ran, 2, time.time() + 60))
    assert [result.covered() for result in found] == [["tests/a.py"], ["tests/c.py"]]
    counts = [dict(+result.counts()) for result in found]
    assert counts == [{"passed": 1, "failed": 1}, {"passed": 1}]
    assert not list(emulated_tests.results([batch], ran, 2, time.time() - 1))


def test_modules_are_compiled_in_another_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arm = cross_compiler.Processor.of(
        "said before\n22.1.0\taarch64-unknown-linux-gnu\tgeneric\t+neon\n"
    )
    code = "define i64 @same(i64 %x) {\n  ret i64 %x\n}\n"
    with cross_compiler.serving(arm) as path:
        monkeypatch.setenv(remote_llvm.VARIABLE, path)
        machine = remote_llvm.RemoteMachine()
        made = image_of(machine.object_file(code), "aarch64")
        assert made is not None
        assert made.data.startswith(bytes.fromhex("c0035fd6"))  # ret
        assert "same:" in machine.assembly(code)
        with pytest.raises(RuntimeError, match="LLVM rejects the code"):
            machine.object_file("define")
    with pytest.raises(FileNotFoundError):
        machine.object_file(code)


def test_a_process_asks_the_compiler_that_it_is_told(tmp_path: Path) -> None:
    program = (
        "import remote_llvm; remote_llvm.install(); from ingot.compiler.machine import jit;"
        " print(jit._Machine.__module__)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            text=True,
            capture_output=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(TOOL), *filter(None, sys.path)]),
                remote_llvm.VARIABLE: path,
            },
        ).stdout.strip()
        for path in ("", "somewhere")
    ]
    assert said == ["ingot.compiler.machine.jit", "remote_llvm"]


def test_files_that_import_what_is_missing_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "oracle.py").write_text("import mlx.core as mlx\n")
    plain = tmp_path / "test_plain.py"
    plain.write_text("import numpy\n\nTEXT = 'import mlx'\n")
    direct = tmp_path / "test_direct.py"
    direct.write_text("from mlx import core\n")
    indirect = tmp_path / "test_indirect.py"
    indirect.write_text("from tests.oracle import compare\n")
    monkeypatch.setattr(without_mlx.importlib.util, "find_spec", lambda name: None)
    found = [
        without_mlx.lacks_packages(path, tmp_path, set()) for path in (plain, direct, indirect)
    ]
    assert found == [False, True, True]


def test_what_differs_between_processors_is_tested_first() -> None:
    batches = emulated_tests.batches_of([])
    assert [batch.emulates_llvm for batch in batches[:2]] == [True, False]
    with_sve = [
        f for batch in batches if batch.processor == emulated_tests.SVE for f in batch.files
    ]
    assert any(file.startswith("tests/ops/products/") for file in with_sve)
    files = [file for batch in batches for file in batch.files]
    assert "tests/ops/products/" in "".join(files[:60])
    assert len(files) - len(set(files)) == len(with_sve) > 30
    assert not any(file.startswith("tests/distributed") for file in files)
    assert {*map(str, files)} >= {"tests/compiler/machine/test_jit.py"}
    asked = emulated_tests.batches_of(["tests/compiler/machine/test_jit.py"])
    assert {batch.processor for batch in asked} == {emulated_tests.NEON, emulated_tests.SVE}
