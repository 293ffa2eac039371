"""Runs programs in processes of their own, with the real MLX and with ingot in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

# MLX compiles with the machine's C++ compiler, which may be missing and takes seconds; what a
# program prints does not depend on it.
WITHOUT_COMPILER = {"MLX_DISABLE_COMPILE": "1"}


def start(program: Path, with_ingot: bool, stdin: bool = False) -> subprocess.Popen[str]:
    """Starts a program under `ingot run`, or under Python, where `mlx` is the real one."""
    before = ["-m", "ingot", "run"] if with_ingot else []
    return subprocess.Popen(
        [sys.executable, *before, str(program)],
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **({} if with_ingot else WITHOUT_COMPILER)},
        text=True,
    )


def printed(process: subprocess.Popen[str], given: str | None = None) -> str:
    """What the program prints, once it has ended without a complaint."""
    stdout, stderr = process.communicate(given, timeout=300)
    assert (stderr, process.returncode) == ("", 0), f"exit code {process.returncode}\n{stderr}"
    return stdout
