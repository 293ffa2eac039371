"""A plugin of pytest: of the many parameter sets of a test function, a few; a record of results.

    INGOT_SAMPLE=1 INGOT_SEED=7 INGOT_RECORD=record.txt python -m pytest -p sampled

Emulated processors are some twenty times as slow as real ones, and most tests are one function with
many parameter sets: one or two of each run every function in a fraction of the time. Another seed
chooses others. The record has a line for each test as soon as it ends, whatever happens later.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def pytest_configure() -> None:
    """On another processor, MLX would compile with the compiler of the one that emulates it."""
    if os.environ.get("QEMU_CPU"):
        import mlx.core as mlx

        mlx.disable_compile()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps some of each function's tests."""
    wanted = int(os.environ.get("INGOT_SAMPLE", "0"))
    seed = os.environ.get("INGOT_SEED", "0")
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    kept = {
        id(item)
        for name, group in functions.items()
        for item in chosen(group, wanted, f"{seed} {name}")
    }
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def chosen(group: list[Any], wanted: int, seed: str) -> list[Any]:
    """So many of a list, in its order; all of them for 0."""
    if not 0 < wanted < len(group):
        return group
    return [group[i] for i in sorted(random.Random(seed).sample(range(len(group)), wanted))]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes down how a test ended, and how many seconds it took."""
    path = os.environ.get("INGOT_RECORD")
    outcome = report.outcome
    if path and (report.when == "call" or outcome != "passed"):
        expected = "xfailed" if hasattr(report, "wasxfail") and outcome == "skipped" else outcome
        with open(path, "a") as file:
            file.write(f"{expected} {report.duration:.2f} {report.nodeid}\n")
