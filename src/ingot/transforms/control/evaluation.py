"""Evaluates loops and branches.

Their bodies are compiled, so the first evaluation loads the compiler; importing this does not.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot.transforms.control.body import Body

if TYPE_CHECKING:
    from ingot.transforms.control.branch import Branch
    from ingot.transforms.control.scan_op import ScanLoop
    from ingot.transforms.control.while_loop import While

__all__ = [
    "nested_branch",
    "nested_scan",
    "nested_while",
    "program_of",
    "run_body",
    "run_scan",
    "run_while",
]


@cache
def _programs() -> Any:
    return importlib.import_module("ingot.transforms.control.programs")


def program_of(
    body: Body, carries: int | None = None, slices: int = 0, has_flag: bool = False
) -> Any:
    """The program that runs a body, in a loop if `carries` are given."""
    return _programs().program_of(body, carries, slices, has_flag)


def run_body(body: Body, inputs: Sequence[np.ndarray]) -> Any:
    """Runs a body once and returns its outputs."""
    return _programs().run_body(body, inputs)


def run_scan(scan: ScanLoop, inputs: tuple[np.ndarray, ...]) -> Any:
    """Runs a loop and returns the last carries and the stacked ys."""
    return _programs().run_scan(scan, inputs)


def run_while(loop: While, inputs: tuple[np.ndarray, ...]) -> Any:
    """Runs a loop and returns the carries for which its condition no longer holds."""
    return _programs().run_while(loop, inputs)


def nested_scan(scan: ScanLoop) -> Any:
    """A loop as an instruction of another program; None if its body has host steps."""
    return _programs().nested_scan(scan)


def nested_while(loop: While) -> Any:
    """The same for a loop with a condition."""
    return _programs().nested_while(loop)


def nested_branch(branch: Branch) -> Any:
    """The same for a choice among bodies."""
    return _programs().nested_branch(branch)
