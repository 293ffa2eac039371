"""Runs a case with both libraries and says how the outcomes differ.

Results are compared by `compare.difference`, exceptions by type: where MLX raises X, ingot raises X
or a subclass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from tests.oracle.cases.case import Case, outcome
from tests.oracle.harness.compare import (
    difference,
    dtype_name,
    is_array,
    to_numpy,
    value_difference,
)
from tests.oracle.harness.defects import Defect, defect_of
from tests.oracle.harness.inputs import make

Outcome = Callable[[Case, ModuleType], Any]


def mismatch(
    case: Case, ours: ModuleType, theirs: ModuleType, attempt: Outcome = outcome
) -> str | None:
    """How the outcome with `ours`, got by `attempt`, differs from that with `theirs`, or None."""
    defect = defect_of(case)
    if defect is not None and ours is theirs:
        return None
    usable = defect is None or defect.may_raise
    expected = outcome(case, theirs, evaluate=usable)
    actual = attempt(case, ours)
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        return None if defect and defect.may_raise else _exception_mismatch(actual, expected)
    if defect is not None and not usable:
        return _mismatch_despite(defect, case, actual, expected, theirs)
    reference = None
    if case.reference is not None:
        reference = _reference(case.reference, case, theirs)
    return difference(actual, expected, case.close, reference)


def _mismatch_despite(
    defect: Defect, case: Case, actual: Any, expected: Any, theirs: ModuleType
) -> str | None:
    """Compare shape and dtype with MLX, which is not evaluated, and values with what is right."""
    if not is_array(expected):
        return None
    dtype = defect.dtype or dtype_name(expected.dtype)
    if actual.shape != expected.shape or dtype_name(actual.dtype) != dtype:
        return f"is {actual.dtype}{actual.shape} and not {dtype}{expected.shape}"
    if defect.expected is None:
        return None
    right = _reference(partial(defect.expected, case), case, theirs)
    values = to_numpy(actual)
    right = np.broadcast_to(np.asarray(right), values.shape).astype(values.dtype)
    return value_difference(values, right, dtype, case.close)


def _reference(function: Callable[..., Any], case: Case, theirs: ModuleType) -> Any:
    """The result of a NumPy function for the arguments of the case, in double precision."""
    values = [_double(theirs, arg) for arg in case.args]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*values, **case.kwargs)


def _double(theirs: ModuleType, value: Any) -> Any:
    """An argument of a case in double precision, for the NumPy reference."""
    made = make(theirs, value)
    if not is_array(made):
        return made
    if made.dtype == theirs.complex64:
        return np.array(made).astype(np.complex128)
    return np.array(made.astype(theirs.float64)).astype(np.float64)


# Where MLX fails with one of these, it was not meant to: anything but a crash is accepted of ingot.
ACCIDENTS = ("std::bad_cast", "nanobind::detail", "larger than max_size()")


def _exception_mismatch(actual: Any, expected: Any) -> str | None:
    if any(text in str(expected) for text in ACCIDENTS):
        return None
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
