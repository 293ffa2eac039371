"""A one-minute tour of ingot: compile a function, look at its kernel, race it against other
libraries, and train a network. Every number is measured while you watch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ingot.core as mx
from ingot import __version__
from ingot.cli.run import command
from ingot.cli.tour_chapters import (
    explain_error,
    explain_kernel,
    explain_misses,
    show_compiled,
    show_function,
)
from ingot.cli.tour_chat import can_talk, talk
from ingot.cli.tour_race import run_race
from ingot.cli.tour_screen import Screen
from ingot.cli.tour_training import train

__all__ = ["CHAPTERS", "add_arguments", "available", "main"]

Chapter = tuple[str, Callable[[Screen, bool], None]]

CHAPTERS: dict[str, Chapter] = {
    "function": ("A function", show_function),
    "compiled": ("The same, compiled", show_compiled),
    "kernel": ("What it became", explain_kernel),
    "race": ("The race", run_race),
    "again": ("Compiled again, and why", explain_misses),
    "error": ("A mistake, explained", explain_error),
    "training": ("A training step, before and after", train),
    "chat": ("A language model", talk),
}


def available() -> list[str]:
    """The available chapters; the one on the language model needs a model."""
    return [name for name in CHAPTERS if name != "chat" or can_talk()]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ingot tour`."""
    parser.add_argument(
        "chapters",
        nargs="*",
        metavar="CHAPTER",
        help=f"one or more of {', '.join(CHAPTERS)} (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that it runs")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="also write the screen to an SVG file"
    )


def main(arguments: argparse.Namespace) -> int:
    """Shows the chapters; returns the exit code."""
    unknown = [name for name in arguments.chapters if name not in CHAPTERS]
    if unknown:
        known = ", ".join(CHAPTERS)
        print(f"ingot tour: unknown chapter {unknown[0]!r}; choose from {known}.", file=sys.stderr)
        return 2
    if "chat" in arguments.chapters and not can_talk():
        print(
            "ingot tour: no language model is installed; `ingot chat` downloads one.",
            file=sys.stderr,
        )
        return 1
    chosen = [name for name in available() if name in arguments.chapters or not arguments.chapters]
    screen = Screen(record=arguments.svg is not None)
    try:
        _tell(screen, chosen, arguments.quick)
    except KeyboardInterrupt:
        screen.say("\nThe tour was interrupted.")
        return 130
    if arguments.svg is not None:
        screen.save_svg(arguments.svg)
        print(f"written: {arguments.svg}")
    return 0


def _tell(screen: Screen, chosen: list[str], quick: bool) -> None:
    started = time.perf_counter()
    screen.say(
        f"[bold]ingot {__version__}[/bold]: array programs with MLX's API, on the CPU you have "
        f"({mx.get_num_threads()} threads)"
    )
    for number, name in enumerate(chosen, 1):
        title, tell = CHAPTERS[name]
        screen.chapter(number, len(chosen), title)
        tell(screen, quick)
    screen.blank()
    ingot = command("ingot")
    screen.say(
        f"[dim]The tour took {time.perf_counter() - started:.0f} s.[/dim] Next: "
        f"[bold]{ingot} run your_mlx_program.py[/bold], [bold]{ingot} tour race[/bold] for one "
        f"chapter, [bold]{ingot} chat[/bold] to talk to a language model, examples/README.md for "
        "programs that train, README.md for everything else."
    )
