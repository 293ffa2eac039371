"""Which C compiler builds the extension: the machine's own, or Zig's where there is none.

In: the environment. Out: a `Compiler`. Both the build backend (to know what to install) and
`build_ext` (to know what to run) ask here, so that they cannot disagree.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass

# 0.12 is the first release whose `cc` builds shared libraries with the flags used below.
ZIG_REQUIREMENT = "ziglang>=0.12"
USUAL_COMPILERS = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Compiler:
    """A compiler's command line, and where it was found."""

    command: tuple[str, ...]
    origin: str
    # True where setuptools would choose the same one: its flags for this interpreter are kept.
    usual: bool = False

    def flags(self) -> list[str]:
        """What replaces the interpreter's own flags, which may be unknown to another compiler."""
        return ["-DNDEBUG", "-fPIC", "-fwrapv", "-pthread"]


ZIG = Compiler(
    (
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        # Unless told otherwise, Zig compiles for exactly this processor and traps on undefined
        # behaviour; the others do neither.
        "-mcpu=baseline",
        "-fno-sanitize=undefined",
    ),
    "Zig from the package index, because no C compiler is on PATH",
)


def find_compiler(environment: Mapping[str, str] = os.environ) -> Compiler:
    """CC if set, else the interpreter's own compiler, else cc, gcc or clang, else Zig."""
    path = environment.get("PATH", os.defpath)
    if environment.get("CC"):
        return Compiler(tuple(shlex.split(environment["CC"])), "CC", usual=True)
    configured = shlex.split(sysconfig.get_config_var("CC") or "")
    if configured and shutil.which(configured[0], path=path):
        return Compiler(tuple(configured), "the interpreter's configuration", usual=True)
    for name in USUAL_COMPILERS:
        if found := shutil.which(name, path=path):
            return Compiler((found,), "PATH")
    return ZIG


def extra_requirements(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What must be installed before the extension can be built here."""
    return [ZIG_REQUIREMENT] if find_compiler(environment) is ZIG else []
