"""Show how a function of a script is compiled.

The script runs as under `ingot run` until it calls the function, and that call is explained. A
function that the script does not compile is compiled for the occasion. With --args the script is
only imported, not run as a program, and the function is explained for the given arguments.
What the script itself prints goes to standard error.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from ingot.cli.watch import ScriptError, explain_call, explain_with
from ingot.compiler.pipeline import PASSES

STAGES = ("trace", *(each.name for each in PASSES))
SECTIONS = ("program", "memory", "cache")
CODES = ("loops", "llvm", "assembly")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="SCRIPT::FUNCTION", help="for example train.py::step")
    # For the help alone, see `parse`. The default keeps argparse from reporting them as required.
    parser.add_argument(
        "arguments", nargs="*", default=[], help="arguments of the script, after --"
    )
    parser.add_argument(
        "--args",
        metavar="EXPRESSIONS",
        help="arguments for the function, evaluated in the script: 'mx.ones((3, 4)), axis=0'",
    )
    parser.add_argument(
        "--call", type=int, default=1, metavar="N", help="explain the Nth call (default: the first)"
    )
    parser.add_argument("--html", metavar="FILE", help="write the explain page to FILE")
    parser.add_argument(
        "--stage",
        type=lambda name: name.replace("-", " "),
        choices=(*STAGES, *SECTIONS, *CODES),
        help="print the output of one compiler pass, one section of the report, or the kernels "
        "as loops, LLVM code or machine code",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """The command line; what follows `--` belongs to the script as it is. argparse would refuse it
    after an option: it takes all positional arguments where the first one is."""
    end = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:end])
    arguments.arguments = arguments.arguments + argv[end + 1 :]
    return arguments


def main(arguments: argparse.Namespace) -> int:
    try:
        report = _report(arguments)
    except ScriptError as problem:
        print(f"ingot explain: {problem}", file=sys.stderr)
        return problem.code
    except Exception as error:
        # raised by the script or by compilation: the traceback helps in both cases
        traceback.print_exception(error)
        print(f"ingot explain: {arguments.target} could not be explained.", file=sys.stderr)
        return 1
    if arguments.html:
        try:
            report.to_html(arguments.html)
        except OSError as error:
            print(f"ingot explain: cannot write the page: {error}", file=sys.stderr)
            return 1
        print(f"wrote {arguments.html}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(report.to_dict()))
    elif arguments.stage:
        print(_stage(report, arguments.stage))
    elif not arguments.html:
        print(report)
    return 0


def _report(arguments: argparse.Namespace) -> Any:
    path, separator, function = arguments.target.partition("::")
    script = Path(path)
    if arguments.call < 1:
        raise ScriptError(f"calls are counted from 1, got --call {arguments.call}.")
    if not script.is_file():
        file, _, name = path.partition(":")
        if name and Path(file).is_file():
            raise ScriptError(f"write two colons before the function: {file}::{name}.")
        raise ScriptError(f"there is no file {path}.")
    if not separator or not function:
        there = _functions(script)
        example = f"{path}::{there[-1] if there else 'step'}"
        known = f" It defines {', '.join(there)}." if there else ""
        raise ScriptError(f"say which function to explain, for example {example}.{known}")
    with contextlib.redirect_stdout(sys.stderr):
        if arguments.args is not None:
            return explain_with(script, function, arguments.args, arguments.arguments)
        return explain_call(script, function, arguments.call, arguments.arguments)


def _functions(script: Path) -> list[str]:
    """The functions that a script defines, without running it."""
    try:
        tree = ast.parse(script.read_bytes())
    except (SyntaxError, ValueError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def _stage(report: Any, stage: str) -> str:
    if stage not in CODES:
        return str(report.section(stage))
    texts = [
        f"; {work.kind} {position}: {work.name}\n{report.kernel_text(work, stage)}"
        for position, work in enumerate(report.work)
        if work.kernel is not None
    ]
    return "\n\n".join(texts) or "There are no kernels."
