"""The C header `tuning.h`, made from the modules of thresholds: C and Python read the same numbers.

In: the names that `NATIVE` lists there. Out: one #define each, and `INGOT_TUNING(X)`, which
applies a macro to all of them. `python build_support/tuning_header.py FOLDER` writes it by hand.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "ingot"
NAMES = ("tuning", "tuning_linalg", "tuning_memory", "tuning_products", "tuning_rows")
TUNING = tuple(PACKAGE / f"{name}.py" for name in NAMES)


def header_text() -> str:
    numbers: dict[str, int] = {}
    for path in TUNING:
        # By its path: importing it would import the package, which needs the extension.
        tuning = runpy.run_path(str(path))
        numbers |= {name: checked(path, name, tuning[name]) for name in tuning["NATIVE"]}
    lines = [
        "/* Made by build_support/tuning_header.py; the reasons are in src/ingot/tuning*.py. */",
        "#ifndef INGOT_TUNING_H",
        "#define INGOT_TUNING_H",
        "",
    ]
    lines += [f"#define {name} {value}" for name, value in numbers.items()]
    applied = " ".join(f"X({name})" for name in numbers)
    return "\n".join([*lines, "", f"#define INGOT_TUNING(X) {applied}", "", "#endif", ""])


def checked(path: Path, name: str, value: object) -> int:
    """A number that C can hold."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise SystemExit(f"error: {name} in {path} must be an int of 0 to 2**63 - 1: {value!r}")
    return value


def write_header(folder: Path) -> None:
    """Writes the header unless it is there already: its time tells what must be compiled again."""
    header, text = folder / "tuning.h", header_text()
    if header.exists() and header.read_text() == text:
        return
    folder.mkdir(parents=True, exist_ok=True)
    arriving = folder / f".tuning.h.{os.getpid()}"
    arriving.write_text(text)
    os.replace(arriving, header)


if __name__ == "__main__":
    write_header(Path(sys.argv[1]))
