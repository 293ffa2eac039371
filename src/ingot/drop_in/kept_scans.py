"""Keeps what a package finds out about its own files whenever it is imported.

`transformers` reads its two thousand modules to learn which names each of them defines, twice: a
third of the time that `mlx_lm generate` takes to its first token. Under `ingot run` and `ingot
chat` the result is kept in the disk cache (`scan_results.py`). INGOT_KEEP_SCANS=0, or
INGOT_CACHE=0, switches it off.

A finder wraps the loader of the module that defines the function. The module is executed as usual
and has its own loader; only the function is replaced, by one that calls it where nothing is kept.

Like `finder.py`, this imports only what Python loads at start-up anyway.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
else:
    Loader = object

__all__ = ["keep_scans"]

_MODULE = "transformers.utils.import_utils"
_OFF = {"0", "off", "false", "no"}


def keep_scans() -> None:
    """Keep the results of scans in this process, unless they are switched off."""
    if os.environ.get("INGOT_KEEP_SCANS", "").lower() in _OFF or _MODULE in sys.modules:
        return
    if not any(isinstance(finder, ScanFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, ScanFinder())


class ScanFinder:
    """Finds the module with the function where the other finders do."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Called for each import of a module that is not imported yet."""
        if name != _MODULE:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Keeping(spec.loader)
        return spec


class _Keeping(Loader):
    """Loads a module with its own loader and replaces a function in it."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        module.__loader__ = self._own
        self._own.exec_module(module)
        importlib.import_module("ingot.drop_in.scan_results").keep(module)
