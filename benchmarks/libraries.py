"""The libraries that take part: imported by the process that times them, if they are there."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

__all__ = ["MODULES", "NotInstalledError", "load"]

# What is imported for each, as programs do.
MODULES = {
    "ingot": "ingot.core",
    "mlx": "mlx.core",
    "numpy": "numpy",
    "jax": "jax",
    "torch": "torch",
}


class NotInstalledError(Exception):
    """The library is not there, as opposed to one that is there and fails."""


def load(library: str) -> Any:
    """The module that programs import; typed as Any because most are not there when types are
    checked."""
    try:
        module: ModuleType = importlib.import_module(MODULES[library])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise NotInstalledError(f"{library} is not installed") from None
    return module
