"""ingot runs array programs written against MLX's API on the CPU: `import ingot.core as mx`.

`import ingot` loads nothing else: its modules and functions are imported when they are first used.
"""

from __future__ import annotations

import importlib

__version__ = "0.2.0"

# The version of MLX whose names, signatures and behaviour ingot follows.
MLX_VERSION = "0.32.4"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ingot import core, nn, optimizers, search, utils
    from ingot.drop_in import install_as_mlx
    from ingot.runtime.profile.profiler import profile

# The origins of names that are imported on first use; without a colon: a module.
_ORIGINS = {
    "core": "ingot.core",
    "install_as_mlx": "ingot.drop_in:install_as_mlx",
    "nn": "ingot.nn",
    "optimizers": "ingot.optimizers",
    "profile": "ingot.runtime.profile.profiler:profile",
    "search": "ingot.search",
    "utils": "ingot.utils",
}

__all__ = [
    "MLX_VERSION",
    "__version__",
    "core",
    "install_as_mlx",
    "nn",
    "optimizers",
    "profile",
    "search",
    "utils",
]


def __getattr__(name: str) -> object:
    if name not in _ORIGINS:
        if name.startswith("_"):  # what Python and its tools look for
            raise AttributeError(f"module 'ingot' has no attribute {name!r}", name=name)
        raise importlib.import_module("ingot.graph.reporting.foreign").whole_package_error(name)
    module, _, attribute = _ORIGINS[name].partition(":")
    found = importlib.import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ORIGINS})
