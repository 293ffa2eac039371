"""Runs commands of mlx-lm one after the other and prints what each printed, as JSON.

Under `ingot run` they run on ingot, under Python alone on MLX. One process for all of them, because
importing what mlx-lm needs takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from mlx_lm import cli

TALK = "the cat\nr\nin the hat\nq\n"  # what is typed: r begins anew, q ends


def load_dataset(folder: str, split: str) -> list[dict[str, Any]]:
    """What `datasets.load_dataset` finds in a folder: some commands know no other data."""
    lines = Path(folder, "train.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return rows[:1] if split == "train[:1]" else rows


def main() -> None:
    found = []
    commands = json.load(sys.stdin)
    datasets = types.ModuleType("datasets")
    vars(datasets)["load_dataset"] = load_dataset
    sys.modules["datasets"] = datasets
    for command in commands:
        printed = io.StringIO()
        sys.argv = ["mlx_lm", *command]
        sys.stdin = io.StringIO(TALK)
        error = None
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            try:
                cli.main()
            except (Exception, SystemExit):
                error = traceback.format_exc()
        found.append({"printed": printed.getvalue(), "error": error})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
