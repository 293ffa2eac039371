"""A plugin of pytest: of the many parameter sets of a test function, a few; a record of results.

    INGOT_SAMPLE=1 INGOT_SEED=7 INGOT_RECORD=record.txt python -m pytest -p sampled

Emulated processors are some twenty times as slow as real ones, and most tests are one function with
many parameter sets: one or two of each run every function in a fraction of the time. Another seed
chooses others. The record has a line for each test as soon as it ends, and one for each file when
all of its tests have: `passed 0.31 tests/...::test_some[1]`, `covered 4.20 tests/...`. Seconds are
those of the processor, programs that a test starts included, so that a busy machine changes few of
them. After INGOT_DEADLINE, in seconds since 1970, no test begins.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

# Processor seconds when the test, and when the file, began.
_began = {"test": 0.0, "file": 0.0}


def processor_seconds() -> float:
    """Those of this process and of the programs that it started."""
    return sum(os.times()[:4])


def write_down(word: str, since: str, what: str) -> None:
    """A line of the record."""
    path = os.environ.get("INGOT_RECORD")
    if path:
        with open(path, "a") as file:
            file.write(f"{word} {processor_seconds() - _began[since]:.2f} {what}\n")


def pytest_runtest_setup() -> None:
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
    _began["file"] = processor_seconds()
    files = {argument for argument in config.args if argument.endswith(".py")}
    without_tests = files - {file_of(item) for item in items}
    for file in sorted(without_tests):
        write_down("covered", "file", file)


def file_of(item: pytest.Item) -> str:
    """The file of a test, from the folder of the project."""
    return item.nodeid.partition("::")[0]


def chosen(group: list[Any], wanted: int, seed: str) -> list[Any]:
    """So many of a list, in its order; all of them for 0."""
    if not 0 < wanted < len(group):
        return group
    return [group[i] for i in sorted(random.Random(seed).sample(range(len(group)), wanted))]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Writes down that a file is done, and stops when the time is up."""
    _began["test"] = processor_seconds()
    result = yield
    if nextitem is None or file_of(nextitem) != file_of(item):
        write_down("covered", "file", file_of(item))
        _began["file"] = processor_seconds()
    if time.time() > float(os.environ.get("INGOT_DEADLINE", "inf")):
        item.session.shouldstop = "the time is up"
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes down how a test ended."""
    outcome = report.outcome
    if report.when == "call" or outcome != "passed":
        expected = hasattr(report, "wasxfail") and outcome == "skipped"
        write_down("xfailed" if expected else outcome, "test", report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Writes down what could not be imported."""
    if report.failed:
        write_down("failed", "test", report.nodeid)
