"""Runs a Python program in which `mlx` is ingot, also in the Python processes that it starts.

What follows `ingot run` is what would follow `python`: a script, `-m module`, `-c code` or `-` for
standard input, after options of Python if need be, and then the program's own arguments. Nothing
follows: an interactive session.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "ingot run [PYTHON OPTIONS] [SCRIPT | -m MODULE | -c CODE | -] [ARGUMENTS]"


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Only a first `--help` is for this command; everything else is for Python and the program."""
    if argv and argv[0] in ("-h", "--help"):
        return ["--help"], []
    return [], list(argv)


def main(arguments: argparse.Namespace) -> int:
    os.execv(sys.executable, [sys.executable, *arguments.passed_on])
