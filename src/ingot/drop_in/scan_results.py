"""The results of `transformers.utils.import_utils.define_import_structure` in the disk cache.

It maps a folder to the names that its modules define, by reading all of them. The key of a result
has the path of everything in the folder, and size, times and inode of each module, so that a
changed file is noticed. The function is known by the names that its code uses: a version of it that
depends on more than the files of the folder is left alone, as is one with a part that was replaced.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ingot.compiler.machine.disk_cache import DiskCache, cache_folder, digest_of

__all__ = ["keep"]

_FUNCTION = "define_import_structure"
MIN_MODULES = 200  # fewer are read as quickly as their times
SETTLED = 2_000_000_000  # nanoseconds after which another change of a file changes its times

# All names of variables and attributes in version 5 of the package: none but the files of the
# folder decide the result.
_NAMES = frozenset(
    (
        "BASE_FILE_REQUIREMENTS IndexError ValueError _TORCHVISION_BACKEND_SUBCLASS add any append "
        "copy create_import_structure_from_path define_import_structure dict dirname endswith "
        "enumerate extend fetch__all__ frozenset is_dir isfile isinstance items join len name open "
        "os path range read remove scandir search set sorted split splitlines "
        "spread_import_structure startswith str strip tuple update"
    ).split()
)

Stamp = tuple[int, ...]


def keep(module: ModuleType) -> None:
    """Replaces the function in its module, if it is the one that is known."""
    parts = _parts(module)
    if parts and _NAMES.issuperset(_names(parts.values())):
        vars(module)[_FUNCTION] = _kept(module, parts)


def _parts(module: ModuleType) -> dict[str, Any]:
    """The variables of the module that the function uses, itself included, by name."""
    found: dict[str, Any] = {}
    waiting = [_FUNCTION]
    while waiting:
        name = waiting.pop()
        if name not in found and name in vars(module):
            found[name] = vars(module)[name]
            waiting += _names([found[name]])
    return found


def _names(values: Iterable[Any]) -> Iterator[str]:
    """All names in the code of functions, also of those in dicts."""
    for value in values:
        function = getattr(value, "__wrapped__", value)
        if isinstance(function, dict):
            yield from _names((*function, *function.values()))
        elif isinstance(function, FunctionType):
            for code in _codes(function.__code__):
                yield from code.co_names


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _kept(module: ModuleType, parts: dict[str, Any]) -> Callable[..., Any]:
    """The function, with results from the disk cache."""
    function = parts.pop(_FUNCTION)
    contents = {name: dict(part) for name, part in parts.items() if isinstance(part, dict)}

    def is_unchanged() -> bool:
        now = vars(module)
        is_same = all(now.get(name) is part for name, part in parts.items())
        return is_same and all(now[name] == before for name, before in contents.items())

    @lru_cache  # as the function itself
    @wraps(function)
    def kept(module_path: Any, *options: Any, **named: Any) -> Any:
        def computed() -> Any:
            return function(module_path, *options, **named)

        key = _key(module, module_path, (options, named)) if is_unchanged() else None
        return computed() if key is None else _from_disk(key, computed)

    return kept


def _key(module: ModuleType, path: Any, options: Any) -> str | None:
    """All that a result depends on; None if it is not worth keeping or a file has just changed."""
    try:
        folder = os.path.dirname(path) if os.path.isfile(path) else os.fspath(path)
        entries = dict(_entries(folder))
        entries[str(module.__file__)] = _stamp(os.stat(str(module.__file__)))
    except (OSError, TypeError):
        return None
    stamps = [stamp for stamp in entries.values() if stamp is not None]
    changed = max(time_of_change for _, *times, _ in stamps for time_of_change in times)
    if len(stamps) < MIN_MODULES or time.time_ns() - changed < SETTLED:
        return None
    key = repr((_FUNCTION, sys.version, str(path), options, entries))
    return digest_of(key.encode()).hex()


def _entries(folder: str) -> Iterator[tuple[str, Stamp | None]]:
    """Everything in a folder and in those below; with a stamp if it is a module."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "__pycache__":
                continue
            yield entry.path, _stamp(entry.stat()) if entry.name.endswith(".py") else None
            if entry.is_dir():
                yield from _entries(entry.path)


def _stamp(status: os.stat_result) -> Stamp:
    """What changes with a file. Writing sets its second time, which programs cannot set back."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _from_disk(key: str, compute: Callable[[], Any]) -> Any:
    """The result with that key; computed and stored if there is none."""
    disk = DiskCache(cache_folder())
    data = disk.read(key)
    if data is not None:
        return marshal.loads(data)
    result = compute()
    try:
        data = marshal.dumps(result)
    except ValueError:  # it holds something else than built-in types
        return result
    disk.write(key, data)
    return result
