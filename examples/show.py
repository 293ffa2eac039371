"""What the examples share: command-line options, a progress bar and pictures.

None of this is specific to ingot; read the other programs in this folder instead.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ingot.core as mx

try:
    import matplotlib
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}. The examples need: pip install 'ingot-ml[examples]'") from None

__all__ = ["Options", "options", "print_curve", "print_images", "rounds", "save", "say", "verdict"]

SHADES = " ░▒▓█"
HEIGHTS = "▁▂▃▄▅▆▇█"
# The number of progress lines if the output is not a terminal.
PLAIN_LINES = 10

console = Console(highlight=False)


@dataclass(frozen=True)
class Options:
    """The command-line options."""

    rounds: int  # epochs or steps
    full: bool  # at least the default number: the goal must be reached
    seed: int
    picture: Path


def options(
    arguments: Sequence[str] | None, script: str, about: str | None, **defaults: tuple[int, int]
) -> Options:
    """The command line; `epochs=(40, 2)` makes an option `--epochs`, and `--quick` means 2."""
    ((unit, (many, few)),) = defaults.items()
    picture = Path(script).with_suffix(".png")
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(f"--{unit}", type=int, dest="rounds", help=f"how many; {many} by default")
    parser.add_argument("--quick", action="store_true", help=f"{few} {unit}: to see that it runs")
    parser.add_argument("--no-compile", action="store_true", help="train without mx.compile")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers; 0 by default")
    parser.add_argument("--picture", type=Path, default=picture, help=f"else {picture.name}")
    given = parser.parse_args(arguments)
    count = given.rounds if given.rounds is not None else few if given.quick else many
    if count < 1:
        parser.error(f"--{unit} must be at least 1, not {count}.")
    if given.no_compile:
        mx.disable_compile()
    return Options(count, count >= many, given.seed, given.picture)


def say(text: str = "") -> None:
    """Prints a line."""
    console.print(text, markup=False, soft_wrap=True)


def rounds(unit: str, count: int, losses: list[float]) -> Iterator[int]:
    """Counts the rounds of a training with a progress bar that shows the last of `losses`."""
    started = time.perf_counter()
    if console.is_terminal:
        with Progress(
            TextColumn(unit),
            BarColumn(bar_width=40),
            TaskProgressColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[loss]}"),
            TimeRemainingColumn(),
            console=console,
        ) as bar:
            task = bar.add_task(unit, total=count, loss="")
            for number in range(count):
                yield number
                bar.update(task, advance=1, loss=f"loss {losses[-1]:.3f}")
    else:
        for number in range(count):
            yield number
            if (number + 1) * PLAIN_LINES // count > number * PLAIN_LINES // count:
                say(f"{unit} {number + 1:4} of {count}   loss {losses[-1]:.3f}")
    say(f"{count} {unit}s in {time.perf_counter() - started:.1f} s")


def print_images(images: np.ndarray, captions: Sequence[str] = ()) -> None:
    """Prints images with values from 0 to 1 side by side, two characters per pixel."""
    levels = np.clip(np.asarray(images) * len(SHADES), 0, len(SHADES) - 1).astype(int)
    width = 2 * levels.shape[2]
    for row in range(levels.shape[1]):
        say(
            "  " + "  ".join("".join(2 * SHADES[level] for level in image[row]) for image in levels)
        )
    if captions:
        say("  " + "  ".join(caption.center(width) for caption in captions))


def print_curve(losses: Sequence[float], width: int = 60) -> None:
    """Prints the losses as a bar chart, each bar the mean of an equal share of the training."""
    parts = np.array_split(np.asarray(losses), min(width, len(losses)))
    means = np.array([part.mean() for part in parts])
    span = means.max() - means.min()
    levels = (means - means.min()) / (span if span > 0 else 1) * (len(HEIGHTS) - 1)
    bars = "".join(HEIGHTS[round(level)] for level in levels)
    say(f"  loss {losses[0]:.3f} {bars} {losses[-1]:.3f}")


def save(figure: Figure, path: Path) -> None:
    """Saves the picture and prints its path."""
    figure.savefig(path, dpi=120, bbox_inches="tight")
    say(f"picture: {path}")


def verdict(goal: str, reached: bool, full: bool) -> int:
    """The exit code: nonzero if a full training missed its goal."""
    if reached:
        say(f"goal reached: {goal}")
        return 0
    say(f"{'MISSED' if full else 'not reached in this short training'}: {goal}")
    return 1 if full else 0


# Pictures go to files: no window, so that the examples run anywhere.
matplotlib.use("Agg")
