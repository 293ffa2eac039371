"""The command `ingot`. `ingot run` leaves its options to Python and starts without a parser."""

from __future__ import annotations

import importlib
import sys

from ingot.cli import run


def main() -> int:
    """Runs the command line of this process; returns the exit code."""
    argv = sys.argv[1:]
    if argv[:1] == ["run"] and argv[1:2] not in (["-h"], ["--help"]):
        return run.start(argv[1:])
    code: int = importlib.import_module("ingot.cli.commands").main(argv)
    return code
