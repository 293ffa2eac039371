"""CPython of other versions and processors, from Debian's packages.

Nothing is installed: packages are unpacked below build/interpreters, where headers compile the
extension and the interpreter runs with its own C library, under emulation if it is for another
processor. Which suites there are, the machine's configuration of apt says; a suite is chosen for
each version.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
FOLDER = PROJECT / "build" / "interpreters"
# Version -> the release of Debian that has it. None has 3.12; a free-threaded one is compiled from
# sources, see free_threaded.py.
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
# Besides the interpreter: what wheels of NumPy, SciPy and llvmlite link to.
LIBRARIES = ["libstdc++6", "libgcc-s1", "zlib1g"]
# Of the release that has a statically linked one which describes the emulated processor.
EMULATOR, EMULATOR_SUITE = "qemu-user", "trixie"


class PackagesMissingError(Exception):
    """Debian's packages cannot be had here."""


@dataclass(frozen=True)
class Target:
    """A version of CPython on a kind of processor."""

    version: str
    machine: str

    @property
    def triplet(self) -> str:
        """The processor and system, as compilers and folders name them."""
        return f"{self.machine}-linux-gnu"

    @property
    def tag(self) -> str:
        """The version as wheels name it."""
        return f"cp{self.version.replace('.', '')}"

    @property
    def native(self) -> bool:
        """Whether this machine's processor runs it."""
        return platform.machine() == self.machine

    @property
    def module(self) -> str:
        """The file name of the extension."""
        return f"_native.cpython-{self.version.replace('.', '')}-{self.triplet}.so"

    @cached_property
    def root(self) -> Path:
        """Where its packages are unpacked."""
        folder = FOLDER / f"{self.tag}-{self.machine}"
        marker = folder / "complete"
        if not marker.exists():
            _make_root(folder)
            packages = [f"python{self.version}", f"libpython{self.version}-dev", *LIBRARIES]
            unpack(packages, SUITES[self.version], DEBIAN_NAMES[self.machine], folder)
            marker.touch()
        return folder

    def include_dirs(self) -> list[Path]:
        """Where its headers are; the second has what depends on the processor."""
        headers = self.root / "usr" / "include"
        return [headers / f"python{self.version}", headers]

    def command(self) -> list[str]:
        """What runs the interpreter with the libraries beside it."""
        python = self.root / "usr" / "bin" / f"python{self.version}"
        if not self.native:
            return [str(_emulator(self.machine)), "-L", str(self.root), str(python)]
        loader = self.root / "lib64" / f"ld-linux-{self.machine.replace('_', '-')}.so.2"
        libraries = self.root / "usr" / "lib" / self.triplet
        return [
            str(loader),
            "--library-path",
            f"{libraries}:{self.root}/lib/{self.triplet}",
            str(python),
        ]


def _make_root(folder: Path) -> None:
    """The links that Debian has between the folders of a root."""
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(Path("usr") / name)


def _emulator(machine: str) -> Path:
    folder = FOLDER / "emulator"
    program = folder / "usr" / "bin" / f"qemu-{machine}"
    if not program.exists():
        _make_root(folder)
        host = DEBIAN_NAMES[platform.machine()]
        unpack([EMULATOR], EMULATOR_SUITE, host, folder, dependencies=False)
    return program


def unpack(
    packages: list[str], suite: str, architecture: str, root: Path, *, dependencies: bool = True
) -> None:
    """Downloads packages, by default with all that they depend on, and unpacks them."""
    state = FOLDER / "apt" / f"{suite}-{architecture}"
    options = configured(state, debian_source(suite), architecture)
    run("apt-get", *options, "--quiet", "update")
    archives = state / "cache" / "archives"
    for archive in archives.glob("*.deb"):
        archive.unlink()
    if dependencies:
        run("apt-get", *options, "--yes", "--download-only", "install", *packages)
    else:
        run("apt-get", *options, "download", *packages, cwd=archives)
    for archive in sorted(archives.glob("*.deb")):
        run("dpkg-deb", "--extract", str(archive), str(root))


def configured(state: Path, source: str, architecture: str) -> list[str]:
    """Options for apt with one package source, and a state of its own in which no package is
    installed.
    """
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    sources = state / "suite.sources"
    sources.write_text(source)
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State": state / "state",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        # As root, downloads would run as a user who may not write here.
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def debian_source(suite: str, kind: str = "deb") -> str:
    """The machine's source of Debian's packages, for another release; `kind` is deb-src for
    packages of sources.
    """
    configured = sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))
    for path in configured:
        uri = re.search(r"^URIs: (\S+/debian/?)$", path.read_text(), re.MULTILINE)
        if uri is not None:
            key = re.search(r"^Signed-By: .*$", path.read_text(), re.MULTILINE)
            return f"Types: {kind}\nURIs: {uri[1]}\nSuites: {suite}\nComponents: main\n" + (
                f"{key[0]}\n" if key else ""
            )
    raise PackagesMissingError(
        "the interpreters come from Debian's packages, and no file of /etc/apt/sources.list.d"
        " names where those are. Build on Debian, or run `make wheel` for this interpreter alone."
    )


def run(*command: str, cwd: Path | None = None, variables: dict[str, str] | None = None) -> None:
    """Runs a command; PackagesMissingError with its output if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C", **(variables or {})},
        )
    except FileNotFoundError as error:
        raise PackagesMissingError(
            f"{command[0]} is not there; the interpreters come from Debian's packages. Build on"
            " Debian, or run `make wheel` for this interpreter alone."
        ) from error
    if done.returncode != 0:
        raise PackagesMissingError(f"{' '.join(command)} failed:\n{done.stdout}")
