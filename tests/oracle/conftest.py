"""The module under test, and the count of compared cases in pytest's summary.

`INGOT_ORACLE_MODULE=mlx.core pytest tests/oracle` compares MLX with itself, which checks the cases.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

import mlx.core
import pytest

MODULE = os.environ.get("INGOT_ORACLE_MODULE", "ingot.core")
# Cases compared, by op: filled by the tests of this process, merged over processes under xdist.
COUNTS: dict[str, int] = {}


@pytest.fixture(scope="session")
def ours() -> ModuleType:
    """The module under test."""
    return importlib.import_module(MODULE)


@pytest.fixture(scope="session")
def theirs() -> ModuleType:
    """MLX, the oracle."""
    mlx.core.set_default_device(mlx.core.cpu)
    return mlx.core


@pytest.fixture
def count() -> Any:
    """Call `count(op, n)` to have n compared cases of an op counted."""

    def add(op: str, cases: int) -> None:
        COUNTS[op] = COUNTS.get(op, 0) + cases

    return add


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Add the counts of an xdist worker to those of the controller."""
    for op, cases in getattr(node, "workeroutput", {}).get("oracle", {}).items():
        COUNTS[op] = COUNTS.get(op, 0) + cases


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the counts of an xdist worker to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["oracle"] = COUNTS


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much was compared."""
    if COUNTS:
        total = sum(COUNTS.values())
        terminalreporter.write_line(f"oracle: {total} cases compared over {len(COUNTS)} ops")
