"""Run a Python program with ingot in place of `mlx`, also in Python processes that it starts.

The arguments are those of `python`: options of Python, then a script, `-m module`, `-c code` or `-`
for standard input, then the program's own arguments. Without arguments it starts an interactive
session.

`ingot run --check-nan script.py` stops at the first operation that produces a NaN, or an infinity
from finite numbers, and reports the operation, its inputs' ranges and the line (`mx.debug_nans`).

Nothing outside these processes changes. A child process that does not inherit PYTHONPATH, or runs
with Python's options -E, -I or -S, sees the installed mlx.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
from importlib.machinery import PathFinder

import ingot

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_CHECK_NAN = "--check-nan"  # our own option, before those of Python

# Options of Python whose value may be the next argument.
_WITH_VALUE = "cmWX"
# Options that end the options: the program's arguments follow.
_LAST = "cm"
# Options with which Python would ignore that mlx is ingot.
_ISOLATING = "EIS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a help text only: `start` gets all other arguments unparsed."""
    parser.usage = (
        "ingot run [--check-nan] [PYTHON OPTIONS] [SCRIPT | -m MODULE | -c CODE | -] [ARGUMENTS]"
    )
    parser.add_argument(
        _CHECK_NAN,
        action="store_true",
        help="stop at the first operation that makes a NaN or an infinity of finite numbers",
    )


def main(arguments: argparse.Namespace) -> int:
    """Starts an interactive session."""
    return start([])


def start(argv: Sequence[str]) -> int:
    """Replaces this process by Python with these arguments; returns only if that fails."""
    checks_nan = list(argv[:1]) == [_CHECK_NAN]
    if checks_nan:
        argv = argv[1:]
    isolating = _isolating_option(argv)
    if isolating:
        print(
            f"ingot run: Python's option {isolating} hides the environment, "
            "through which the program learns that mlx is ingot. Leave it out, "
            "or call ingot.install_as_mlx() in the program.",
            file=sys.stderr,
        )
        return 2
    if _needs_mlx_lm(argv) and PathFinder.find_spec("mlx_lm", [os.getcwd(), *sys.path]) is None:
        print(
            "ingot run: mlx-lm is not installed. "
            f"`{command('pip')} install 'ingot-ml[chat]'` installs it.",
            file=sys.stderr,
        )
        return 1
    try:
        argv = _with_folders(argv)
    except (OSError, ValueError) as error:
        print(f"ingot run: {str(error).removeprefix('[chat] ')}", file=sys.stderr)
        return 1
    if not sys.executable:
        print("ingot run: cannot find the Python interpreter that runs this.", file=sys.stderr)
        return 2
    os.execve(sys.executable, [sys.executable, *argv], environment(checks_nan))


def environment(checks_nan: bool = False) -> dict[str, str]:
    """The environment for a Python in which mlx is ingot and which, if asked to, checks for NaN."""
    startup = os.path.join(os.path.dirname(os.path.abspath(ingot.__file__)), "drop_in", "startup")
    before = os.environ.get("PYTHONPATH")
    folders = [] if not before else before.split(os.pathsep)
    path = [startup, *(folder for folder in folders if folder != startup)]
    check = {"INGOT_DEBUG_NANS": "1"} if checks_nan else {}
    return {**os.environ, **check, "PYTHONPATH": os.pathsep.join(path)}


def command(name: str) -> str:
    """What starts a program of this environment from the shell: its name where the shell finds it,
    else its path, as in a clone whose `.venv` nobody has activated.
    """
    beside = os.path.join(sys.prefix, "bin", name)
    paths = (os.path.join(folder, name) for folder in os.get_exec_path())
    found = next((path for path in paths if os.access(path, os.X_OK)), None)
    if not os.path.exists(beside) or (found and os.path.samefile(found, beside)):
        return name
    relative = os.path.relpath(beside)
    return beside if relative.startswith(os.pardir) else relative


def _needs_mlx_lm(argv: Sequence[str]) -> bool:
    """Whether the program is one of mlx-lm's, as the guide calls them."""
    return list(argv[:1]) == ["-m"] and bool(argv[1:]) and argv[1].partition(".")[0] == "mlx_lm"


def _with_folders(argv: Sequence[str]) -> Sequence[str]:
    """The arguments with folders in place of .gguf files if the program is mlx-lm, which cannot
    read those: each is converted once, as by `ingot chat --model`.
    """
    if not _needs_mlx_lm(argv):
        return argv
    given = []
    for argument in argv:
        option, separator, file = argument.rpartition("=")
        if file.endswith(".gguf") and os.path.isfile(file):
            chat_model = importlib.import_module("ingot.cli.chat_model")
            folder = chat_model.folder_of(pathlib.Path(file))
            print(f"ingot run: {file} is in {folder} in the format of mlx-lm.", file=sys.stderr)
            argument = f"{option}{separator}{folder}"
        given.append(argument)
    return given


def _isolating_option(argv: Sequence[str]) -> str | None:
    """The first of Python's options that makes it ignore the environment."""
    arguments = iter(argv)
    for argument in arguments:
        if argument in ("-", "--") or not argument.startswith("-"):
            return None
        if argument == "--check-hash-based-pycs":
            next(arguments, None)
        if argument.startswith("--"):
            continue
        for position, letter in enumerate(argument[1:], start=2):
            if letter in _ISOLATING:
                return f"-{letter}"
            if letter in _LAST:
                return None
            if letter in _WITH_VALUE:
                if position == len(argument):
                    next(arguments, None)
                break
    return None
