"""`install_as_mlx`: makes `import mlx.core` and the like import ingot's modules.

`ingot run` does the same for a whole program, before its first line, and for the Python processes
that it starts: it puts the folder `startup` on PYTHONPATH, whose `sitecustomize` calls
`install_as_mlx`, and `keep_scans`, so that programs start faster.
"""

from __future__ import annotations

import sys
from types import TracebackType

from ingot.drop_in.finder import Finder, is_mlx
from ingot.drop_in.kept_scans import keep_scans

__all__ = ["Installation", "install_as_mlx", "keep_scans"]


class Installation:
    """The result of `install_as_mlx`; `uninstall()` or leaving a `with` block undoes it."""

    def __init__(self, finder: Finder | None) -> None:
        self._finder = finder

    def uninstall(self) -> None:
        """Make `import mlx` mean again what it meant before; modules already imported stay ingot's.

        Does nothing if it was called before, or if an earlier `install_as_mlx` is in effect.
        """
        finder, self._finder = self._finder, None
        if finder is None:
            return
        sys.meta_path.remove(finder)
        for name in finder.installed:
            sys.modules.pop(name, None)
        finder.forget()

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.uninstall()


def install_as_mlx() -> Installation:
    """Make every later `import mlx`, `import mlx.core`, `import mlx.nn` ... in this process ingot.

    The modules are the same objects: `mlx.core is ingot.core`. This works even if the real MLX is
    installed, but not once it has been imported. If the package `metalfaiss` is not installed, its
    modules that `ingot.search` replaces can be imported too.

    Python processes started by this one have to call it themselves; `ingot run` takes care of
    those too.

    Returns:
        An object with `uninstall()`, which is also a context manager that calls it on exit.
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return Installation(None)
    imported = [name for name in list(sys.modules) if is_mlx(name)]
    if imported:
        module = sys.modules["mlx.core"] if "mlx.core" in imported else sys.modules[imported[0]]
        where = getattr(module, "__file__", None) or "a namespace package"
        raise ImportError(
            f"[install_as_mlx] the real {module.__name__} is already imported ({where}). "
            "Call ingot.install_as_mlx() before anything imports mlx, or start the program with "
            "`ingot run`."
        )
    finder = Finder()
    sys.meta_path.insert(0, finder)
    return Installation(finder)
