"""Modules that are imported when they are first used.

Most programs need a few of the compiler's kernel builders, and reading all of them takes longer
than compiling a small function. A module that only some programs need is imported like this, which
type checkers and import-linter see as usual:

    if TYPE_CHECKING:
        from ingot.compiler.lower import scatter
    else:
        scatter = Deferred("ingot.compiler.lower.scatter")
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

__all__ = ["Deferred"]


class Deferred:
    """Stands for a module, whose attributes it has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = importlib.import_module(self._name)
        return getattr(self._module, attribute)
