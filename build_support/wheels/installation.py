"""Packages for another version and processor, installed into a folder, and programs run with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from interpreters import Target

# Minor versions of glibc that wheels are named after, newest first.
GLIBC_MINORS = (35, 34, 31, 28, 27, 26, 24, 17, 12, 5)


def install(target: Target, site: Path, requirements: list[str]) -> None:
    """Installs wheels of a target, with what they depend on, into a folder."""
    platforms = [f"manylinux_2_{minor}_{target.machine}" for minor in GLIBC_MINORS]
    platforms += [f"manylinux2014_{target.machine}"]
    run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        + ["--target", str(site), "--python-version", target.version, "--only-binary", ":all:"]
        + ["--implementation", "cp", "--abi", target.tag, "--abi", "abi3", "--abi", "none"]
        + [part for platform in platforms for part in ("--platform", platform)]
        + requirements
    )


def environment(target: Target, site: Path) -> dict[str, str]:
    """The variables with which the interpreter of a target finds what is installed in a folder."""
    return {
        "PATH": os.defpath,
        "HOME": str(site.parent),
        "PYTHONHOME": str(target.root / "usr"),
        "PYTHONPATH": str(site),
        "INGOT_CACHE": "off",
    }


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """What a command prints; an error with that if it fails."""
    done = subprocess.run(
        command,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed:\n{done.stdout}")
    return done.stdout
