"""Two outcomes compared: how they differ, in one of a few kinds of differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.oracle.walk.outcome import Crashed, Raised, Values

# Relative to the largest element: what differs more is another value, not another rounding.
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-9}
NEARLY = 1e-6  # float64 computed in float32
# Where MLX fails with one of these, it was not meant to.
ACCIDENTS = ("std::bad_cast", "nanobind", "max_size()", "bad_alloc", "basic_string", "vector::")


@dataclass(frozen=True)
class Difference:
    """`kind` is "values", "raises" (ingot alone), "accepts" (ingot alone), "exception" or
    "crash" (of ingot).
    """

    kind: str
    text: str


def difference(ours: Any, theirs: Any) -> Difference | None:
    """How ingot's outcome differs from MLX's; None where MLX is no oracle."""
    if isinstance(ours, Crashed):
        return Difference("crash", ours.reason)
    if isinstance(theirs, Crashed):
        return None
    if isinstance(theirs, Raised) and any(word in theirs.text for word in ACCIDENTS):
        return None
    if isinstance(ours, Raised) and isinstance(theirs, Raised):
        if theirs.kind in ours.kinds:
            return None
        return Difference("exception", f"{_brief(ours)} and not {_brief(theirs)}")
    if isinstance(ours, Raised):
        return Difference("raises", f"{_brief(ours)} and not {_brief(theirs)}")
    if isinstance(theirs, Raised):
        return Difference("accepts", f"{_brief(ours)} and not {_brief(theirs)}")
    text = _unequal(ours, theirs)
    return Difference("values", text) if text else None


def _unequal(ours: Any, theirs: Any) -> str | None:
    if isinstance(ours, Values) and isinstance(theirs, Values):
        return _unequal_arrays(ours, theirs)
    if type(ours) is not type(theirs):
        return f"{_brief(ours)} and not {_brief(theirs)}"
    if isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return f"keys {sorted(ours)} and not {sorted(theirs)}"
        return next((t for key in ours if (t := _unequal(ours[key], theirs[key]))), None)
    if isinstance(ours, (list, tuple)):
        if len(ours) != len(theirs):
            return f"{_brief(ours)} and not {_brief(theirs)}"
        pairs = zip(ours, theirs, strict=True)
        return next((t for a, b in pairs if (t := _unequal(a, b))), None)
    if isinstance(ours, (float, complex)):
        return None if np.isclose(ours, theirs, 1e-5, 1e-7, True) else f"{ours} and not {theirs}"
    return None if ours == theirs else f"{_brief(ours)} and not {_brief(theirs)}"


def _unequal_arrays(ours: Values, theirs: Values) -> str | None:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{_brief(ours)} and not {_brief(theirs)}"
    a, b = ours.elements, theirs.elements
    if a is None or b is None or a.dtype.kind not in "biufc":
        return None
    if a.dtype.kind in "biu":
        return None if np.array_equal(a, b) else f"{_brief(ours)} and not {_brief(theirs)}"
    finite = np.abs(b[np.isfinite(b)])
    size = float(finite.max()) if finite.size else 0.0
    share = TOLERANCE.get(ours.dtype, 2e-5)
    with np.errstate(all="ignore"):
        close = np.isclose(a, b, share, share * max(size, 0.1), equal_nan=True).all()
        nearly = np.isclose(a, b, NEARLY, NEARLY * max(size, 0.1), equal_nan=True).all()
    hint = " (nearly)" if nearly else ""
    return None if close else f"{_brief(ours)} and not {_brief(theirs)}{hint}"


def _brief(value: Any) -> str:
    if isinstance(value, Raised):
        return f"{value.kind}({value.text[:110]})"
    if isinstance(value, Values):
        shown = "" if value.elements is None else np.array2string(value.elements, threshold=8)
        return f"{value.dtype}{list(value.shape)} {' '.join(shown.split())[:120]}"
    return str(value)[:160]
