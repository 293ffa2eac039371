"""INGOT_LOG prints the compiler's log, unless the program listens to it itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ingot.core as mx
f = mx.compile(lambda x: mx.exp(x) * 3)
mx.eval(f(mx.array([1.0, 2.0])))
mx.eval(f(mx.array([1.0, 2.0, 3.0])))
x = mx.array([[1.0, 2.0], [3.0, 4.0]]).T
for _ in range(4):
    mx.eval(f(x))
"""


def run(program: str, folder: Path, **changes: str) -> list[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("INGOT_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "INGOT_CACHE_DIR": str(folder), **changes},
        check=True,
        text=True,
        capture_output=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_every_compilation_is_printed_with_name_reason_and_time(tmp_path: Path) -> None:
    assert run(PROGRAM, tmp_path) == []
    lines = run(PROGRAM, tmp_path / "other", INGOT_LOG="compile")
    expected = [
        r"ingot: compiled <lambda> in [\d.]+ ms: the first call",
        r"ingot: machine code of <lambda> in [\d.]+ ms: 1 kernels, 1 compiled, 0 from the .*",
        r"ingot: compiled <lambda> in [\d.]+ ms: argument `x`, axis 0: 2 → 3",
        r"ingot: machine code of <lambda> in [\d.]+ ms: 1 kernels, \d compiled, \d from the .*",
        r"ingot: compiled <lambda> in [\d.]+ ms: argument `x`: 1 axes → 2",
        r"ingot: machine code of <lambda> in [\d.]+ ms: 1 kernels, \d compiled, \d from the .*",
        r"ingot: machine code .*; argument `x` of shape \(2, 2\) has strides \(1, 2\)",
    ]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_machine_code_of_uncompiled_ops_is_printed(tmp_path: Path) -> None:
    program = "import ingot.core as mx; x = mx.ones((64, 300)); mx.eval(x, x @ mx.ones((300, 70)))"
    lines = run(program, tmp_path, INGOT_LOG="compile")
    pattern = r"ingot: machine code of Matmul in [\d.]+ ms: \d kernels, [1-9] compiled, 0 from .*"
    assert any(re.fullmatch(pattern, line) for line in lines), lines


def test_kernels_and_the_disk_are_printed_at_the_level_debug(tmp_path: Path) -> None:
    first = run(PROGRAM, tmp_path, INGOT_LOG="compile:debug")
    second = run(PROGRAM, tmp_path, INGOT_LOG="compile:debug")
    assert sum(": compiled in " in line for line in first) >= 1
    assert sum(": compiled in " in line for line in second) == 0
    assert any(re.search(r"kernel ingot_\w+: from the disk cache, \d+ bytes", x) for x in second)


def test_handlers_of_the_program_are_enough(tmp_path: Path) -> None:
    configured = (
        "import logging, sys\n"
        "logging.basicConfig(stream=sys.stderr, format='MINE %(levelname)s %(message)s')\n"
    )
    for program in (configured + PROGRAM, PROGRAM.replace("f = mx", configured + "f = mx")):
        lines = run(program, tmp_path, INGOT_LOG="compile")
        assert len(lines) == 7
        assert all(line.startswith("MINE INFO ") for line in lines)


def test_unknown_names_of_logs_are_reported(tmp_path: Path) -> None:
    lines = run(PROGRAM, tmp_path, INGOT_LOG="everything")
    assert any("there is no log 'everything'" in line for line in lines)


def test_a_program_that_logs_at_info_gets_no_compilations(tmp_path: Path) -> None:
    configured = "import logging, sys\nlogging.basicConfig(level=logging.INFO)\n"
    assert run(configured + PROGRAM, tmp_path) == []
    chosen = "logging.getLogger('ingot.compile').setLevel(logging.INFO)\n"
    later = PROGRAM.replace("f = mx", f"{configured}{chosen}f = mx")
    for program in (configured + chosen + PROGRAM, later):
        lines = run(program, tmp_path)
        assert lines
        assert all(line.startswith("INFO:ingot.compile:") for line in lines)


def test_a_closed_output_does_not_fail_the_program(tmp_path: Path) -> None:
    program = f"import sys; sys.stdout.close()\n{PROGRAM}\nprint(f(x).shape, file=sys.stderr)"
    lines = run(program, tmp_path, INGOT_LOG="compile")
    assert lines[-1] == "(2, 2)"
    assert any("ValueError: I/O operation on closed file" in line for line in lines)
