"""The output of profiles: rows of a table, as text, and a trace file for Chrome or Perfetto."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.libraries import rich_library
from ingot.graph.reporting.source import Source
from ingot.graph.reporting.tables import amount_text, html_table, text_table, time_text
from ingot.runtime.files.access import write_text

__all__ = ["Row", "Span", "table_html", "table_text", "write_trace"]

KINDS = {
    "kernel": "compiled loops",
    "BLAS": "products of matrices",
    "host": "steps of a program that NumPy or SciPy does",
    "routine": "linear algebra, Fourier transforms, scans and searches in native code",
    "check": "whether indices are within their axes",
    "nested": "loops and branches in the bodies of native loops",
    "op": "ops evaluated one by one",
    "loop": "iterations of native loops, and what is between their kernels",
    "call": "starting programs and giving them memory",
    "compile": "tracing, optimising, machine code",
}
MAX_HTML_ROWS = 100
MAX_LINES = 3  # source lines listed in a row of the table


@dataclass(eq=False)
class Row:
    """All runs of one kernel, BLAS call, host step or op. `nanoseconds` is self time."""

    kind: str
    name: str
    sources: tuple[Source, ...]
    calls: int = 0
    nanoseconds: int = 0
    bytes: int = 0
    flops: int = 0

    @property
    def seconds(self) -> float:
        """The self time."""
        return self.nanoseconds / 1e9

    @property
    def lines(self) -> list[str]:
        """The user's lines, without folders."""
        return [source.short for source in self.sources]

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values."""
        return {
            "kind": self.kind,
            "name": self.name,
            "sources": [str(source) for source in self.sources],
            "calls": self.calls,
            "seconds": self.seconds,
            "bytes": self.bytes,
            "flops": self.flops,
        }


@dataclass(frozen=True)
class Span:
    """One run, for the trace."""

    row: Row
    begin: int
    end: int
    thread: int
    bytes: int
    flops: int


_HEADINGS = ("what", "", "calls", "time", "share", "data", "rate", "lines")
_RIGHT = (False, False, True, True, True, True, True, False)


def _summary(rows: Sequence[Row], seconds: float, elsewhere: float) -> str:
    busy = sum(row.seconds for row in rows if row.kind != "compile")
    compiling = sum(row.seconds for row in rows if row.kind == "compile")
    return (
        f"{time_text(seconds)} in all: {time_text(busy)} running, "
        f"{time_text(compiling)} compiling, "
        f"{time_text(elsewhere)} of this thread elsewhere (Python, building graphs, waiting)"
    )


def table_html(rows: Sequence[Row], seconds: float, elsewhere: float) -> str:
    """The table for notebooks: the rows with the most time."""
    cells = [_cells(row, seconds) for row in rows[:MAX_HTML_ROWS]]
    more = len(rows) - MAX_HTML_ROWS
    summary = _summary(rows, seconds, elsewhere) + (f"; {more} more rows" if more > 0 else "")
    numbers = [column for column, right in enumerate(_RIGHT) if right]
    return html_table(_HEADINGS, cells, summary, numbers)


def table_text(rows: Sequence[Row], seconds: float, elsewhere: float) -> str:
    """The table: drawn by rich on a terminal if it is installed, plain text otherwise."""
    cells = [_cells(row, seconds) for row in rows]
    summary = _summary(rows, seconds, elsewhere)
    rich = rich_library() if sys.stdout.isatty() else None
    if rich is not None:
        return _rich_text(rich, cells, summary)
    headings, *lines = text_table(_HEADINGS, cells, _RIGHT)
    rule = "─" * max(map(len, (headings, *lines)))
    return "\n".join([headings, rule, *lines, summary])


def _cells(row: Row, seconds: float) -> tuple[str, ...]:
    share = f"{100 * row.seconds / seconds:.1f}%" if seconds else ""
    lines = ", ".join(row.lines[:MAX_LINES])
    more = len(row.sources) - MAX_LINES
    return (
        row.kind,
        row.name,
        f"{row.calls:,}",
        time_text(row.seconds),
        share,
        amount_text(row.bytes, "B") if row.bytes else "",
        _rate(row),
        lines + (f" +{more}" if more > 0 else ""),
    )


def _rate(row: Row) -> str:
    if not row.nanoseconds:
        return ""
    if row.flops:
        return amount_text(row.flops / row.seconds, "flop/s")
    return amount_text(row.bytes / row.seconds, "B/s") if row.bytes else ""


def _rich_text(rich: Any, cells: Sequence[Sequence[str]], summary: str) -> str:
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for heading, right in zip(_HEADINGS, _RIGHT, strict=True):
        style = {"time": "bold", "lines": "cyan", "what": "dim"}.get(heading)
        justify = "right" if right else "left"
        table.add_column(heading, justify=justify, style=style, no_wrap=right)
    for line in cells:
        table.add_row(*map(rich.markup.escape, line))
    console = rich.console.Console()
    with console.capture() as captured:
        console.print(table)
        console.print(summary, highlight=False)
    text: str = captured.get()
    return text.rstrip("\n")


def write_trace(
    file: Any, spans: Sequence[Span], threads: dict[int, str], begin: int, left_out: int
) -> None:
    """Write the spans in the trace event format; times are microseconds since `begin`."""
    process = os.getpid()
    numbers = {thread: number for number, thread in enumerate(threads)}
    events: list[dict[str, Any]] = [
        {
            "name": "thread_name",
            "ph": "M",
            "pid": process,
            "tid": numbers[thread],
            "args": {"name": name},
        }
        for thread, name in threads.items()
    ]
    for span in spans:
        details = {"lines": [str(source) for source in span.row.sources]}
        if span.bytes:
            details |= {"bytes": span.bytes}  # type: ignore[dict-item]
        if span.flops:
            details |= {"flops": span.flops}  # type: ignore[dict-item]
        events.append(
            {
                "name": span.row.name,
                "cat": span.row.kind,
                "ph": "X",
                "pid": process,
                "tid": numbers[span.thread],
                "ts": (span.begin - begin) / 1e3,
                "dur": (span.end - span.begin) / 1e3,
                "args": details,
            }
        )
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"left_out": left_out}}
    write_text("Profile.save_trace", file, json.dumps(trace))
