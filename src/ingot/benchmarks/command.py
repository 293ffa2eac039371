"""Compare ingot with the other libraries that are installed, as ratios within one run.

Contenders take turns, each library in its own process, at its defaults, on two CPUs. The best round
of each counts. Peers that are not installed are listed and skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ingot.benchmarks import (
    machine,
    report,
    suite,  # noqa: F401  (enters the benchmarks into the table)
)
from ingot.benchmarks.benchmark import SUBJECT, Benchmark, against_before, chosen
from ingot.benchmarks.result import Result
from ingot.benchmarks.run import FULL, QUICK, run

__all__ = ["add_arguments", "main"]

FORMAT = 1
INTERRUPTED = 130  # as shells count it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `ingot bench`."""
    parser.add_argument("names", nargs="*", help="benchmarks, or prefixes of their names")
    parser.add_argument(
        "--quick", action="store_true", help="fewer and shorter rounds, for a rough idea"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also save all measurements")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and exit")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table at the end")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="measure nothing; show the results that an earlier run saved with --json",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="PYTHON",
        help="compare with the ingot of another interpreter, such as an older checkout's",
    )
    parser.add_argument(
        "--cpus",
        type=int,
        default=2,
        metavar="N",
        help="the number of CPUs to use (default: 2; 0: all)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Runs the selected benchmarks and reports each result as it arrives.

    The command does not fail if a target is missed, only if ingot cannot run a benchmark.
    """
    try:
        benchmarks = chosen(arguments.names)
        if arguments.before is not None:
            if not arguments.before.is_file():
                raise ValueError(f"--before takes a Python interpreter, got {arguments.before}.")
            benchmarks = [against_before(benchmark) for benchmark in benchmarks]
        written = None if arguments.source is None else _read(arguments.source, arguments.names)
    except ValueError as error:
        print(f"ingot bench: {error}", file=sys.stderr)
        return 2
    if arguments.list:
        width = max(len(benchmark.name) for benchmark in benchmarks)
        for benchmark in benchmarks:
            print(f"{benchmark.name:{width}}  {benchmark.title}")
        return 0
    if written is None:
        written = _measure(benchmarks, arguments)
    else:
        _print_beginning(written["machine"])
        for entry in written["benchmarks"]:
            print("\n".join(report.lines(entry)))
    print("\n" + "\n".join(report.closing_lines(written)), flush=True)
    if arguments.json is not None:
        text = json.dumps(written, indent=2, ensure_ascii=False)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    if arguments.markdown:
        print("\n" + report.markdown(written))
    if written["interrupted_before"]:
        return INTERRUPTED
    failed = any("missing" in entry["contenders"][SUBJECT] for entry in written["benchmarks"])
    return 1 if failed else 0


def _measure(benchmarks: list[Benchmark], arguments: argparse.Namespace) -> dict[str, Any]:
    machine.use_cpus(arguments.cpus)
    described = machine.describe()
    _print_beginning(described)
    meter = machine.BusyMeter()
    progress = _Progress(len(benchmarks))
    effort = QUICK if arguments.quick else FULL
    try:
        python = sys.executable if arguments.before is None else str(arguments.before)
        run(benchmarks, effort, progress.say, progress.finished, meter, python)
    except KeyboardInterrupt:
        progress.clear()
        unmeasured = [benchmark.name for benchmark in benchmarks[len(progress.entries) :]]
    else:
        unmeasured = []
    entries = progress.entries
    return {
        "format": FORMAT,
        "quick": arguments.quick,
        "interrupted_before": unmeasured,
        "machine": described,
        "busy": meter.share,
        "benchmarks": entries,
        "worst": report.worst_of_groups(entries),
    }


def _read(path: Path, names: list[str]) -> dict[str, Any]:
    """The results saved by an earlier run, or only those of the named benchmarks."""
    try:
        written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        entries = written["benchmarks"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} cannot be read as what `ingot bench --json` writes: "
            f"{type(error).__name__}: {error}."
        ) from None
    if written.get("format") != FORMAT:
        raise ValueError(f"{path} was written by another version of ingot: measure again.")
    if names:
        written["benchmarks"] = [
            entry for entry in entries if entry["name"].startswith(tuple(names))
        ]
    return written


def _print_beginning(described: dict[str, Any]) -> None:
    print("\n".join(machine.lines(described)))
    print(f"\n{report.LEGEND}\n", flush=True)


class _Progress:
    """A status line at the bottom of the terminal, with results above it."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.entries: list[dict[str, Any]] = []
        self.live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Shows what is being done."""
        if self.live:
            sys.stderr.write(f"\r\033[K[{len(self.entries) + 1}/{self.total}] {text}")
            sys.stderr.flush()

    def finished(self, result: Result) -> None:
        """Prints a result, and tracebacks of what failed in it."""
        self.clear()
        self.entries.append(result.as_json())
        print("\n".join(report.lines(self.entries[-1])), flush=True)
        for contender, details in result.details.items():
            print(f"{result.benchmark.name}, {contender}:\n{details}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Takes the line away."""
        if self.live:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
