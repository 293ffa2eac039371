"""Writes the measurements of the README's table of speeds.

    ingot bench --json numbers.json $(python tools/speed_table.py --list)
    .venv/bin/python tools/speed_table.py numbers.json

A row of the table keeps its words and the name of its benchmark; everything between them is written
anew. Rows that were not measured stay as they are. `make speed` measures, and writes the table and
the picture.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from pathlib import Path
from typing import Any

from speed_picture import LIBRARIES, factors_of

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- speed: begin (written by `make speed`) -->\n", "<!-- speed: end -->\n"
WIDTH = 120
COLUMNS = ("mlx", "jax", "torch")  # of their own; the others share one
_ROW = re.compile(r"^\| (?P<work>[^|]*) \|.*\| `(?P<name>\w+)` \|$", re.MULTILINE)
_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def names_in(text: str) -> list[str]:
    """The benchmarks of the table."""
    return [match["name"] for match in _ROW.finditer(text)]


def time_text(seconds: float) -> str:
    """A time with three significant digits."""
    unit, scale = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"


def factor_text(factor: float) -> str:
    """How many times faster: two significant digits, or two decimals near 1."""
    if factor >= 10:
        return f"{factor:.0f}"
    if factor < 0.95:
        return f"{factor:.2g}"
    return f"{factor:.2f}" if factor < 1.05 else f"{factor:.1f}"


def row_text(work: str, name: str, contenders: dict[str, Any]) -> str:
    """A row of the table."""
    ours = contenders["ingot"]["best"]
    factors = factors_of(contenders)
    best = f"**{factor_text(min(factors.values()))}**" if factors else ""
    cells = [work, time_text(ours), best]
    cells += [factor_text(factors[key]) if key in factors else "" for key in COLUMNS]
    others = [
        f"{factor_text(factor)} {LIBRARIES[key][0]}"
        for key, factor in factors.items()
        if key not in COLUMNS
    ]
    copied = contenders.get("numpy memcpy", {}).get("best")
    others += [f"{factor_text(copied / ours)} memcpy"] if copied else []
    return f"| {' | '.join([*cells, ', '.join(others)])} | `{name}` |"


def conditions(numbers: dict[str, Any]) -> str:
    """On what it was measured, and with which versions."""
    machine = numbers["machine"]
    versions = machine["versions"]
    shown = (("mlx", "mlx", " (CPU)"), ("jax", "jax", ""), ("torch", "torch", ""))
    shown += (("numpy", "NumPy", ""), ("faiss-cpu", "faiss-cpu", ""))
    libraries = ", ".join(
        f"{name} {versions[key].partition('+')[0]}{note}"
        for key, name, note in shown
        if versions.get(key)
    )
    cores, gibibytes = machine["usable_cpus"], round(machine["memory_bytes"] / 2**30)
    command = "`ingot bench --quick`" if numbers["quick"] else "`ingot bench`"
    text = (
        f"Measured with {command} on {cores} cores of an {machine['processor']} ({gibibytes} GiB, "
        f"Linux), each library at its defaults with {cores} threads: {libraries}. jax and torch "
        "compile (`jit`, `torch.compile`) where ingot does. memcpy copies the same number of bytes "
        "on the same threads."
    )
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def rewritten(text: str, numbers: dict[str, Any]) -> str:
    """The README with these measurements."""
    before, begin, rest = text.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} has no part between {BEGIN.strip()} and {END.strip()}.")
    found = {benchmark["name"]: benchmark["contenders"] for benchmark in numbers["benchmarks"]}
    table = inside[inside.index("| work") :]

    def row(match: re.Match[str]) -> str:
        contenders = found.get(match["name"], {})
        is_measured = bool(contenders.get("ingot", {}).get("best"))
        return row_text(match["work"], match["name"], contenders) if is_measured else match[0]

    return f"{before}{begin}{conditions(numbers)}\n\n{_ROW.sub(row, table)}{end}{after}"


def main() -> None:
    """Reads measurements and rewrites the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", type=Path, nargs="?", help="what `ingot bench --json` wrote")
    parser.add_argument("readme", type=Path, nargs="?", default=README)
    parser.add_argument("--list", action="store_true", help="print the benchmarks it shows")
    options = parser.parse_args()
    text = options.readme.read_text()
    if options.list or options.numbers is None:
        print(*names_in(text))
        return
    options.readme.write_text(rewritten(text, json.loads(options.numbers.read_text())))


if __name__ == "__main__":
    main()
