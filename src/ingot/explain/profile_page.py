"""The page of a profile: a time line, the time by line of the program, and what ran."""

from __future__ import annotations

from typing import Any

from ingot.explain.limits import machine_limits
from ingot.explain.page import filled, packed
from ingot.runtime.profile.output import Row
from ingot.runtime.profile.profiler import Profile

__all__ = ["profile_html"]


def profile_html(profile: Profile) -> str:
    """The page, which needs nothing besides itself."""
    rows = profile.rows
    numbers = {id(row): number for number, row in enumerate(rows)}
    # What contains others comes first, to be drawn below them.
    spans = sorted(profile.spans, key=lambda span: (span.begin, -span.end))
    threads = list(dict.fromkeys(span.thread for span in spans))
    limits = machine_limits()
    data = {
        "seconds": profile.seconds,
        "compiling": profile.compile_seconds,
        "elsewhere": profile.elsewhere,
        "limits": {"bytes": limits.bytes_per_second, "flops": limits.flops_per_second},
        "rows": [_row(row) for row in rows],
        "threads": [profile.thread_name(thread) for thread in threads],
        "spans": [
            [
                numbers[id(span.row)],
                (span.begin - profile.began) / 1e9,
                (span.end - span.begin) / 1e9,
                threads.index(span.thread),
            ]
            for span in spans
        ],
        "leftOut": profile.spans_left_out,
    }
    return filled("profile.html", DATA=packed(data))


def _row(row: Row) -> dict[str, Any]:
    source = row.sources[0] if row.sources else None
    return row.to_dict() | {
        "lines": row.lines,
        "place": None
        if source is None
        else {
            "file": source.short.rsplit(":", 1)[0],
            "function": source.function,
            "line": source.line,
            "text": source.text,
        },
    }
