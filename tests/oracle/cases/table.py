"""The full table of cases: `from tests.oracle.cases.table import CASES`."""

from __future__ import annotations

import importlib

from tests.oracle.cases.case import CASES

MODULES = (
    "elementwise",
    "movement",
    "reduction",
    "contraction",
    "indexing",
    "creation",
    "sorting",
    "misc",
    "array",
    "large",
)

for module in MODULES:
    importlib.import_module(f".{module}", __package__).enter()

__all__ = ["CASES"]
