"""The full table of cases: `from .table import CASES`."""

from __future__ import annotations

import importlib

from .cases import CASES

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
    importlib.import_module(f".cases_{module}", __package__).enter()

__all__ = ["CASES"]
