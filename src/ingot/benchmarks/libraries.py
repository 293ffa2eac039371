"""The libraries to compare with, imported by the process that measures them if installed."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

__all__ = ["MODULES", "NotInstalledError", "load", "load_submodule"]

# What is imported for each, as programs do.
MODULES = {
    "ingot": "ingot.core",
    "mlx": "mlx.core",
    "numpy": "numpy",
    "jax": "jax",
    "torch": "torch",
    "scipy": "scipy.sparse.linalg",
    "faiss": "faiss",
    "llama_cpp": "llama_cpp",
    "python": "concurrent.futures",
}


class NotInstalledError(Exception):
    """The library is not installed, as opposed to one that fails to import."""


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


def load_submodule(library: str, submodule: str) -> Any:
    """A submodule of a library, such as mlx.nn for ("mlx", "nn")."""
    load(library)
    return importlib.import_module(f"{library}.{submodule}")
