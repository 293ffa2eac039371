"""The documentation: its examples do what they say, and its pages build without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROMISE = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


def _run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # The theme would print an advertisement for the tool that is to follow mkdocs.
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


def _with_examples() -> list[Path]:
    return [document for document in DOCUMENTS if EXAMPLE.search(document.read_text())]


def test_there_are_documents_with_examples() -> None:
    names = {document.name for document in _with_examples()}
    assert {"README.md", "mlx_users.md", "numpy_users.md", "compilation.md"} <= names


@pytest.mark.parametrize("document", _with_examples(), ids=lambda document: document.name)
def test_examples_print_what_they_say(document: Path, tmp_path: Path) -> None:
    """The examples of a page are one program; those of the README are independent."""
    examples = EXAMPLE.findall(document.read_text())
    programs = examples if document.name == "README.md" else ["\n".join(examples)]
    for program in programs:
        done = _run(sys.executable, "-W", "error", "-c", program, cwd=tmp_path)
        assert done.returncode == 0, f"{program}\n{done.stdout}"
        assert done.stdout.splitlines() == PROMISE.findall(program)


def test_pages_build_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = _run(*command, str(tmp_path), cwd=PROJECT)
    assert (done.returncode, done.stdout) == (0, "")
    array = (tmp_path / "api" / "array" / "index.html").read_text()
    core = (tmp_path / "api" / "core" / "index.html").read_text()
    assert "reshape" in array
    for name in ("compile", "value_and_grad", "logsumexp", "conv2d"):
        assert f'id="{name}"' in core
