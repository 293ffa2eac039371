"""Set-up: what a fresh machine meets first, and what a user gets installed.

The build without a C compiler is done for real, with the compiler that the build backend asks for.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

PROJECT = Path(__file__).resolve().parent.parent
RUNTIME = {"numpy", "scipy", "llvmlite", "ml-dtypes", "threadpoolctl", "opt-einsum"}
# Names that a C compiler or a linker goes by.
COMPILERS = re.compile(
    r"(.*-)?(cc|gcc|g\+\+|c\+\+|c[89]9|clang|clang\+\+|tcc|cpp|ld|as|zig)([-.].*)?"
)


def load(name: str) -> ModuleType:
    """A module of build_support, which is not installed with the package."""
    spec = importlib.util.spec_from_file_location(name, PROJECT / "build_support" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(*command: str | Path, **settings: object) -> subprocess.CompletedProcess[str]:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **settings}
    return subprocess.run([str(part) for part in command], **options)  # type: ignore[call-overload]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of what a build needs: builds leave files behind, which must not be in the tree."""
    copy = tmp_path / "sources"
    copy.mkdir()
    for name in (
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
    ):
        shutil.copy(PROJECT / name, copy)
    unwanted = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for name in ("build_support", "src"):
        shutil.copytree(PROJECT / name, copy / name, ignore=unwanted)
    return copy


@pytest.fixture
def path_without_compilers(tmp_path: Path) -> str:
    """A PATH on which all programs are, except C compilers and linkers."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in sorted(Path(place).glob("*")) if place else ():
            link = folder / program.name
            if not COMPILERS.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    for name in ("cc", "gcc", "clang"):
        assert shutil.which(name, path=str(folder)) is None
    return str(folder)


def test_continuous_integration_runs_make_test_and_nothing_else() -> None:
    script = PROJECT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ['cd "$(dirname "$0")/.." && exec make test']


def test_nothing_that_git_ignores_is_committed() -> None:
    done = run("git", "ls-files", "--cached", "--ignored", "--exclude-standard", cwd=PROJECT)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    assert done.stdout.splitlines()[:10] == []


def test_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    commands = re.findall(r"^make (\w+)", (PROJECT / "README.md").read_text(), re.MULTILINE)
    assert {"demo", "test"} <= set(commands)
    targets = re.findall(r"^(\w+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert set(commands) <= set(targets)


def test_hooks_before_a_commit_are_those_of_make_lint() -> None:
    configuration = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())
    (repository,) = configuration["repos"]
    makefile = (PROJECT / "Makefile").read_text().replace("$(PYTHON_IN_VENV)", ".venv/bin/python")
    lint = makefile.partition("\nlint:")[2].partition("\nformat:")[0]
    tools = set(re.findall(r"\.venv/bin/python ((?:-m \w+(?: check| format)?)|\S+\.py)", lint))
    assert len(tools) >= 5
    entries = [hook["entry"] for hook in repository["hooks"]]
    for tool in tools:
        assert any(entry.startswith(f".venv/bin/python {tool}") for entry in entries), tool
    assert len(entries) == len(tools)


def test_users_get_no_development_tools(sources: Path, tmp_path: Path) -> None:
    hook = (
        "import sys, ingot_build; print(ingot_build.prepare_metadata_for_build_wheel(sys.argv[1]))"
    )
    done = run(
        *(sys.executable, "-c", hook, tmp_path),
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources / "build_support")},
    )
    assert done.returncode == 0, done.stdout
    metadata = (tmp_path / done.stdout.splitlines()[-1] / "METADATA").read_text()
    required = re.findall(r"^Requires-Dist: ([\w.-]+)(.*)$", metadata, re.MULTILINE)
    always = {re.sub(r"[-_.]+", "-", name) for name, rest in required if "extra ==" not in rest}
    assert always == RUNTIME


def test_importing_core_is_light() -> None:
    # SciPy and llvmlite take long to load; a program that needs neither must not wait for them.
    code = "import sys, ingot.core; print(*sorted({'scipy', 'llvmlite', 'mlx'} & set(sys.modules)))"
    done = run(sys.executable, "-W", "error", "-c", code)
    assert done.returncode == 0, done.stdout
    assert done.stdout.split() == []


def test_builds_where_there_is_no_c_compiler(
    sources: Path, path_without_compilers: str, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CC"}
    environment["PATH"] = path_without_compilers
    wheels = tmp_path / "wheels"
    done = run(
        *(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--verbose",
            "--no-deps",
            "--wheel-dir",
            wheels,
            ".",
        ),
        cwd=sources,
        env=environment,
    )
    # Only a machine without network may skip this.
    if done.returncode != 0 and load("diagnose").unreachable_index(done.stdout):
        pytest.skip("the package index cannot be reached, and the compiler comes from there")
    assert done.returncode == 0, done.stdout
    assert "-m ziglang cc" in done.stdout

    (wheel,) = wheels.iterdir()
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    assert not [*installed.rglob("*.c"), *installed.rglob("*.h")], "C sources are in the wheel"
    # `-S` hides the copy that is installed for development, but NumPy with it.
    code = "import ingot._native; print(ingot._native.__file__)"
    places = os.pathsep.join([str(installed), str(Path(np.__file__).parent.parent)])
    done = run(sys.executable, "-S", "-c", code, env={**environment, "PYTHONPATH": places})
    assert done.returncode == 0, done.stdout
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_warnings_are_errors_for_developers_and_not_for_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load("compiler")
    load("tuning_header")
    native_extension = load("native_extension").native_extension
    monkeypatch.delenv("INGOT_WARNINGS_ARE_ERRORS", raising=False)
    assert "-Werror" not in native_extension().extra_compile_args
    monkeypatch.setenv("INGOT_WARNINGS_ARE_ERRORS", "1")
    assert {"-Wall", "-Wextra", "-Werror"} <= set(native_extension().extra_compile_args)


def test_compiler_is_chosen_in_order(tmp_path: Path) -> None:
    compiler = load("compiler")
    assert compiler.find_compiler({"PATH": str(tmp_path)}) is compiler.ZIG
    assert compiler.extra_requirements({"PATH": str(tmp_path)}) == [compiler.ZIG_REQUIREMENT]
    clang = tmp_path / "clang"
    clang.touch(mode=0o755)
    assert compiler.find_compiler({"PATH": str(tmp_path)}).command == (str(clang),)
    assert compiler.extra_requirements({"PATH": str(tmp_path)}) == []
    chosen = compiler.find_compiler({"PATH": str(tmp_path), "CC": "ccache gcc"})
    assert chosen.command == ("ccache", "gcc")


def test_missing_python_is_reported_with_a_remedy(tmp_path: Path) -> None:
    for name in ("sh", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    script = PROJECT / "build_support" / "environment.sh"
    done = run(tmp_path / "sh", script, env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "python3 is not on PATH" in done.stdout
    assert "sudo apt install python3 python3-venv python3-dev" in done.stdout


def test_old_python_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    check = load("check_python")
    monkeypatch.setattr(check.sys, "version_info", (3, 9, 2))
    assert check.problems() == [("is Python 3.9, older than 3.11", None)]


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (
            "Failed to establish a new connection: [Errno 111]",
            "The package index cannot be reached",
        ),
        ("ERROR: No matching distribution found for mlx", "The package index has no mlx for"),
        ("satisfies the requirement mlx (from versions: none)", "The package index has no mlx at"),
        ("m.o: undefined reference to `f'", "The extension compiles, but nothing defines `f'."),
        (
            "ImportError: n.so: undefined symbol: g",
            "The extension compiles, but nothing defines g.",
        ),
        ("a.c:1:10: fatal error: 'stdio.h' file not found", "The C compiler does not find stdio.h"),
        (
            "a.c:3:1: error: expected ';'",
            "The extension does not compile: a.c:3:1: error: expected",
        ),
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        ("a.c:1:10: fatal error: Python.h: No such file", "Python's C headers are missing"),
        ("something new", "None"),
    ],
)
def test_failures_are_explained(output: str, sentence: str) -> None:
    assert str(load("diagnose").diagnose(output)).startswith(sentence)
