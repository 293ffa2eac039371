"""When two results count as equal: shape, dtype, NaN and inf positions, values to a tolerance.

The default is equality of values. An op whose result is rounded has a `Close` tolerance in units of
the last place of the result's dtype, optionally against a scale: sums that cancel have errors in
proportion to their terms, not to their result. Where MLX itself is less accurate than that, the op
also has a NumPy `reference`, computed in double precision; an element is then right if it is close
to MLX or to the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from tests.oracle.harness.inputs import numpy_dtype


@dataclass(frozen=True)
class Close:
    """Differences up to `ulps` units in the last place of the value, or of a larger `scale`.

    `half_ulps` is the same for float16 and bfloat16. With `signed_zeros` 0.0 is not -0.0.
    """

    ulps: float = 4
    half_ulps: float = 1
    scale: float = 0
    signed_zeros: bool = False


EXACT = Close(0, 0)
EXACT_SIGNS = Close(0, 0, signed_zeros=True)


def is_array(value: Any) -> bool:
    """Whether `value` is an array of either library."""
    return type(value).__name__ == "array"


def dtype_name(dtype: Any) -> str:
    """MLX's and ingot's dtypes by the same name, which is that of the module attribute."""
    name = str(dtype).rsplit(".", 1)[-1]
    return "bool_" if name == "bool" else name


def to_numpy(array: Any) -> np.ndarray:
    """An evaluated copy of an array of either library; bfloat16 becomes float32, which is exact."""
    if dtype_name(array.dtype) == "bfloat16":
        float32 = type(array)(1.0).dtype
        return np.array(array.astype(float32))
    return np.array(array)


def difference(
    ours: Any, theirs: Any, close: Close = EXACT, reference: np.ndarray | None = None
) -> str | None:
    """What is different between two results, in words, or None if they are equal."""
    if is_array(theirs):
        if not is_array(ours):
            return f"is {ours!r} and not an array"
        return _array_difference(ours, theirs, close, reference)
    if isinstance(theirs, (list, tuple)):
        if not isinstance(ours, type(theirs)) or len(ours) != len(theirs):
            return f"is {_brief(ours)} and not {_brief(theirs)}"
        parts = (difference(a, b, close) for a, b in zip(ours, theirs, strict=True))
        return next((f"item {i} {text}" for i, text in enumerate(parts) if text), None)
    if type(theirs).__module__ not in ("builtins", "numpy"):
        ours, theirs = dtype_name(ours), dtype_name(theirs)
    if type(ours) is not type(theirs):
        return f"is {_brief(ours)} and not {_brief(theirs)}"
    if isinstance(theirs, (float, complex, np.ndarray)):
        return value_difference(np.asarray(ours), np.asarray(theirs), "float32", close, None)
    return None if ours == theirs else f"is {ours!r} and not {theirs!r}"


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text[:200]}"


def _array_difference(
    ours: Any, theirs: Any, close: Close, reference: np.ndarray | None
) -> str | None:
    name = dtype_name(theirs.dtype)
    if dtype_name(ours.dtype) != name:
        return f"has dtype {dtype_name(ours.dtype)} and not {name}"
    if ours.shape != theirs.shape:
        return f"has shape {ours.shape} and not {theirs.shape}"
    ours, theirs = to_numpy(ours), to_numpy(theirs)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"as NumPy is {ours.dtype}{ours.shape} and not {theirs.dtype}{theirs.shape}"
    return value_difference(ours, theirs, name, close, reference)


def value_difference(
    ours: np.ndarray,
    theirs: np.ndarray,
    dtype: str,
    close: Close,
    reference: np.ndarray | None = None,
) -> str | None:
    """Where two NumPy arrays of one shape differ, `dtype` being that of the results they are of."""
    wrong = ~_elements_agree(ours, theirs, dtype, close)
    if reference is not None and wrong.any():
        wrong &= ~_elements_agree(ours, np.broadcast_to(reference, ours.shape), dtype, close)
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = f"[{', '.join(map(str, index))}]" if index else ""
    exact = (
        "" if reference is None else f" (exactly {np.broadcast_to(reference, ours.shape)[index]})"
    )
    count = f"{int(wrong.sum())} of {wrong.size} values differ: "
    return f"{count}{where} {ours[index]!r} and not {theirs[index]!r}{exact}"


def _elements_agree(ours: np.ndarray, theirs: np.ndarray, dtype: str, close: Close) -> np.ndarray:
    """Which elements are equal or close; NaN equals NaN, for complex numbers part by part."""
    if ours.dtype.kind == "c":
        if close.ulps == 0:
            parts = ((ours.real, theirs.real), (ours.imag, theirs.imag))
            agree = [_elements_agree(a, b, "float32", close) for a, b in parts]
            return agree[0] & agree[1]
        # The error of a complex number is measured against its magnitude.
        special = ~(np.isfinite(ours) & np.isfinite(theirs))
        same = _elements_agree(ours.real, theirs.real, "float32", EXACT)
        same &= _elements_agree(ours.imag, theirs.imag, "float32", EXACT)
        return np.where(special, same, _within(ours, theirs, dtype, close))
    if ours.dtype.kind == "f" and close.signed_zeros:
        same_sign = (ours != 0) | (theirs != 0) | (np.signbit(ours) == np.signbit(theirs))
        return same_sign & _elements_agree(ours, theirs, dtype, replace(close, signed_zeros=False))
    if ours.dtype.kind != "f" or close == EXACT:
        return (ours == theirs) | ((ours != ours) & (theirs != theirs))
    finite = np.isfinite(ours) & np.isfinite(theirs)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return same | (finite & _within(ours, theirs, dtype, close))


def _within(ours: np.ndarray, theirs: np.ndarray, dtype: str, close: Close) -> np.ndarray:
    info = ml_dtypes.finfo(np.float32 if dtype == "complex64" else numpy_dtype(dtype))
    ulps = close.half_ulps if dtype in ("float16", "bfloat16") else close.ulps
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(ours.astype(wide) - theirs.astype(wide))
        size = np.maximum(np.abs(theirs.astype(wide)), close.scale)
        # Below the smallest normal number the unit in the last place no longer shrinks.
        unit = np.maximum(float(info.eps) * size, float(info.smallest_subnormal))
        return error <= ulps * unit
