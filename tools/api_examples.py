"""The examples of public names: one cell for each in docs/api_examples, shown on the API pages.

A file begins with what its cells share, and each cell with `# %% name`, so that editors run them
one by one. What a line prints stands below it as a comment:

    python tools/api_examples.py [--mlx] [--fill] FILES

runs the cells and names every line that prints something else. `--mlx` runs them with MLX instead,
leaving out what it does not have, and `--fill` writes what was printed below the lines.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "api_examples"

_CELL = re.compile(r"^# %% (\w+)$", re.MULTILINE)
_PROMISE = re.compile(r"^ *print\(.*\)\n *# (?P<printed>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """The example of one name: its code, and the number of the line in the file where it begins."""

    name: str
    code: str
    line: int

    def promises(self) -> dict[int, str]:
        """What lines say they print, by number in the file."""
        return {
            self.line + self.code.count("\n", 0, match.start()): match["printed"]
            for match in _PROMISE.finditer(self.code)
        }


def files(page: str) -> list[Path]:
    """The files with the examples of an API page."""
    folder = FOLDER / page
    return sorted(folder.glob("*.py")) if folder.is_dir() else [FOLDER / f"{page}.py"]


def cells(text: str) -> tuple[str, list[Cell]]:
    """What the cells of a file share, and the cells."""
    starts = list(_CELL.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    found = [
        Cell(
            start[1],
            text[start.end() + 1 : end].rstrip() + "\n",
            text.count("\n", 0, start.end()) + 2,
        )
        for start, end in zip(starts, ends, strict=True)
    ]
    return text[: starts[0].start()], found


def examples(page: str) -> dict[str, str]:
    """The example of each name of a page."""
    parts = [cells(path.read_text())[1] for path in files(page) if path.exists()]
    return {cell.name: cell.code for part in parts for cell in part}


@contextlib.contextmanager
def _recorded(path: Path) -> Iterator[dict[int, str]]:
    """What is printed by lines of a file, by their numbers."""
    printed: dict[int, str] = {}
    genuine = builtins.print

    def record(*values: object, **options: Any) -> None:
        frame = sys._getframe(1)
        if frame.f_code.co_filename == str(path):
            text = " ".join(map(str, values))
            printed[frame.f_lineno] = text.replace("mlx.core.", "ingot.core.")
        else:
            genuine(*values, **options)

    builtins.print = record
    try:
        yield printed
    finally:
        builtins.print = genuine


def run(path: Path, shared: str, cell: Cell) -> dict[int, str]:
    """What the lines of a cell print, by their numbers in the file."""
    variables: dict[str, Any] = {"__name__": "__example__"}
    exec(compile(shared, "<shared>", "exec"), variables)
    code = "\n" * (cell.line - 1) + cell.code
    with _recorded(path) as printed:
        exec(compile(code, str(path), "exec"), variables)
    return printed


def _of_mlx(text: str) -> str:
    """An example as it is written for MLX."""
    text = re.sub(r"^from ingot import (nn|optimizers)\b", r"import mlx.\1 as \1", text, flags=re.M)
    text = re.sub(r"\boptimizers as optimizers as optim\b", "optimizers as optim", text)
    return re.sub(r"\bingot\.(core|nn|optimizers|utils)\b", r"mlx.\1", text)


# What MLX has, and answers differently: there it ends the default stream of the thread too.
_DIFFERENT = {"clear_streams"}


def _mlx_has(page: str, name: str) -> bool:
    """Whether MLX has a name of a page, and means the same by it."""
    import mlx.core
    import mlx.nn
    import mlx.optimizers
    import mlx.utils

    owners: dict[str, Any] = {
        "core": mlx.core,
        "array": mlx.core.array,
        "nn": mlx.nn,
        "init": mlx.nn.init,
        "losses": mlx.nn.losses,
        "optimizers": mlx.optimizers,
        "utils": mlx.utils,
    }
    owner = owners.get(page) or getattr(mlx.core, page, None)
    return hasattr(owner, name) and name not in _DIFFERENT


def _filled(text: str, printed: dict[int, str]) -> str:
    lines = text.split("\n")
    for number in sorted(printed, reverse=True):
        indent = re.match(" *", lines[number - 1])
        assert indent is not None
        old = lines[number].lstrip().startswith("# ") and not _CELL.match(lines[number])
        lines[number : number + old] = [f"{indent[0]}# {printed[number]}"]
    return "\n".join(lines)


def check(path: Path, *, mlx: bool, fill: bool) -> list[str]:
    """The lines of a file's cells that print something other than they say."""
    text = path.read_text()
    page = path.relative_to(FOLDER).parts[0].removesuffix(".py")
    shared, found = cells(text)
    wrong, seen = [], {}
    for cell in found:
        if mlx and not _mlx_has(page, cell.name):
            continue
        try:
            ours = Cell(cell.name, _of_mlx(cell.code), cell.line) if mlx else cell
            printed = run(path, _of_mlx(shared) if mlx else shared, ours)
        except Exception as error:  # every cell is run, whatever another does
            wrong.append(f"{path.name}:{cell.line} {cell.name}: {type(error).__name__}: {error}")
            continue
        seen.update(printed)
        promises = cell.promises()
        wrong += [
            f"{path.name}:{number} {cell.name}: {printed.get(number)!r} is printed,"
            f" {promises.get(number)!r} is said"
            for number in sorted(printed.keys() | promises.keys())
            if printed.get(number) != promises.get(number)
        ]
    if fill:
        path.write_text(_filled(text, seen))
    return wrong


def main() -> int:
    """Runs the cells of the given files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mlx", action="store_true", help="run them with MLX")
    parser.add_argument("--fill", action="store_true", help="write down what is printed")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    wrong = [
        line
        for path in options.files
        for line in check(path.resolve(), mlx=options.mlx, fill=options.fill)
    ]
    print("\n".join(wrong))
    return 1 if wrong and not options.fill else 0


if __name__ == "__main__":
    sys.exit(main())
