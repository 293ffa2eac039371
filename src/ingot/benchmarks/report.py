"""Results as text for the terminal and as a Markdown table, both made from what `--json` writes."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import geometric_mean
from typing import Any

from ingot.benchmarks import machine
from ingot.benchmarks.benchmark import NO_SUCH, SUBJECT, library_of

__all__ = ["LEGEND", "closing_lines", "lines", "markdown", "worst_of_groups"]

Entry = dict[str, Any]

LEGEND = "ratio: ingot's number divided by the other's, so less is better"

_UNITS = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
}
# The columns of the Markdown table, by the libraries in them; limits are in the last one.
_COLUMNS = {"MLX": ("mlx",), "JAX": ("jax",), "PyTorch": ("torch",)}
_OTHERS = "others and limits"
_PEERS = ("mlx", "jax", "torch", "faiss")


def lines(entry: Entry) -> list[str]:
    """One benchmark: ingot's number, and how it compares. Of a group's, only the best peer."""
    ours = entry["contenders"][SUBJECT]
    if "missing" in ours:
        rows = [_row(row, entry["unit"]) for row in entry["comparisons"]]
        return [f"{entry['title']}", f"    {SUBJECT:<24}{ours['missing']}", *rows]
    number = _amount(ours["best"], entry["unit"])
    rows = [_row(row, entry["unit"]) for row in _shown(entry)]
    return [f"{entry['title']:<70}{number:>10}", *rows]


def worst_of_groups(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """For each group of benchmarks: how many there are, and the worst ratio against the best peer,
    with the benchmark and the peer that it belongs to."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry["group"] is not None:
            groups.setdefault(entry["group"], []).append(entry)
    summaries = []
    for group, members in groups.items():
        found = [(entry, row) for entry in members if (row := _hardest(entry)) is not None]
        if found:
            entry, row = max(found, key=lambda pair: _excess(pair[1]))
            summaries.append({"group": group, "count": len(found), "title": entry["title"], **row})
    return summaries


def closing_lines(report: dict[str, Any]) -> list[str]:
    """The summary after all benchmarks: worst of each group, targets, failures, missing peers."""
    entries = report["benchmarks"]
    said = []
    if skipped := report["interrupted_before"]:
        said.append(f"interrupted: {len(skipped)} benchmarks, from {skipped[0]} on, did not run")
    for worst in worst_of_groups(entries):
        said.append(
            f"worst of {worst['count']} {worst['group']} against the best peer: "
            f"{worst['ratio']:.3g} ({worst['title']}, {worst['against']})"
        )
    said.extend(_overall(entries))
    judged = [row for entry in entries for row in entry["comparisons"] if row["target"] is not None]
    missed = [row for row in judged if row["met"] is False]
    unknown = [row for row in judged if row["met"] is None]
    if judged:
        met = len(judged) - len(missed) - len(unknown)
        said.append(
            f"targets: {met} met, {len(missed)} missed, {len(unknown)} not judged for lack of "
            "a number"
        )
    for entry in entries:
        for row in _shown(entry):
            if row["met"] is False:
                said.append(f"    {_verdict(row)}: {entry['title']}, against {row['against']}")
    failures, absent = _missing(entries)
    for title, contender, reason in failures:
        said.append(f"failure: {title}, {contender}: {reason}")
    if absent:
        said.append(
            f"not installed and not measured: {', '.join(absent)} "
            "(`pip install 'ingot-ml[bench]'` has the peers)"
        )
    busy = machine.busy_line(report["busy"])
    return said if busy is None else [*said, busy]


def markdown(report: dict[str, Any]) -> str:
    """The table of ratios for a README, below a line about the machine."""
    described = report["machine"]
    installed = [
        f"{name} {version}"
        for name, version in described["versions"].items()
        if version is not None and name in ("ingot", "mlx", "jax", "torch", "faiss-cpu", "numpy")
    ]
    header = ["work", SUBJECT, *_COLUMNS, _OTHERS]
    rows = [_markdown_row(entry) for entry in report["benchmarks"] if entry["group"] is None]
    for worst in worst_of_groups(report["benchmarks"]):
        title = f"worst of {worst['count']} {worst['group']}: {worst['title']}"
        rows.append(_cells(title, "", [worst]))
    table = [header, ["---"] * len(header), *rows]
    return "\n".join(
        [
            f"{described['processor']}, {described['usable_cpus']} CPUs; {', '.join(installed)}. "
            "Each cell is ingot's time (or memory) divided by the other's, in brackets the target; "
            "missed ones are bold.",
            "",
            *("| " + " | ".join(row) + " |" for row in table),
        ]
    )


def _markdown_row(entry: Entry) -> list[str]:
    best = entry["contenders"][SUBJECT].get("best")
    number = "failed" if best is None else _amount(best, entry["unit"])
    return _cells(entry["title"], number, entry["comparisons"])


def _cells(title: str, number: str, comparisons: list[dict[str, Any]]) -> list[str]:
    cells: dict[str, list[str]] = {name: [] for name in (*_COLUMNS, _OTHERS)}
    for row in comparisons:
        library = library_of(row["against"])
        column = next((name for name, has in _COLUMNS.items() if library in has), _OTHERS)
        if row["ratio"] is None:
            continue
        text = f"{row['ratio']:.2g}"
        if row["met"] is False:
            text = f"**{text}**"
        if row["target"] is not None:
            text += f" (≤ {row['target']:.2g})"
        if column == _OTHERS or len(row["against"].split()) > 2:
            text = f"{row['against']} {text}"
        cells[column].append(text)
    return [title, number, *(", ".join(texts) or "-" for texts in cells.values())]


def _row(row: dict[str, Any], unit: str) -> str:
    start = f"    {row['against']:<24}"
    if row["missing"] is not None:
        return start + row["missing"]
    text = f"{start}{_amount(row['theirs'], unit):>10}"
    if row["ratio"] is not None:
        text += f"   ratio {row['ratio']:<8.3g}"
    if row["target"] is not None:
        text += f" target {row['target']:<6.3g} {_verdict(row)}"
    return text.rstrip()


def _verdict(row: dict[str, Any]) -> str:
    if row["met"] is None:
        return "not judged"
    if row["met"]:
        return "met"
    return f"MISSED by {row['ratio'] / row['target'] - 1:.0%}"


def _shown(entry: Entry) -> list[dict[str, Any]]:
    """The comparisons to print: of a group's benchmarks the best peer and what is missing."""
    rows: list[dict[str, Any]] = entry["comparisons"]
    if entry["group"] is None:
        return rows
    hardest = _hardest(entry)
    return [row for row in rows if row is hardest or row["missing"] is not None]


def _excess(row: dict[str, Any]) -> float:
    ratio: float = row["ratio"]
    return ratio


def _hardest(entry: Entry) -> dict[str, Any] | None:
    """The comparison with the best peer; None where there is none to compare with."""
    rows = [row for row in entry["comparisons"] if row["ratio"] is not None]
    return max(rows, key=_excess) if rows else None


def _overall(entries: Iterable[Entry]) -> list[str]:
    """The mean and the worst ratio to the best other library, over the benchmarks that have one."""
    found: list[tuple[float, str, str]] = []
    for entry in entries:
        rows = [
            row
            for row in entry["comparisons"]
            if row["ratio"] and library_of(row["against"]) in _PEERS
        ]
        if rows:
            row = max(rows, key=_excess)
            found.append((row["ratio"], entry["title"], row["against"]))
    if not found:
        return []
    mean = geometric_mean(ratio for ratio, _, _ in found)
    worst, title, against = max(found)
    return [
        f"against the best peer of each of {len(found)}: geometric mean {mean:.3g}, "
        f"worst {worst:.3g} ({title}, {against})"
    ]


def _missing(entries: Iterable[Entry]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """What failed and why, and which libraries are not installed."""
    failures = []
    absent: dict[str, None] = {}
    for entry in entries:
        for contender, numbers in entry["contenders"].items():
            if numbers.get("missing") == "not installed":
                absent[library_of(contender)] = None
            elif numbers.get("missing", NO_SUCH) != NO_SUCH:
                failures.append((entry["title"], contender, numbers["missing"]))
    return failures, list(absent)


def _amount(number: float, unit: str) -> str:
    for size, name in _UNITS[unit]:
        if number >= 0.9995 * size:  # what is rounded to 1000 is 1 of the next unit
            return f"{number / size:.3g} {name}"
    size, name = _UNITS[unit][-1]
    return f"{number / size:.3g} {name}"
