"""The C extension for another version and processor, compiled by Zig for an old C library."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from compiler import ZIG
from interpreters import PROJECT, Target
from native_extension import FLAGS, GENERATED, SOURCES
from tuning_header import write_header

# The oldest C library that the wheels run with: that of RHEL 8, Debian 10 and Ubuntu 20.04.
GLIBC = "2.28"


def build_module(target: Target, folder: Path) -> Path:
    """Compiles and links the extension of a target into a folder."""
    os.chdir(PROJECT)
    write_header(GENERATED)
    folder.mkdir(parents=True, exist_ok=True)
    compiler = [*ZIG.command, "-target", f"{target.triplet}.{GLIBC}"]
    includes = [*target.include_dirs(), Path(numpy.get_include())]
    options = [
        *ZIG.flags(),
        *FLAGS,
        f"-I{SOURCES}",
        f"-I{GENERATED}",
        *(part for path in includes for part in ("-isystem", str(path))),
    ]

    def compile_one(source: Path) -> Path:
        product = folder / ("_".join(source.relative_to(SOURCES).parts) + ".o")
        _run([*compiler, *options, "-c", str(source), "-o", str(product)])
        return product

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sorted(SOURCES.rglob("*.c"))))
    module = folder / target.module
    _run([*compiler, "-shared", "-pthread", "-Wl,-s", "-o", str(module), *map(str, objects)])
    return module


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed:\n{done.stdout}")
