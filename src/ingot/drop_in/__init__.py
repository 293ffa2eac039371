"""`install_as_mlx`: from then on, `import mlx.core` and its like give ingot's modules.

`ingot run` does the same to a whole program before its first line, and to the Python processes that
it starts: it starts Python with the folder `startup` in PYTHONPATH, where Python finds the
`sitecustomize` that calls `install_as_mlx`.
"""

from __future__ import annotations

import sys
from types import TracebackType

from ingot.drop_in.finder import Finder, is_mlx

__all__ = ["Installation", "install_as_mlx"]


class Installation:
    """What `install_as_mlx` gives: `uninstall()` undoes it, and so does the end of a `with`."""

    def __init__(self, finder: Finder | None) -> None:
        self._finder = finder

    def uninstall(self) -> None:
        """Make `import mlx` mean again what it meant before; modules already imported stay ingot's.

        Does nothing if it was called before, or if an earlier `install_as_mlx` is in force.
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

    The modules are the same objects: `mlx.core is ingot.core`. It holds also where the real MLX is
    installed, but not once it is imported. Without the package `metalfaiss`, the modules of it that
    `ingot.search` stands in for are importable, too.

    Python processes that this one starts afresh have to call it themselves; `ingot run` takes care
    of those, too.

    Returns:
        An object with `uninstall()`, which is also a context manager that ends with it.
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
