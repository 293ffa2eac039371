"""`build_ext` for `ingot._native`: incremental, parallel, with whatever C compiler there is.

In: the C files below src/ingot/_native, and src/ingot/tuning.py, of which a header is made.
Out: the extension module, in the wheel or in src/ingot.
setuptools alone would compile every file again after any change, one after the other, and only with
the compiler that built the interpreter.
"""

from __future__ import annotations

import fcntl
import filecmp
import hashlib
import os
import re
import shlex
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from compiler import ZIG, find_compiler
from setuptools import Extension
from setuptools.command.build_ext import build_ext
from tuning_header import write_header

PROJECT = Path(__file__).resolve().parent.parent
SOURCES = Path("src/ingot/_native")
OBJECTS = Path("build/native")
GENERATED = OBJECTS / "include"
FLAGS = [
    "-O3",
    "-std=c11",
    "-Wall",
    "-Wextra",
    # Only PyInit__native is for others to see, and Python.h marks it so.
    "-fvisibility=hidden",
    "-pthread",
]


def native_extension() -> Extension:
    """All C files of the folders, so that adding one needs no change here."""
    sources = sorted(str(path.relative_to(PROJECT)) for path in (PROJECT / SOURCES).rglob("*.c"))
    # Developers' builds set this. A user's compiler may warn of things that no other does.
    strictness = ["-Werror"] if os.environ.get("INGOT_WARNINGS_ARE_ERRORS") else []
    if not sources:
        raise SystemExit(f"error: no C sources in {SOURCES}: this copy of ingot is incomplete.")
    return Extension(
        "ingot._native",
        sources,
        include_dirs=[str(SOURCES), str(GENERATED)],
        # As a system's headers, of which the compiler does not warn.
        extra_compile_args=[*FLAGS, *strictness, "-isystem", numpy.get_include()],
        extra_link_args=["-pthread"],
        language="c",
    )


class BuildNative(build_ext):
    """Compiles what changed, links if anything did, and replaces the module in one step."""

    def build_extensions(self) -> None:
        write_header(GENERATED)
        self._use_compiler()
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        folder = OBJECTS / self._configuration(ext)
        folder.mkdir(parents=True, exist_ok=True)
        # Two builds of one tree at once would otherwise write the same object files.
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            objects = self._compile(ext, folder)
            module = self._link(ext, objects, folder)
            replace_if_different(module, Path(self.get_ext_fullpath(ext.name)))

    def copy_extensions_to_source(self) -> None:
        build_py = self.get_finalized_command("build_py")
        for ext in self.extensions:
            inplace, regular = self._get_inplace_equivalent(build_py, ext)
            replace_if_different(Path(regular), Path(inplace))

    def _use_compiler(self) -> None:
        found = find_compiler()
        print(f"C compiler: {shlex.join(found.command)} ({found.origin})", flush=True)
        places = {"HOME", "XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR"}
        if found is ZIG and not places & set(os.environ):
            # Zig refuses to run without a place for its cache.
            os.environ["ZIG_GLOBAL_CACHE_DIR"] = str((OBJECTS / "zig").absolute())
        if found.usual:
            return
        compile_flags = shlex.split(os.environ.get("CFLAGS", ""))
        link_flags = shlex.split(os.environ.get("LDFLAGS", ""))
        compile_command = [*found.command, *found.flags(), *compile_flags]
        self.compiler.set_executables(
            compiler=compile_command,
            compiler_so=compile_command,
            linker_so=[*found.command, "-shared", *compile_flags, *link_flags],
        )

    def _configuration(self, ext: Extension) -> str:
        """A name for all but the sources' text: objects of another configuration are not reused."""
        parts = [
            sys.version,
            sys.prefix,
            numpy.__version__,
            *self.compiler.compiler_so,
            *self.compiler.linker_so,
            *self.compiler.include_dirs,
            *ext.extra_compile_args,
            *ext.sources,
        ]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
        return f"{sys.implementation.cache_tag}-{digest}"

    def _compile(self, ext: Extension, folder: Path) -> list[str]:
        objects = self.compiler.object_filenames(ext.sources, output_dir=str(folder))
        stale = [
            (source, product)
            for source, product in zip(ext.sources, objects, strict=True)
            if is_stale(Path(product))
        ]

        def compile_one(source: str, product: str) -> None:
            started = time.time()
            self.compiler.compile(
                [source],
                output_dir=str(folder),
                include_dirs=ext.include_dirs,
                debug=self.debug,
                # Beside each object, a list of all files that it was made of.
                extra_postargs=[*ext.extra_compile_args, "-MMD"],
            )
            # A source saved while it was being compiled must count as newer than its object.
            os.utime(product, (started, started))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(compile_one, *zip(*stale, strict=True)) if stale else ():
                pass  # raises what the compilation raised
        return objects

    def _link(self, ext: Extension, objects: list[str], folder: Path) -> Path:
        module = folder / Path(self.get_ext_filename(ext.name)).name
        if modified(module) <= max(map(modified, objects)):
            # Start afresh: a linker that fails must not leave a module that looks new.
            module.unlink(missing_ok=True)
            self.compiler.link_shared_object(
                objects,
                str(module),
                extra_postargs=ext.extra_link_args,
                target_lang=ext.language,
            )
        return module


def is_stale(product: Path) -> bool:
    """Whether an object is missing, or older than a source or header that it was made of."""
    try:
        rule = product.with_suffix(".d").read_text()
    except FileNotFoundError:
        return True
    # A rule of make: "object: source header \\\n header ..." with escaped spaces.
    files = [path.replace("\\ ", " ") for path in re.findall(r"(?:\\\S|\\ |[^\s\\])+", rule)]
    made = modified(product)
    return any(not 0 < modified(path) < made for path in files[1:])


def modified(path: str | Path) -> float:
    """When the file was last changed; 0 if there is none."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def replace_if_different(source: Path, destination: Path) -> None:
    """Puts a copy in place by renaming: a process that has the old one loaded is not disturbed."""
    if destination.exists() and filecmp.cmp(source, destination, shallow=False):
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    arriving = destination.with_name(f".{destination.name}.{os.getpid()}")
    shutil.copy2(source, arriving)
    os.replace(arriving, destination)
