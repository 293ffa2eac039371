"""The tour's output: chapters, code, bars and progress, in colour or as plain text.

Colours, boxes and the spinner are for terminals. Elsewhere, and if NO_COLOR is set, the same
content is printed as plain lines.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

__all__ = ["Bar", "Screen"]

WIDTH = 100
BAR_WIDTH = 46
# Blocks that fill one eighth of a cell, two eighths, ...
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Bar:
    """A row of a chart."""

    label: str
    milliseconds: float
    style: str = "grey58"
    note: str = ""


class Screen:
    """The output of the chapters."""

    def __init__(self, *, record: bool = False) -> None:
        plain = not record and ("NO_COLOR" in os.environ or not sys.stdout.isatty())
        self.rich = not plain
        if plain:
            self.console = Console(
                width=WIDTH, force_terminal=False, color_system=None, highlight=False
            )
        elif record:
            self.console = Console(
                width=WIDTH,
                record=True,
                force_terminal=True,
                color_system="truecolor",
                highlight=False,
                no_color=False,
            )
        else:
            self.console = Console(highlight=False)
            self.console.width = min(self.console.width, WIDTH)
        self.animated = self.rich and not record

    def chapter(self, number: int, count: int, title: str) -> None:
        self.console.print()
        heading = f"{number} of {count}  {title}"
        if self.rich:
            self.console.print(Rule(f"[bold cyan]{heading}", align="left", style="cyan"))
        else:
            self.console.print(f"== {heading} ==")
        self.console.print()

    def say(self, text: str) -> None:
        """Prints a paragraph, with rich's markup."""
        self._wrapped(Text.from_markup(text), 2)

    def code(self, function: Callable[..., Any]) -> None:
        """Prints the source of a function with its line numbers."""
        lines, start = inspect.getsourcelines(inspect.unwrap(function))
        text = textwrap.dedent("".join(lines)).rstrip()
        if self.rich:
            self._highlighted(text, start)
        else:
            for number, line in enumerate(text.splitlines(), start):
                self.console.print(f"  {number:3}  {line}".rstrip(), markup=False)
        self.blank()

    def lines(self, text: str, language: str = "python") -> None:
        """Prints code that is not a function of a file."""
        if self.rich:
            self._highlighted(text, None, language)
        else:
            for line in text.splitlines():
                self.console.print(f"       {line}".rstrip(), markup=False, soft_wrap=True)

    def _highlighted(self, text: str, start: int | None, language: str = "python") -> None:
        syntax = Syntax(
            text,
            language,
            theme="ansi_dark",
            background_color="default",
            line_numbers=start is not None,
            start_line=start or 1,
            word_wrap=True,
        )
        self.console.print(Padding(syntax, (0, 2, 0, 2 if start is not None else 7)))

    def output(self, text: str, style: str = "green") -> None:
        """Prints the output of a program."""
        for line in text.splitlines():
            self._wrapped(Text(line, style=style), 7)

    def _wrapped(self, text: Text, indent: int) -> None:
        if self.rich:
            self.console.print(Padding(text, (0, 2, 0, indent)))
            return
        for line in text.wrap(self.console, WIDTH - indent):
            self.console.print(f"{' ' * indent}{line.plain}".rstrip(), markup=False)

    def blank(self) -> None:
        self.console.print()

    def bars(self, rows: Sequence[Bar]) -> None:
        """Draws times as bars, the shortest first, each with its ratio to the shortest."""
        rows = sorted(rows, key=lambda row: row.milliseconds)
        longest = rows[-1].milliseconds
        label_width = max(len(row.label) for row in rows)
        bar_width = max(4, min(BAR_WIDTH, self.console.width - label_width - 26))
        for row in rows:
            cells = row.milliseconds / longest * bar_width
            whole = int(cells)
            part = EIGHTHS[int((cells - whole) * 8)]
            bar = ("█" * whole + part)[:bar_width].ljust(bar_width)
            line = Text("  ")
            line.append(f"{row.label:<{label_width}}  ", style=f"bold {row.style}")
            line.append(bar, style=row.style)
            line.append(f" {_time(row.milliseconds):>9}", style="bold")
            line.append(f"  {row.note}".rstrip(), style="dim")
            self.console.print(line if self.rich else line.plain.rstrip(), markup=False)

    def picture(self, rows: Sequence[Sequence[float]]) -> None:
        """Draws values from 0 to 1 as a picture: two rows of pixels per line of text, or shades."""
        if not self.rich:
            shades = " ░▒▓█"
            for row in rows[::2]:
                text = "".join(shades[min(int(value * 5), 4)] for value in row)
                self.console.print(f"  {text}".rstrip(), markup=False)
            return
        for upper, lower in zip(rows[::2], rows[1::2], strict=True):
            line = Text("  ")
            for above, below in zip(upper, lower, strict=True):
                line.append("▀", style=f"{_colour(above)} on {_colour(below)}")
            self.console.print(line)

    @contextmanager
    def working(self, what: str) -> Iterator[Callable[[str], None]]:
        """Shows what is being done meanwhile; call the value to change that."""
        if self.animated:
            with self.console.status(f"[dim]{escape(what)} ...") as status:
                yield lambda text: status.update(f"[dim]{escape(text)} ...")
        else:
            yield lambda text: None

    def save_svg(self, path: Path) -> None:
        """Saves everything printed as a self-contained SVG."""
        svg = self.console.export_svg(title="ingot tour")
        # rich refers to a web font; use the viewer's own monospaced font instead.
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S), encoding="utf-8")


def _time(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds:.3g} ms" if milliseconds >= 1 else f"{milliseconds * 1000:.0f} µs"


def _colour(value: float) -> str:
    """A colour between blue (0), dark and orange (1)."""
    low, middle, high = (56, 132, 255), (18, 18, 24), (255, 150, 50)
    end, amount = (low, 1 - 2 * value) if value < 0.5 else (high, 2 * value - 1)
    mixed = [round(m + (e - m) * amount) for m, e in zip(middle, end, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)
