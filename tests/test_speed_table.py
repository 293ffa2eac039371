"""The README's table of speeds: written from what `ingot bench --json` writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
TOOL = PROJECT / "tools" / "speed_table.py"
README = PROJECT / "README.md"
VERSIONS = {"mlx": "1.2", "torch": "3.4+cpu", "jax": None}


def _run(*arguments: str | Path) -> str:
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _rewritten(folder: Path, name: str, **contenders: float) -> list[str]:
    """The lines that measurements of one benchmark add to the README."""
    times: dict[str, Any] = {key.replace("_", " "): {"best": t} for key, t in contenders.items()}
    machine = {"usable_cpus": 4, "processor": "X9", "memory_bytes": 2**33, "versions": VERSIONS}
    numbers = {
        "quick": False,
        "machine": machine,
        "benchmarks": [{"name": name, "contenders": times}],
    }
    copy = folder / "README.md"
    copy.write_text(README.read_text())
    (folder / "numbers.json").write_text(json.dumps(numbers))
    _run(folder / "numbers.json", copy)
    known = set(README.read_text().splitlines())
    return [line for line in copy.read_text().splitlines() if line not in known]


def test_a_row_says_how_many_times_faster(tmp_path: Path) -> None:
    *text, row = _rewritten(
        tmp_path,
        "gelu_large",
        ingot=0.0125,
        mlx_compile=1.25,
        jax_jit=0.025,
        torch_compile=0.012625,
        torch=0.05,
        numpy_memcpy=0.01,
    )
    assert row == (
        "| gelu, 32 x 1000 x 4096, compiled | 12.5 ms | **1.01** | 100 | 2.0 | 1.01 "
        "| 0.8 memcpy | `gelu_large` |"
    )
    assert " ".join(text).startswith(
        "Measured with `ingot bench` on 4 cores of an X9 (8 GiB, Linux), each library at its "
        "defaults with 4 threads: mlx 1.2 (CPU), torch 3.4. "
    )


def test_small_times_and_other_libraries(tmp_path: Path) -> None:
    row = _rewritten(tmp_path, "search_flat", ingot=4e-7, jax_jit=2e-7, faiss=3.32e-6)[-1]
    assert row.endswith("| 0.4 µs | **0.5** |  | 0.5 |  | 8.3 faiss | `search_flat` |")


def test_its_rows_are_benchmarks() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "ingot.benchmarks", "--list"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = _run("--list").split()
    assert len(names) > 10
    assert [name for name in names if name not in listed] == []
