"""ingot on a CPython without a GIL: `make test-free-threaded`.

    python build_support/wheels/free_threaded.py [--sanitize] [--seconds 60] [tests/native ...]

In: CPython's sources from Debian's packages, which lack the interpreter itself, or an archive of
them (`--sources Python-3.14.0.tar.xz`), and wheels of what ingot depends on. Both are built and
installed below build/interpreters.
Out: whether the tests pass, whether eight threads that share everything find a wrong result, and
how many calls a second one and two threads make. With --sanitize, interpreter and extension are
built with ThreadSanitizer, and the campaigns run instead of the tests.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

from interpreters import (
    DEBIAN_NAMES,
    FOLDER,
    PROJECT,
    PackagesMissingError,
    configured,
    debian_source,
    run,
)

WORK = PROJECT / "build" / "free-threaded"
# Version -> releases that have its sources; the first that can be had is built. A release that is
# still being made lists sources that its mirrors have replaced already.
SUITES = {"3.14": ["forky", "sid"], "3.13": ["trixie"]}
PACKAGES = """
    numpy scipy ml_dtypes threadpoolctl opt_einsum setuptools pytest hypothesis mpmath rich
""".split()
# Those that need neither MLX, which has no wheel for such an interpreter, nor a browser.
TESTS = """
    tests/native tests/compiler/call tests/compiler/calls tests/compiler/trace tests/compiler/plan
    tests/compiler/run tests/transforms tests/runtime
""".split()


@dataclass(frozen=True)
class Interpreter:
    """A free-threaded CPython, built from its sources."""

    version: str
    sanitized: bool
    archive: Path | None = None  # with its sources; otherwise those of Debian

    @property
    def name(self) -> str:
        """The name of its folders."""
        return f"cp{self.version.replace('.', '')}t" + ("-tsan" if self.sanitized else "")

    @property
    def prefix(self) -> Path:
        """Where it is installed."""
        return FOLDER / self.name

    @property
    def source(self) -> Path:
        """Where it was compiled."""
        return FOLDER / f"{self.name}-source"

    @property
    def python(self) -> str:
        """The program."""
        return str(self.prefix / "bin" / f"python{self.version}t")

    def make(self) -> None:
        """Fetches, compiles and installs it, with the packages, unless that was done before."""
        if (self.prefix / "complete").exists():
            return
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.rmtree(self.prefix, ignore_errors=True)
        archive = self.archive or fetched_source(self.version)
        self.source.mkdir(parents=True)
        run("tar", "-xf", str(archive), "--strip-components=1", "-C", str(self.source))
        say(f"compiling CPython {self.version} without a GIL, for some minutes ...")
        # Quick to make: how fast the interpreter itself is does not matter here.
        options = ["--disable-gil", f"--prefix={self.prefix}", "CFLAGS=-O2 -g1"]
        options += ["--with-thread-sanitizer"] if self.sanitized else []
        run("./configure", "--quiet", *options, cwd=self.source)
        run("make", f"-j{os.cpu_count()}", cwd=self.source)
        run("make", "install", cwd=self.source)
        self.install_packages()
        (self.prefix / "complete").touch()

    def install_packages(self) -> None:
        """What ingot needs, as wheels."""
        pip = [self.python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pip += ["--only-binary", ":all:"]
        run(*pip, *PACKAGES)
        try:
            run(*pip, "llvmlite")
        except PackagesMissingError:
            # Its library is loaded by ctypes and does not depend on the version of Python.
            machine = platform.machine()
            run(
                *pip,
                *["--no-deps", "--python-version", "3.14", "--implementation", "cp"],
                *["--abi", "cp314t", "--platform", f"manylinux_2_28_{machine}"],
                *["--platform", f"manylinux_2_27_{machine}"],
                *["--target", str(self.prefix / "lib" / f"python{self.version}t/site-packages")],
                "llvmlite",
            )

    def build_ingot(self) -> Path:
        """A folder with the package and its extension."""
        folder = WORK / self.name
        shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns("*.so", "__pycache__", "_native")
        shutil.copytree(PROJECT / "src" / "ingot", folder / "ingot", ignore=ignored)
        variables = {"INGOT_WARNINGS_ARE_ERRORS": "1"}
        if self.sanitized:
            variables = {"CFLAGS": "-fsanitize=thread -O1 -g", "LDFLAGS": "-fsanitize=thread"}
        command = [self.python, "setup.py", "--quiet", "build_ext", "--build-lib", str(folder)]
        run(*command, cwd=PROJECT, variables=variables)
        return folder

    def variables(self, package: Path) -> dict[str, str]:
        """The environment in which programs use that package."""
        found = {**os.environ, "PYTHONPATH": str(package), "PYTHONNOUSERSITE": "1"}
        found.pop("PYTHONHOME", None)
        if self.sanitized:
            # What the interpreter's own developers know of.
            known = self.source / "Tools" / "tsan" / "suppressions_free_threading.txt"
            found["TSAN_OPTIONS"] = f"suppressions={known}:history_size=4:exitcode=66"
        return found


def fetched_source(version: str) -> Path:
    """The archive with CPython's sources, of the first release that has it."""
    reasons = []
    for suite in SUITES[version]:
        try:
            return fetched_from(suite, version)
        except PackagesMissingError as error:
            lines = str(error).splitlines()
            reasons.append(next((line for line in lines if line.startswith("E:")), lines[0]))
    raise PackagesMissingError("\n".join(reasons))


def fetched_from(suite: str, version: str) -> Path:
    """The archive of a release's source package, unless an earlier run fetched it."""
    state = FOLDER / "apt" / f"{suite}-sources"
    archives = state / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    pattern = f"python{version}_*.orig.tar.xz"
    if not list(archives.glob(pattern)):
        source = debian_source(suite, "deb-src")
        options = configured(state, source, DEBIAN_NAMES[platform.machine()])
        run("apt-get", *options, "--quiet", "update")
        wanted = ["--download-only", "--tar-only", "source", f"python{version}"]
        run("apt-get", *options, *wanted, cwd=archives)
    return max(archives.glob(pattern))


def found_interpreter(sanitized: bool, archive: Path | None) -> Interpreter:
    """That of an archive of sources, or the newest that can be had."""
    if archive is not None:
        version = re.search(r"3\.\d+", archive.name)
        if version is None or not archive.is_file():
            sys.exit(f"error: --sources takes an archive named by its version, not {archive}.")
        interpreter = Interpreter(version[0], sanitized, archive.resolve())
        interpreter.make()
        return interpreter
    reasons = []
    for wanted in SUITES:
        candidate = Interpreter(wanted, sanitized)
        try:
            candidate.make()
        except PackagesMissingError as error:
            reasons.append(str(error).splitlines()[0])
            say(f"no CPython {wanted} without a GIL: {reasons[-1]}")
        else:
            return candidate
    sys.exit(f"error: no free-threaded CPython can be built here: {reasons[-1]}")


def say(text: str) -> None:
    """A line of progress."""
    print(f"ingot: {text}", flush=True)


def main() -> int:
    """Builds all that is needed, and runs the tests and campaigns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sanitize", action="store_true", help="ThreadSanitizer, no tests")
    parser.add_argument("--seconds", type=int, default=60, help="of each campaign")
    parser.add_argument("--sources", type=Path, metavar="FILE", help="an archive of CPython's")
    parser.add_argument("tests", nargs="*", default=TESTS, help="such as tests/native")
    options = parser.parse_args()
    started = time.monotonic()
    python = found_interpreter(options.sanitize, options.sources)
    package = python.build_ingot()
    variables = python.variables(package)
    plugin = {"PYTHONPATH": f"{package}:{Path(__file__).resolve().parent}"}
    steps = [
        ["-W", "error", "-c", "import sys, ingot.core; assert not sys._is_gil_enabled()"],
        ["-m", "tests.compiler.thread_campaign", str(options.seconds)],
        ["-m", "tests.compiler.shared_campaign", str(options.seconds)],
    ]
    if not options.sanitize:
        steps.append(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "without_mlx"])
        steps[-1] += options.tests
        steps.append([str(Path(__file__).with_name("scaling.py"))])
    failed = 0
    for step in steps:
        command = [python.python, "-X", "faulthandler", *step]
        done = subprocess.run(command, cwd=PROJECT, env={**variables, **plugin}, check=False)
        failed += done.returncode != 0
    verdict = "FAILED" if failed else "passed"
    took = time.monotonic() - started
    say(f"make test-free-threaded {verdict} on CPython {python.version} in {took:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
