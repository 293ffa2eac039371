"""The import hook of `install_as_mlx`: finds ingot's modules under MLX's names.

It is first on `sys.meta_path`, so that it takes precedence over the finders of the real MLX. Its
loader returns the module imported under ingot's name, so both names refer to the same object. `mlx`
itself is a namespace package, as in MLX: other packages put modules into it (mlx.data), which are
found where they are installed.

This module imports only what Python loads at start-up anyway, because every process under `ingot
run` imports it.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import ingot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.abc import Loader
    from importlib.metadata import Distribution, DistributionFinder
    from typing import Any
else:
    Loader = object

# MLX's own modules: anything below them is ingot's, or missing.
_PUBLIC = ("core", "nn", "optimizers", "utils")
_MISSING = ("extension", "_distributed_utils", "_reprlib_fix", "__array_api_info")

# Modules that have different names in MLX and in ingot.
_RENAMED = {
    "mlx.__array_api_info": "ingot.core.namespace_info",
    "mlx._distributed_utils": "ingot.drop_in.distributed_utils",
    "mlx._distributed_utils.launch": "ingot.drop_in.distributed_utils.launch",
    "mlx._reprlib_fix": "ingot.graph.arrays.printing",
    "mlx.nn.layers.convolution_transpose": "ingot.nn.layers.convolution",
    "mlx.optimizers.optimizers": "ingot.optimizers",
    "metalfaiss.faissmlx.svd": "ingot.search.svd",
    "metalfaiss.indexflat": "ingot.search.flat",
}
_WHY_MISSING = (
    f"ingot {ingot.__version__}, which stands in for mlx and follows MLX {ingot.MLX_VERSION}, "
    "does not have it"
)
_NAMESPACES = ("mlx", "metalfaiss", "metalfaiss.faissmlx")


def is_mlx(name: str) -> bool:
    """Whether a full module name is that of MLX or of one of its submodules."""
    return name == "mlx" or name.startswith("mlx.")


class Finder:
    """Finds `mlx`, its modules and, if it is not installed, `metalfaiss` in ingot."""

    def __init__(self) -> None:
        self.installed: list[str] = []
        self._told: list[tuple[ModuleType, Callable[[str], object] | None]] = []
        self._renamed: list[tuple[type, str]] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Called for each import of a module that is not imported yet."""
        top, _, rest = name.partition(".")
        if top == "ingot":
            _refuse_missing(name, rest, path)
            return None
        if top == "metalfaiss" and self._stands_in_for_metalfaiss():
            return self._spec(name)
        if top != "mlx":
            return None
        submodule = rest.partition(".")[0]
        if submodule and submodule not in _PUBLIC + _MISSING:
            return PathFinder.find_spec(name, path if "." in rest else _portions())
        return self._spec(name)

    def find_distributions(self, context: DistributionFinder.Context) -> Iterable[Distribution]:
        """Called by importlib.metadata when a program asks for the version of mlx."""
        if context.name is None or context.name.lower() != "mlx":
            return ()
        found: Iterable[Distribution] = importlib.import_module(
            "ingot.drop_in.distribution"
        ).distributions()
        return found

    def invalidate_caches(self) -> None:
        """Called by importlib.invalidate_caches; there are no caches."""

    def forget(self) -> None:
        """Removes what was added to modules."""
        for module, own in self._told:
            vars(module).pop("__getattr__", None)
            if own is not None:
                vars(module)["__getattr__"] = own
        self._told.clear()
        for kind, name in self._renamed:
            kind.__module__ = name
        self._renamed.clear()

    def _spec(self, name: str) -> ModuleSpec:
        if name in _NAMESPACES:
            return ModuleSpec(name, _Namespace(self), origin="ingot", is_package=True)
        target = _RENAMED.get(name)
        if target is None and is_mlx(name):
            target = "ingot." + name.partition(".")[2]
        if target is None or not _exists(target) or _is_no_module(target):
            raise ModuleNotFoundError(f"No module named {name!r}: {_WHY_MISSING}", name=name)
        return ModuleSpec(name, _Alias(self, target), origin=target)

    def _stands_in_for_metalfaiss(self) -> bool:
        if "metalfaiss" in self.installed:
            return True
        others = [finder for finder in sys.meta_path if finder is not self]
        return all(finder.find_spec("metalfaiss", None) is None for finder in others)

    def rename_classes(self, module: ModuleType, name: str) -> None:
        """Sets `__module__` of classes to MLX's, since programs print and compare
        `mlx.core.float32`.
        """
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                self._renamed.append((value, value.__module__))
                value.__module__ = name

    def name_what_is_missing(self, module: ModuleType, name: str) -> None:
        """Makes the module and its public submodules report missing names under MLX's names."""
        if any(module is told for told, _ in self._told):
            return
        own = vars(module).get("__getattr__")
        vars(module)["__getattr__"] = self._missing_attributes(module, name, own)
        self._told.append((module, own))
        for key, value in list(vars(module).items()):
            if isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{key}":
                self.name_what_is_missing(value, f"{name}.{key}")

    def _missing_attributes(
        self, module: ModuleType, name: str, own: Any
    ) -> Callable[[str], object]:
        """A `__getattr__` for the module, in place of its own, which imports some names on their
        first use.
        """
        hints: dict[str, str] = getattr(own, "hints", {})

        def missing(attribute: str) -> object:
            found = own.provide(attribute) if hasattr(own, "provide") else None
            if isinstance(found, ModuleType):
                self.name_what_is_missing(found, f"{name}.{attribute}")
            if found is not None:
                return found
            message = f"module {name!r} has no attribute {attribute!r}"
            if attribute in hints:
                raise AttributeError(f"{message}: {hints[attribute]}.")
            if not attribute.startswith("__"):
                message = f"{message}: {_WHY_MISSING}"
            raise AttributeError(message, name=attribute, obj=module)

        return missing


class _Alias(Loader):
    """Loads a module of ingot under another name; there is nothing to execute."""

    def __init__(self, finder: Finder, target: str) -> None:
        self._finder = finder
        self._target = target
        self._own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._target)
        self._own = module.__spec__
        if self._own is not None and isinstance(self._own.loader, _Alias):
            # Another thread is importing the module under another alias.
            self._own = self._own.loader._own
        self._finder.name_what_is_missing(module, spec.name)
        self._finder.rename_classes(module, spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just overwritten the module's spec with that of the alias.
        alias, module.__spec__ = module.__spec__, self._own
        if alias is not None:
            self._finder.installed.append(alias.name)


class _Namespace(Loader):
    """Loads `mlx`: a module that contains nothing but modules."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._finder.installed.append(module.__name__)
        if module.__name__ == "mlx":
            vars(module)["__getattr__"] = _import_submodule


def _import_submodule(submodule: str) -> ModuleType:
    """Imports a submodule when it is accessed: MLX's modules import one another, so `mlx.core` must
    exist after `import mlx.nn`.
    """
    if submodule not in _PUBLIC:
        raise AttributeError(f"module 'mlx' has no attribute {submodule!r}", name=submodule)
    return importlib.import_module(f"mlx.{submodule}")


def _refuse_missing(name: str, rest: str, path: Sequence[str] | None) -> None:
    """Raises ImportError for a missing name: `from mlx.core import foo` tries `ingot.core.foo`."""
    parent, _, last = name.rpartition(".")
    known = "mlx." + parent.partition(".")[2]
    if rest.partition(".")[0] not in _PUBLIC or known not in sys.modules:
        return
    if PathFinder.find_spec(name, path) is None:
        raise ImportError(f"cannot import name {last!r} from {known!r}: {_WHY_MISSING}", name=name)


def _exists(target: str) -> bool:
    """Whether ingot has a module, without importing it."""
    base = os.path.join(os.path.dirname(ingot.__file__), *target.split(".")[1:])
    return os.path.isfile(base + ".py") or os.path.isfile(os.path.join(base, "__init__.py"))


def _is_no_module(target: str) -> bool:
    """Whether a name in a package refers to something other than a module: mlx.core.array is a
    class.
    """
    parent, _, last = target.rpartition(".")
    value = getattr(sys.modules.get(parent), last, None)
    return value is not None and not isinstance(value, ModuleType)


def _portions() -> list[str]:
    """The `mlx` folders on the path, into which other packages may have put modules."""
    return [os.path.join(folder, "mlx") for folder in sys.path]
