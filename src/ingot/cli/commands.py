"""Chooses a subcommand and calls it.

A subcommand is a module of this package with `add_arguments(parser)` and `main(arguments)`, which
returns the exit code; with `parse(parser, argv)` if argparse alone does not understand its command
line. It is imported only when it is chosen, so that what it needs costs the others nothing.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence

from ingot import MLX_VERSION, __version__
from ingot.cli.run import command as command_of

SUMMARIES = {
    "run": "run a program written for MLX, unchanged",
    "launch": "run a program as several processes, on one machine or several",
    "chat": "talk to a language model",
    "tour": "see what ingot does, in a minute",
    "explain": "show how a function is compiled",
    "bench": "compare ingot with the other libraries that are installed",
}

# Packages that subcommands need in addition to ingot's own requirements: the extra `cli`.
FROM_EXTRAS = {"rich"}


# The exit code that shells report for a program killed by SIGPIPE.
NO_READER = 141


def main(argv: Sequence[str]) -> int:
    """Runs the command line `argv`; returns the exit code."""
    if sys.stdout is None:  # closed before the start: `ingot tour >&-`
        sys.stdout = io.StringIO()
    if hasattr(sys.stdout, "reconfigure"):
        # Where the terminal's encoding has no arrow, print a question mark rather than fail.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _choose(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # `ingot bench --list | head`
        # Python flushes once more at exit, and must not meet the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    return code


def _choose(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="ingot",
        usage="ingot [--version] [--help] COMMAND ...",
        description="Array programs with MLX's API on the CPU.",
        epilog=_table() + "\n\n`ingot COMMAND --help` says more about a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"ingot {__version__} (follows MLX {MLX_VERSION})"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    if chosen.command in (None, "help"):
        parser.print_help()
        return 0
    if chosen.command not in SUMMARIES:
        parser.error(_unknown(chosen.command))
    return _run(chosen.command, chosen.rest)


def _run(command: str, argv: list[str]) -> int:
    try:
        module = importlib.import_module(f"ingot.cli.{command}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in FROM_EXTRAS:
            raise
        print(
            f"`ingot {command}` needs {package}, which is not installed. "
            f"`{command_of('pip')} install 'ingot-ml[cli]'` installs it.",
            file=sys.stderr,
        )
        return 1
    parser = argparse.ArgumentParser(
        prog=f"ingot {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parse = getattr(module, "parse", argparse.ArgumentParser.parse_args)
    code: int = module.main(parse(parser, argv))
    return code


def _table() -> str:
    width = max(map(len, SUMMARIES))
    lines = [f"  {name:{width}}  {summary}" for name, summary in SUMMARIES.items()]
    return "\n".join(["commands:", *lines])


def _unknown(command: str) -> str:
    if command.endswith(".py"):
        return f"{command!r} is not a command. `ingot run {command}` runs it."
    near = difflib.get_close_matches(command, SUMMARIES, n=1)
    hint = f"Did you mean `ingot {near[0]}`?" if near else f"There are {', '.join(SUMMARIES)}."
    return f"{command!r} is not a command. {hint}"
