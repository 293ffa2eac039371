"""The boundary: argument checks for public functions, derived from their annotations.

`kinds.py` turns an annotation into the `Kind` of values that it accepts; `checks.py` wraps the
functions. Code inside the package may rely on the annotations.
"""

from __future__ import annotations

from ingot.graph.boundary.checks import (
    at_boundary,
    attach,
    check_classes,
    check_function,
    check_functions,
    checked,
    parameters_of,
)
from ingot.graph.boundary.kinds import FUNCTION, Between, Number, Size

__all__ = [
    "FUNCTION",
    "Between",
    "Number",
    "Size",
    "at_boundary",
    "attach",
    "check_classes",
    "check_function",
    "check_functions",
    "checked",
    "parameters_of",
]
