"""clang-format and clang-tidy on the C sources, silent when all is well.

In: `--fix` to let clang-format write. Out: their findings, and exit status 1. Files that clang-tidy
found in order are remembered by their content, that of all headers, and the checks, in build/tidy.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy

PROJECT = Path(__file__).resolve().parent.parent
SOURCES = PROJECT / "src" / "ingot" / "_native"
GENERATED = PROJECT / "build" / "native" / "include"
CLEAN = PROJECT / "build" / "tidy"
FLAGS = [
    *("-std=c11", "-Wall", "-Wextra", "-pthread", f"-I{SOURCES}", f"-I{GENERATED}"),
    *("-isystem", sysconfig.get_paths()["include"], "-isystem", numpy.get_include()),
]
MAX_STAMPS = 2000


def main() -> int:
    headers, sources = sorted(SOURCES.rglob("*.h")), sorted(SOURCES.rglob("*.c"))
    if "--fix" in sys.argv:
        return run("clang-format", "-i", *headers, *sources).returncode
    is_formatted = report(run("clang-format", "--dry-run", "-Werror", *headers, *sources))
    if not is_formatted:
        print("       (run `make format`)")
    return 0 if tidy(headers, sources) and is_formatted else 1


def tidy(headers: list[Path], sources: list[Path]) -> bool:
    """Whether clang-tidy finds nothing."""
    CLEAN.mkdir(parents=True, exist_ok=True)
    generated = sorted(GENERATED.glob("*.h"))
    common = b"".join(path.read_bytes() for path in (PROJECT / ".clang-tidy", *generated, *headers))
    common += run("clang-tidy", "--version").stdout.encode() + repr(FLAGS).encode()

    def check(source: Path) -> bool:
        stamp = CLEAN / hashlib.sha256(common + source.read_bytes()).hexdigest()
        if stamp.exists():
            return True
        is_clean = report(run("clang-tidy", "--quiet", source, "--", *FLAGS))
        if is_clean:
            stamp.touch()
        return is_clean

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(check, sources))
    stamps = sorted(CLEAN.iterdir(), key=lambda path: path.stat().st_mtime)
    for stamp in stamps[:-MAX_STAMPS]:
        stamp.unlink()
    return all(results)


def run(tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs one of the tools that are installed beside this Python."""
    command = [str(Path(sys.executable).parent / tool), *map(str, arguments)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)


def report(done: subprocess.CompletedProcess[str]) -> bool:
    """Prints what a tool that failed said; whether it did not fail."""
    if done.returncode != 0:
        print((done.stdout + done.stderr).replace(f"{PROJECT}/", "").strip())
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
