"""`make wheels`: what it asks Debian for, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
TOOL = PROJECT / "build_support" / "wheels"
sys.path.append(str(TOOL))
import interpreters  # noqa: E402
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


def test_samples_are_spread_over_all_parameter_sets() -> None:
    assert sampled.spread([*range(10)], 0) == [*range(10)]
    assert sampled.spread([*range(3)], 5) == [0, 1, 2]
    assert sampled.spread([*range(10)], 1) == [0]
    assert sampled.spread([*range(10)], 2) == [0, 9]
    assert sampled.spread([*range(10)], 4) == [0, 3, 6, 9]


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
        env={**os.environ, "PYTHONPATH": str(TOOL), "INGOT_SAMPLE": "2"},
    )
    assert re.findall(r"ran (\w+)", done.stdout) == ["0", "49", "alone"]
    assert "3 passed, 48 deselected" in done.stdout


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
