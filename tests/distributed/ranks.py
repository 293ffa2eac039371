"""Runs a program of several ranks under the real `mpiexec`, bounded in time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]

# More ranks than cores: MPICH's waiting loops must let the others run.
PATIENT = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "10"}


def mpiexec() -> str:
    """The launcher beside this Python, or else the one on PATH."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert found, "the extra `distributed` installs mpiexec"
    return found


def run_ranks(
    count: int, module: str, *arguments: str, seconds: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m module` as `count` ranks of one thread each."""
    return subprocess.run(
        [mpiexec(), "-n", str(count), sys.executable, "-m", module, *arguments],
        cwd=PROJECT,
        env={**os.environ, "INGOT_NUM_THREADS": "1", **(PATIENT if count > 2 else {}), **variables},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def passes(count: int, module: str, *arguments: str, **variables: str) -> None:
    """Runs ranks that must all say that they are done."""
    done = run_ranks(count, module, *arguments, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all checks passed") == count, done.stdout + done.stderr
