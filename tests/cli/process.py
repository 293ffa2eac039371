"""Starts the command `ingot` as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def ingot(
    *arguments: str | Path, stdin: str = "", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What `ingot` with these arguments prints and returns."""
    return python("-m", "ingot", *arguments, stdin=stdin, cwd=cwd, **environment)


def python(
    *arguments: str | Path, stdin: str = "", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What Python with these arguments prints and returns."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=stdin,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
