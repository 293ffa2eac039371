"""Which code is the user's rather than Python's, ingot's or an installed package's."""

from __future__ import annotations

import os
import site
import sys
from functools import cache
from types import CodeType, ModuleType

from ingot import _native

__all__ = ["is_users_class", "is_users_code", "is_users_module"]


_HEAP_TYPE = 1 << 9  # of `type.__flags__`: created by Python code


@cache
def _libraries() -> tuple[str, ...]:
    # not by sysconfig, whose import takes as long as all the rest of a first call
    folders = {os.path.dirname(os.__file__), *site.getsitepackages(), site.getusersitepackages()}
    return tuple(folder + os.sep for folder in folders)


def _is_users_file(file: str | None) -> bool:
    """Whether a file, if it is one, is outside the package folders."""
    return file is None or not file.startswith(("<frozen", *_libraries()))


def is_users_code(code: CodeType) -> bool:
    """Whether a function is the user's."""
    return not _native.is_own_code(code) and _is_users_file(code.co_filename)


def is_users_module(module: ModuleType) -> bool:
    """Whether a module is the user's; it need not come from a file."""
    top = module.__name__.partition(".")[0]
    file = getattr(module, "__file__", None)
    if top == "ingot" or (file is None and top in sys.stdlib_module_names):
        return False
    return _is_users_file(file)


def is_users_class(cls: type) -> bool:
    """Whether a class is the user's, or holds the options of a command."""
    name = cls.__module__
    if name == "builtins":  # or code executed without a name
        return bool(cls.__flags__ & _HEAP_TYPE)
    module = sys.modules.get(name)
    return name == "argparse" or module is None or is_users_module(module)
