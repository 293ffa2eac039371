"""The examples of public names: each has one, which prints what it says and what MLX prints."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parent.parent
sys.path.append(str(PROJECT / "tools"))
import api_examples  # noqa: E402
import api_pages  # noqa: E402

FILES = sorted(api_examples.FOLDER.rglob("*.py"))


def _names(page: str) -> set[str]:
    """The public names of a page that can be called or read from an object."""
    module, _, attribute = api_pages.PAGES[page][0].partition(":")
    owner: Any = importlib.import_module(module)
    owner = getattr(owner, attribute) if attribute else owner
    values = {name: getattr(owner, name) for name in api_pages.public_names(owner)}
    return {
        name
        for name, value in values.items()
        if not inspect.ismodule(value) and (callable(value) or inspect.isdatadescriptor(value))
    }


def _report(tmp_path: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(PROJECT / "tools" / "api_examples.py"), *arguments],
        cwd=tmp_path,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "INGOT_PROGRESS": "off"},
    )
    return done.stdout.strip().splitlines()


@pytest.mark.parametrize("page", api_pages.PAGES)
def test_every_name_has_an_example(page: str) -> None:
    examples = api_examples.examples(page)
    assert _names(page) - examples.keys() == set()
    assert examples.keys() - _names(page) == set()
    for name, code in examples.items():
        assert name in code or page in ("ingot", "core", "nn"), f"the example never uses {name}"


def test_examples_print_what_they_say(tmp_path: Path) -> None:
    assert _report(tmp_path, *map(str, FILES)) == []


def test_mlx_prints_the_same(tmp_path: Path) -> None:
    assert _report(tmp_path, "--mlx", *map(str, FILES)) == []


def test_a_wrong_example_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_examples, "FOLDER", tmp_path)
    path = tmp_path / "fft.py"
    path.write_text(
        "import ingot.core as mx\n\n# %% fft\nprint(mx.array([1]) + 1)\n# array([3], dtype=int32)\n"
        "\n# %% ifft\nprint(2)\n\n# %% rfft\nprint(3)\n# 3\n\n# %% irfft\n1 / 0\n"
    )
    assert api_examples.check(path, mlx=False, fill=False) == [
        "fft.py:4 fft: 'array([2], dtype=int32)' is printed, 'array([3], dtype=int32)' is said",
        "fft.py:8 ifft: '2' is printed, None is said",
        "fft.py:15 irfft: ZeroDivisionError: division by zero",
    ]
    api_examples.check(path, mlx=False, fill=True)
    assert [line.split()[1] for line in api_examples.check(path, mlx=False, fill=False)] == [
        "irfft:"
    ]
