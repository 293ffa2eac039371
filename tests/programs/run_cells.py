"""Runs the cells of Python files, under `ingot run`, and tells what each printed, as JSON.

Comes in, on standard input: `{"files": [...], "replace": [[old, new], ...], "ask": {name: text}}`.
A cell starts with a line `# %% name` and sees the names of the cells above it, as in a notebook;
`mx`, `nn` and `math` are there from the start, because documents do not repeat imports. After the
cell `name`, the expression `ask[name]` is evaluated. Goes out, for each cell: `name`, `printed`,
`error` (its type and text, or null), `warnings` (likewise) and `answer` (the repr of the value, or
null).
"""

import contextlib
import io
import json
import math
import re
import sys
import warnings
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn


def main():
    task = json.load(sys.stdin)
    results = []
    for file in task["files"]:
        names = {"__name__": "__main__", "math": math, "mx": mx, "nn": nn}
        for name, source in cells(Path(file).read_text()):
            for old, new in task["replace"]:
                source = source.replace(old, new)
            result = run(file, source, names)
            ask = task["ask"].get(f"{Path(file).stem}: {name}")
            result["answer"] = None if ask is None else repr(eval(ask, names))
            results.append({"file": Path(file).stem, "name": name, **result})
            # A reader who tries one example is not bothered by what another switched off.
            mx.enable_compile()
    json.dump(results, sys.stdout)


def cells(text):
    """The cells, each with as many empty lines in front as keep the numbers of its lines."""
    parts = re.split(r"^# %% (.*)\n", text, flags=re.M)
    line = 0
    for name, source in zip(parts[1::2], parts[2::2], strict=True):
        line += 1
        yield name, "\n" * line + source
        line += source.count("\n")


def run(file, source, names):
    printed = io.StringIO()
    error = None
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exec(compile(source, file, "exec"), names)
    except Exception as raised:
        error = [type(raised).__name__, str(raised)]
    told = [[warning.category.__name__, str(warning.message)] for warning in caught]
    return {"printed": printed.getvalue(), "error": error, "warnings": told}


if __name__ == "__main__":
    main()
