"""Runs at the start of every Python process under `ingot run`, before the program: mlx is ingot.

Python imports the first `sitecustomize` on its path, and `ingot run` puts this folder first. The
folder is taken off the path again, which the program should see as it would be without it, and the
machine's own `sitecustomize`, if there is one, runs as it would have.
"""

import importlib
import os
import sys
from importlib.machinery import PathFinder


class _NoIngot:
    """In a Python without ingot: `import mlx` must not quietly find the real one."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name == "mlx" or name.startswith("mlx."):
            raise ImportError(
                "under `ingot run`, mlx is ingot, but this Python (" + sys.executable + ") has no "
                "ingot. Install ingot for it, or take " + _FOLDER + " out of the environment "
                "variable PYTHONPATH of this process to import the real mlx.",
                name=name,
            )
        return None


_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _FOLDER]

try:
    from ingot.drop_in import install_as_mlx, keep_scans
except ModuleNotFoundError:
    sys.meta_path.insert(0, _NoIngot)
else:
    install_as_mlx()
    keep_scans()

if PathFinder.find_spec("sitecustomize") is not None:
    del sys.modules["sitecustomize"]
    importlib.import_module("sitecustomize")
