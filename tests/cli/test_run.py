"""`ingot run` is Python in which mlx is ingot; the real Python says what is right."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from textwrap import dedent

import pytest

import ingot
from ingot.cli import run

from .process import ingot as command
from .process import python

# Prints what a program can see of how it was started.
VIEW = """
import os, sys
print(__name__, globals().get("__file__"), sys.argv, sys.path, sys.flags, sys.orig_argv[1:])
print(sys.modules["__main__"].__dict__ is globals(), os.getcwd(), sys.stdin.read())
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(VIEW)
    return path


def _alike(*arguments: str | Path, cwd: Path) -> None:
    ours = command("run", *arguments, stdin="typed", cwd=cwd)
    theirs = python(*arguments, stdin="typed", cwd=cwd)
    assert ours.stdout == theirs.stdout
    assert ours.stderr == theirs.stderr
    assert ours.returncode == theirs.returncode


def test_the_program_sees_what_it_would_see_in_python(program: Path) -> None:
    cwd = program.parent
    _alike(program, "--help", "-m", "--", "x y", cwd=cwd)
    _alike("-m", "program", "-c", cwd=cwd)
    _alike("-Wignore", "-X", "dev", "-c", VIEW, "a", cwd=cwd)
    _alike("nowhere.py", cwd=cwd)
    _alike("-m", "nowhere", cwd=cwd)


def test_ways_to_end(tmp_path: Path) -> None:
    path = tmp_path / "ends.py"
    path.write_text(
        dedent(
            """
            import os, signal, sys
            print("flushed", end="")
            how = sys.argv[1]
            if how == "raise":
                raise ValueError("wrong")
            elif how == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
            sys.exit(eval(how))
            """
        )
    )
    for how in ("3", "'message'", "raise"):
        _alike(path, how, cwd=tmp_path)
    ended = command("run", path, "interrupt")
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.endswith("KeyboardInterrupt\n")


def test_code_comes_from_standard_input() -> None:
    ran = command("run", "-", "argument", stdin="import mlx.core, sys; print(mlx.core, sys.argv)")
    assert ran.stdout.startswith("<module 'ingot.core'")
    assert ran.stdout.endswith("['-', 'argument']\n")


IMPORTS = """
import importlib.metadata, importlib.util, pickle, sys, threading
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.core import fast, random
from mlx.nn.layers.base import Module
from mlx.nn.layers.convolution_transpose import ConvTranspose2d
from mlx.optimizers.optimizers import Adam
from mlx.optimizers.schedulers import cosine_decay
from mlx.utils import tree_flatten
import mlx.core.linalg
import mlx.nn.losses as losses
import mlx

import ingot
import ingot.nn

assert mx is ingot.core is mlx.core is sys.modules["mlx.core"]
assert nn is ingot.nn and nn.losses is losses and nn.Module is Module
assert optim.Adam is Adam and mlx.utils is ingot.utils
assert mx.__spec__.name == mx.__name__ == "ingot.core"
assert isinstance(mx.ones(3), ingot.core.array)
assert mx.__version__ == importlib.metadata.version("mlx") == ingot.MLX_VERSION
assert importlib.util.find_spec("mlx.core") and not hasattr(mlx, "__version__")
assert not mx.metal.is_available() and mx.default_device() == mx.cpu
assert pickle.loads(pickle.dumps(Adam)) is Adam
assert str(mx.float32) == "mlx.core.float32" and repr(mx.array) == "<class 'mlx.core.array'>"
assert pickle.loads(pickle.dumps(mx.ones(2))).tolist() == [1, 1]
assert pickle.loads(pickle.dumps(mx.array)) is mx.array

class Mine:
    pass

assert type(pickle.loads(pickle.dumps(Mine()))) is Mine and Mine.__module__ == "__main__"

def in_thread():
    import mlx.core as again
    found.append(again is mx)

found = []
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
assert found == [True]
"""


def test_imports_give_the_modules_of_ingot() -> None:
    ran = command("run", "-c", IMPORTS)
    assert (ran.stderr, ran.returncode) == ("", 0)


CHILDREN = """
import multiprocessing, os, subprocess, sys

def name_of_core(_=None):
    import mlx.core
    return mlx.core.__name__

if __name__ == "__main__":
    code = "import mlx.core; print(mlx.core.__name__)"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    print(os.popen(f"cd /; {sys.executable} -c '{code}'").read())
    for method in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(name_of_core, [None]))
"""


def test_children_see_ingot_too(tmp_path: Path) -> None:
    path = tmp_path / "parent.py"
    path.write_text(CHILDREN)
    ran = command("run", path)
    assert ran.stdout.split() == ["ingot.core"] * 2 + ["['ingot.core']"] * 3, ran.stderr


MISSING = """
import mlx.core as mx, mlx.nn
for use in ("mx.flor", "mx.fast.flor", "mlx.nn.Linera", "mlx.flor"):
    try:
        eval(use)
    except AttributeError as error:
        print(error)
for statement in (
    "from mlx.core import flor", "from mlx.nn import layrs", "import mlx.extension",
    "import mlx.nn.layers.flor", "import mlx.flor", "import mlx.core.array",
):
    try:
        exec(statement)
    except ImportError as error:
        print(error)
print(hasattr(mx, "flor"), hasattr(mx, "floor"), mx.array)
mx.flor
"""


def test_missing_names_are_named() -> None:
    ran = command("run", "-c", MISSING)
    why = (
        f"ingot {ingot.__version__}, which stands in for mlx and follows MLX {ingot.MLX_VERSION}, "
        "does not have it"
    )
    assert ran.stdout.splitlines() == [
        f"module 'mlx.core' has no attribute 'flor': {why}",
        f"module 'mlx.core.fast' has no attribute 'flor': {why}",
        f"module 'mlx.nn' has no attribute 'Linera': {why}",
        "module 'mlx' has no attribute 'flor'",
        f"cannot import name 'flor' from 'mlx.core': {why}",
        f"cannot import name 'layrs' from 'mlx.nn': {why}",
        f"No module named 'mlx.extension': {why}",
        f"No module named 'mlx.nn.layers.flor': {why}",
        "No module named 'mlx.flor'",
        f"No module named 'mlx.core.array': {why}",
        "False True <class 'mlx.core.array'>",
    ]
    assert ran.stderr.endswith(f"{why}. Did you mean: 'floor'?\n")


def test_tracebacks_start_with_the_program(tmp_path: Path) -> None:
    path = tmp_path / "fails.py"
    path.write_text("import mlx.core as mx\n\nx = mx.ones((5, 5, 3))\nx.reshape(6, -1)\n")
    lines = command("run", path).stderr.splitlines()
    assert lines[1:3] == [f'  File "{path}", line 4, in <module>', "    x.reshape(6, -1)"]
    assert lines[-1].startswith("ValueError: [reshape] cannot reshape (5, 5, 3) to (6, -1)")


def test_the_sitecustomize_of_the_machine_runs(tmp_path: Path) -> None:
    own = tmp_path / "sitecustomize.py"
    own.write_text("import sys\nsys.customized = True\n")
    code = """
import sys
print(sys.customized, sys.modules["sitecustomize"].__file__)
import mlx.core
print(mlx.core.__name__)
"""
    path = [str(tmp_path), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    ran = command("run", "-c", code, PYTHONPATH=":".join(path))
    assert ran.stdout.split() == ["True", str(own), "ingot.core"]


def test_a_python_without_ingot_is_reported() -> None:
    startup = Path(run.__file__).parents[1] / "drop_in" / "startup" / "sitecustomize.py"
    # -I and -S hide the way to ingot, so the customization is run by hand.
    code = f"import runpy; runpy.run_path({str(startup)!r}); import json, mlx.core"
    ran = python("-I", "-S", "-c", code)
    assert "ImportError: under `ingot run`, mlx is ingot, but this Python" in ran.stderr
    assert f"Install ingot for it, or take {startup.parent} out of" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["-I", "x.py"], "-I"),
        (["-uE", "x.py"], "-E"),
        (["-W", "error", "-S", "-c", "1"], "-S"),
        (["-Werror", "-X", "dev", "-E"], "-E"),
        (["--check-hash-based-pycs", "always", "-I"], "-I"),
        (["-mEIS", "-E"], None),
        (["-c", "1", "-E"], None),
        (["-W", "-E", "x.py"], None),
        (["-XE", "x.py", "-I"], None),
        (["-u", "-", "-I"], None),
        ([], None),
    ],
)
def test_options_that_hide_the_environment(arguments: list[str], option: str | None) -> None:
    assert run._isolating_option(arguments) == option


def test_isolation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.start(["-I", "x.py"]) == 2
    assert "Python's option -I hides the environment" in capsys.readouterr().err


NAN = """
import subprocess, sys
import mlx.core as mx

@mx.compile
def ratio(x):
    return x / (x - x)

if len(sys.argv) > 1:
    sys.exit(subprocess.call([sys.executable, __file__]))
print(ratio(mx.ones(3)).tolist())
"""


def test_check_nan_stops_at_the_operation(tmp_path: Path) -> None:
    path = tmp_path / "ratio.py"
    path.write_text(NAN)
    for arguments in ([], ["child"]):  # processes that the program starts are checked too
        plain = command("run", path, *arguments)
        assert plain.returncode == 0
        assert plain.stdout.split() == ["[inf,", "inf,", "inf]"]
        found = command("run", "--check-nan", "-X", "utf8", path, *arguments)
        assert found.returncode == 1
        assert "FloatingPointError" in found.stderr
        assert "Divide(float32[3], float32[3]), made at ratio.py:7" in found.stderr
        assert "float32[3], from 1 to 1, all finite" in found.stderr


def test_check_nan_is_in_the_help_and_only_in_front() -> None:
    assert "--check-nan" in command("run", "--help").stdout
    later = command("run", "-c", "import sys; print(sys.argv)", "--check-nan")
    assert later.stdout == "['-c', '--check-nan']\n"


def test_commands_of_mlx_lm_where_it_is_not_installed(tmp_path: Path) -> None:
    """Without the packages of this environment, but with ingot's and NumPy's own."""
    program = dedent(
        """
        import os, sys
        from importlib.machinery import PathFinder
        from ingot.cli import run
        found = PathFinder.find_spec
        PathFinder.find_spec = lambda name, path: found(name, [path[0]])
        sys.exit(run.start(["-m", "mlx_lm.server", "--help"]))
        """
    )
    missing = python("-c", program, cwd=tmp_path)
    assert missing.returncode == 1
    assert missing.stderr.startswith("ingot run: mlx-lm is not installed. `")
    assert missing.stderr.endswith("pip install 'ingot-ml[chat]'` installs it.\n")
    # A checkout of mlx-lm in the current folder will do.
    (tmp_path / "mlx_lm").mkdir()
    (tmp_path / "mlx_lm" / "__init__.py").touch()
    (tmp_path / "mlx_lm" / "server.py").write_text("import sys; print(sys.argv[1:])")
    assert python("-c", program, cwd=tmp_path).stdout == "['--help']\n"


def test_how_to_call_programs_of_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "pip").touch(0o755)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pip").touch(0o755)
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(elsewhere))
    assert run.command("pip") == ".venv/bin/pip"
    assert run.command("other") == "other"
    monkeypatch.chdir(elsewhere)
    assert run.command("pip") == str(folder / "pip")
    monkeypatch.setenv("PATH", f"{folder}:{elsewhere}")
    assert run.command("pip") == "pip"
