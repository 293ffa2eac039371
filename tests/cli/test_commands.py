"""The command line without a program: help, version, mistakes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.cli.process import python

import ingot
from ingot.cli import commands


@pytest.mark.parametrize("typed", [[], ["help"]])
def test_help(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(typed) == 0
    printed = capsys.readouterr().out
    assert "ingot [--version] [--help] COMMAND" in printed
    assert "run" in printed
    assert commands.SUMMARIES["run"] in printed


def test_help_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        commands.main(["run", "--help"])
    assert "[SCRIPT | -m MODULE | -c CODE | -]" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        commands.main(["--version"])
    printed = capsys.readouterr().out
    assert printed == f"ingot {ingot.__version__} (follows MLX {ingot.MLX_VERSION})\n"


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("rnu", "'rnu' is not a command. Did you mean `ingot run`?"),
        ("train.py", "'train.py' is not a command. `ingot run train.py` runs it."),
        ("xyz", "'xyz' is not a command. There are run"),
    ],
)
def test_mistakes(typed: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        commands.main([typed])
    assert answer in capsys.readouterr().err


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        command = [sys.executable, "-m", "ingot", "bench", "--list"]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, timeout=120)
    assert (done.returncode, done.stderr) == (commands.NO_READER, b"")


def test_standard_output_that_is_closed() -> None:
    program = "import sys, ingot.cli.commands as c; sys.stdout = None; sys.exit(c.main(['help']))"
    done = python("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
