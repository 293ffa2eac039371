"""Small tables, as text and as HTML, and units for the values in them.

Cells may contain text from users, such as names and reasons, so everything is escaped in HTML.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ingot.graph.deferred import Deferred

if TYPE_CHECKING:
    import html
else:
    html = Deferred("html")

__all__ = ["amount_text", "html_table", "text_table", "time_text"]

_CELL = "padding:2px 10px;white-space:pre-wrap"


def text_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]
) -> list[str]:
    """The table as lines of text; `right` lists the right-aligned columns."""
    lines = [tuple(headings), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return [_aligned(line, widths, right) for line in lines]


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if at_right else cell.ljust(width)
        for cell, width, at_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def html_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    numbers: Collection[int] = (),
) -> str:
    """A table for notebooks; the columns in `numbers` are right-aligned."""

    def line(tag: str, cells: Sequence[str]) -> str:
        made = (
            f'<{tag} style="{_CELL};text-align:{"right" if column in numbers else "left"}">'
            f"{html.escape(cell)}</{tag}>"
            for column, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    head = f"<thead>{line('th', headings)}</thead>"
    body = f"<tbody>{''.join(line('td', row) for row in rows)}</tbody>"
    title = f'<caption style="text-align:left">{html.escape(caption)}</caption>' if caption else ""
    return f"<table>{title}{head}{body}</table>"


def time_text(seconds: float) -> str:
    """A time with a suitable unit."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def amount_text(number: float, unit: str) -> str:
    """A number with its unit and a suitable prefix."""
    for scale, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= scale:
            return f"{number / scale:.3g} {letter}{unit}"
    return f"{number:.0f} {unit}"
