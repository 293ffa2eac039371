"""How loops and branches are evaluated.

Their bodies are compiled, and the first that runs loads the compiler: importing does without.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot.transforms.control.body import Body

if TYPE_CHECKING:
    from ingot.transforms.control.scan_op import ScanLoop
    from ingot.transforms.control.while_loop import While

__all__ = ["program_of", "run_body", "run_scan", "run_while"]


@cache
def _programs() -> Any:
    return importlib.import_module("ingot.transforms.control.programs")


def program_of(body: Body) -> Any:
    """The program that runs a body."""
    return _programs().program_of(body)


def run_body(body: Body, inputs: Sequence[np.ndarray]) -> Any:
    """The outputs of a body, once."""
    return _programs().run_body(body, inputs)


def run_scan(scan: ScanLoop, inputs: tuple[np.ndarray, ...]) -> Any:
    """The last carries and the stacked ys."""
    return _programs().run_scan(scan, inputs)


def run_while(loop: While, inputs: tuple[np.ndarray, ...]) -> Any:
    """The carries for which the condition does not hold any more."""
    return _programs().run_while(loop, inputs)
