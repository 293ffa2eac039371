"""`ingot.install_as_mlx()` inside a program, and the end of it.

Each test is a process of its own: here the real mlx may be imported already.
"""

from __future__ import annotations

from pathlib import Path

from .process import python


def _passes(code: str, **environment: str) -> None:
    ran = python("-c", code, **environment)
    assert (ran.stderr, ran.returncode) == ("", 0)


def test_until_uninstalled() -> None:
    _passes(
        """
import importlib.metadata, sys
import ingot

installation = ingot.install_as_mlx()
again = ingot.install_as_mlx()
import mlx.core, mlx.nn, mlx
assert mlx.core is ingot.core and mlx.nn is ingot.nn
again.uninstall()
import mlx.utils
assert mlx.utils is ingot.utils
try:
    mlx.core.flor
except AttributeError as error:
    assert "stands in for mlx" in str(error)
assert str(mlx.core.bool_) == "mlx.core.bool"
installation.uninstall()
installation.uninstall()
assert str(ingot.core.bool_) == "ingot.core.bool"
assert not [name for name in sys.modules if name.partition(".")[0] == "mlx"]
try:
    ingot.core.flor
except AttributeError as error:
    assert str(error) == "module 'ingot.core' has no attribute 'flor'"
import mlx.core
assert mlx.core is not ingot.core
assert mlx.core.__version__ == importlib.metadata.version("mlx")
"""
    )


def test_for_the_time_of_a_with() -> None:
    _passes(
        """
import ingot

with ingot.install_as_mlx():
    import mlx.core as ours
import mlx.core as theirs
assert ours is ingot.core and theirs is not ours
"""
    )


def test_it_comes_too_late_after_the_real_one() -> None:
    ran = python("-c", "import mlx.core, ingot; ingot.install_as_mlx()")
    assert "ImportError: [install_as_mlx] the real mlx.core is already imported (/" in ran.stderr
    assert "Call ingot.install_as_mlx() before anything imports mlx" in ran.stderr


def test_other_parts_of_the_namespace_mlx_are_found(tmp_path: Path) -> None:
    (tmp_path / "mlx" / "data").mkdir(parents=True)
    (tmp_path / "mlx" / "data" / "__init__.py").write_text(
        "import mlx.core\nx = mlx.core.ones(3)\nfrom .core import y\nfrom .nn.core import z\n"
    )
    # Modules named like those of MLX, which is installed too, are the package's own.
    (tmp_path / "mlx" / "data" / "core.py").write_text("y = 1\n")
    (tmp_path / "mlx" / "data" / "nn").mkdir()
    (tmp_path / "mlx" / "data" / "nn" / "core.py").write_text("z = 2\n")
    _passes(
        f"""
import sys
import ingot
sys.path.insert(0, {str(tmp_path)!r})
ingot.install_as_mlx()
import mlx.data, mlx.core
assert mlx.data.x.tolist() == [1, 1, 1] and mlx.core is ingot.core
assert (mlx.data.y, mlx.data.z) == (1, 2) and mlx.data.core is not mlx.core
"""
    )


def test_the_real_metalfaiss_comes_first(tmp_path: Path) -> None:
    (tmp_path / "metalfaiss").mkdir()
    (tmp_path / "metalfaiss" / "__init__.py").write_text("")
    (tmp_path / "metalfaiss" / "indexflat.py").write_text("FlatIndex = 'the real one'\n")
    _passes(
        f"""
import sys
import ingot
sys.path.insert(0, {str(tmp_path)!r})
ingot.install_as_mlx()
from metalfaiss.indexflat import FlatIndex
assert FlatIndex == 'the real one'
"""
    )


def test_import_ingot_loads_nothing_else() -> None:
    _passes(
        """
import sys
import ingot
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"numpy", "scipy", "llvmlite", "typing", "argparse"}, loaded
assert [name for name in sys.modules if name.startswith("ingot")] == ["ingot"]
assert ingot.core.__name__ == "ingot.core" and "nn" in dir(ingot)
"""
    )
