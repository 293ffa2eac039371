"""Which code is the user's: neither Python's, nor ingot's, nor that of an installed package."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from types import CodeType

from ingot import _native

__all__ = ["is_users_class", "is_users_code", "is_users_file"]


@cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def is_users_file(file: str | None) -> bool:
    """Whether a file, if it is one, is outside of the folders for packages."""
    return file is None or not file.startswith(("<frozen", *_libraries()))


def is_users_code(code: CodeType) -> bool:
    """Whether a function is the user's."""
    return not _native.is_own_code(code) and is_users_file(code.co_filename)


def is_users_class(cls: type) -> bool:
    """Whether a class is of neither Python, ingot nor an installed package; options may be."""
    name = cls.__module__
    if name.partition(".")[0] in ("builtins", "ingot"):
        return False
    return name == "argparse" or is_users_file(
        getattr(sys.modules.get(name), "__file__", None if name == "__main__" else "<frozen")
    )
