"""The command: `python -m benchmarks [names] [--quick] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks import machine, report, suite
from benchmarks.benchmark import chosen
from benchmarks.run import FULL, QUICK, Result, run


def main(arguments: list[str] | None = None) -> int:
    """Runs what is asked for and reports as it goes. Missed targets are no failure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=suite.__doc__)
    parser.add_argument("names", nargs="*", help="benchmarks, or beginnings of their names")
    parser.add_argument("--quick", action="store_true", help="few short rounds: a rough idea")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there, too")
    parser.add_argument("--list", action="store_true", help="say what there is and end")
    options = parser.parse_args(arguments)
    try:
        benchmarks = chosen(options.names)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        for benchmark in benchmarks:
            print(f"{benchmark.name:<20}{benchmark.title}")
        return 0
    described = machine.describe()
    print("\n".join(machine.lines(described)), flush=True)
    results = run(benchmarks, QUICK if options.quick else FULL, _show_progress, _show_result)
    if options.json is not None:
        text = json.dumps(report.as_json(described, results), indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def _show_result(result: Result) -> None:
    _show_progress("")
    print("\n" + "\n".join(report.lines(result)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
