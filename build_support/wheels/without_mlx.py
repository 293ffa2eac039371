"""A plugin of pytest: leaves out the test files that import packages without wheels for an
interpreter, MLX among them.

    python -m pytest -p without_mlx
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

_IMPORTED = re.compile(r"^\s*(?:import|from) (mlx|faiss|playwright|mpi4py|gguf|yaml)\b", re.M)
# Modules of the tests that import MLX themselves.
_OF_TESTS = re.compile(r"^\s*(?:import|from) (tests\.[\w.]+)", re.M)


def lacks_packages(path: Path, root: Path, seen: set[Path]) -> bool:
    """Whether a file, or a module of the tests that it imports, imports what is not installed."""
    if path in seen or not path.exists():
        return False
    seen.add(path)
    text = path.read_text()
    names = _IMPORTED.findall(text)
    if any(importlib.util.find_spec(name) is None for name in names):
        return True
    modules = [root / Path(*name.split(".")) for name in _OF_TESTS.findall(text)]
    files = [
        file for module in modules for file in (module.with_suffix(".py"), module / "__init__.py")
    ]
    return any(lacks_packages(file, root, seen) for file in files)


def pytest_ignore_collect(collection_path: Path, config: object) -> bool | None:
    """Whether to leave a file out."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    root = Path(config.rootpath)  # type: ignore[attr-defined]
    return True if is_test and lacks_packages(collection_path, root, set()) else None
