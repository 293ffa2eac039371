"""Runs a case with both libraries and says how the outcomes differ.

Results are compared by `compare.difference`, exceptions by type: where MLX raises X, ingot raises X
or a subclass.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .cases import Case, outcome
from .compare import difference, dtype_name, is_array, to_numpy
from .defects import Defect, defect_of
from .inputs import make


def mismatch(case: Case, ours: ModuleType, theirs: ModuleType) -> str | None:
    """How the outcome with `ours` differs from that with `theirs`, or None."""
    defect = defect_of(case)
    if defect is not None and ours is theirs:
        return None
    expected = outcome(case, theirs, evaluate=defect is None)
    actual = outcome(case, ours)
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        return _exception_mismatch(actual, expected)
    if defect is not None:
        return _mismatch_despite(defect, case, actual, expected)
    reference = None
    if case.reference is not None:
        values = [_double(theirs, arg) for arg in case.args]
        with np.errstate(all="ignore"):
            reference = case.reference(*values, **case.kwargs)
    return difference(actual, expected, case.close, reference)


def _mismatch_despite(defect: Defect, case: Case, actual: Any, expected: Any) -> str | None:
    """Compare shape and dtype with MLX, which is not evaluated, and values with what is right."""
    parts = (actual, expected)
    pairs = [parts] if is_array(expected) else list(zip(*parts, strict=True))
    for a, b in pairs:
        if a.shape != b.shape or dtype_name(a.dtype) != dtype_name(b.dtype):
            return f"is {a.dtype}{a.shape} and not {b.dtype}{b.shape}"
        if defect.expected is None:
            continue
        right = defect.expected(case)
        values = to_numpy(a)
        if not np.array_equal(
            values, np.full_like(values, right), equal_nan=values.dtype.kind in "fc"
        ):
            return f"is {values} and not {right}"
    return None


def _double(theirs: ModuleType, value: Any) -> Any:
    """An argument of a case in double precision, for the NumPy reference."""
    made = make(theirs, value)
    if not is_array(made):
        return made
    if made.dtype == theirs.complex64:
        return np.array(made).astype(np.complex128)
    return np.array(made.astype(theirs.float64)).astype(np.float64)


def _exception_mismatch(actual: Any, expected: Any) -> str | None:
    if not isinstance(expected, Exception):
        return f"raises {_words(actual)}, MLX does not"
    if not isinstance(actual, Exception):
        return f"does not raise, MLX raises {_words(expected)}"
    if not isinstance(actual, type(expected)):
        return f"raises {_words(actual)}, MLX raises {_words(expected)}"
    return None


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}({text[:150]})"
