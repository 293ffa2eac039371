"""Where MLX 0.32.4 on the CPU is no oracle: what goes wrong there, what is asked of ingot instead.

For such a case MLX only infers the shape and the dtype, which it does without running the op. The
values must equal `expected`, or, where there is no right answer, ingot must merely finish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tests.oracle.cases.case import Case
from tests.oracle.harness import references
from tests.oracle.harness.inputs import FLOATS, Array, Given


@dataclass(frozen=True)
class Defect:
    """A defect of MLX, the cases that meet it, and the values that are right, if any are.

    `expected` is called with the case and its arguments in double precision. `dtype` is the right
    dtype where MLX's is wrong. With `may_raise` either library may raise, but if neither does the
    results are compared as usual.
    """

    reason: str
    applies: Callable[[Case], bool]
    expected: Callable[..., Any] | None = None
    dtype: str | None = None
    may_raise: bool = False


def _name(case: Case) -> str:
    return case.op.rpartition(".")[2]


def _first(case: Case) -> Array | None:
    return case.args[0] if case.args and isinstance(case.args[0], Array) else None


def _axis(case: Case) -> Any:
    return case.kwargs.get("axis", case.args[1] if len(case.args) > 1 else None)


# What a reduction of nothing gives.
NOTHING: dict[str, float] = {
    "all": 1,
    "any": 0,
    "sum": 0,
    "prod": 1,
    "mean": float("nan"),
    "var": float("nan"),
    "std": float("nan"),
    "count_nonzero": 0,
    "trace": 0,
    "einsum": 0,
    "allclose": 1,
    "array_equal": 1,
}


def _empty_diagonal(
    shape: tuple[int, ...], offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> bool:
    try:
        return np.empty(shape).diagonal(offset, axis1, axis2).shape[-1] == 0
    except ValueError:
        return False  # Both libraries raise.


def _reduces_nothing(case: Case) -> bool:
    arrays = [arg for arg in case.args if isinstance(arg, Array)]
    if _name(case) == "array_equal" and len({array.shape for array in arrays}) > 1:
        return False  # Different shapes are unequal; nothing is reduced.
    if _name(case) == "trace" and len(arrays[0].shape) > 1:
        return _empty_diagonal(arrays[0].shape, *case.args[1:], **case.kwargs)
    return _name(case) in NOTHING and any(prod(array.shape) == 0 for array in arrays)


def _reduction_of_nothing(case: Case, *args: Any, **kwargs: Any) -> complex:
    value = NOTHING[_name(case)]
    array = _first(case)
    if value != value and array is not None and array.dtype == "complex64" and "mean" in case.op:
        return complex(value, value)
    return value


def _imaginary_flag(case: Case) -> bool:
    """Whether an array of bool is made of an imaginary number."""
    if _name(case) not in ("array", "asarray") or not case.args:
        return False
    value, dtypes = case.args[0], [*case.args[1:], case.kwargs.get("dtype")]
    is_imaginary = isinstance(value, complex) and value.real == 0 and value.imag != 0
    return is_imaginary and any("bool" in str(dtype) for dtype in dtypes)


def _refused_by_mlx(case: Case) -> bool:
    if _name(case) not in ("array", "asarray") or not case.args:
        return False
    value = case.args[0]
    if isinstance(value, list):
        return any(isinstance(item, (np.ndarray, np.generic)) for item in value)
    return isinstance(value, np.ndarray) and any(stride < 0 for stride in value.strides)


def _half_scan(case: Case) -> bool:
    array = _first(case)
    if array is None or array.dtype not in ("float16", "bfloat16"):
        return False
    return _name(case) in ("cummax", "cummin")


def _integer_softmax(case: Case) -> bool:
    array = _first(case)
    if _name(case) != "softmax" or array is None or array.dtype in (*FLOATS, "complex64"):
        return False
    if _repeated_axis(case) or array.shape == () or _axis(case) == ():
        return False
    return prod(array.shape) > 0


def _repeated_axis(case: Case) -> bool:
    array, axis = _first(case), _axis(case)
    if _name(case) not in ("softmax", "logsumexp") or array is None or not isinstance(axis, tuple):
        return False
    return any(i in (j, j + len(array.shape)) for n, i in enumerate(axis) for j in axis[:n])


REFLECTED_BITWISE = [f"array.__r{name}__" for name in "and or xor lshift rshift".split()]
COMPARISONS = [f"array.__{name}__" for name in "eq ne req rne".split()]

KNOWN_MLX_DEFECTS = [
    Defect(
        "a reduction over an axis of length 0 hangs now and then, or gives uninitialised memory",
        _reduces_nothing,
        _reduction_of_nothing,
    ),
    Defect(
        "scans of float16 and bfloat16 turn NaN into 0",
        _half_scan,
        lambda case, *args, **kwargs: getattr(references, _name(case))(*args, **kwargs),
    ),
    Defect(
        "softmax of integers along an axis that is not the last is computed in integers",
        _integer_softmax,
        lambda case, *args, **kwargs: references.softmax(*args, **kwargs),
        dtype="float32",
    ),
    Defect(
        "array(1j, bool_) is False, where array(1j).astype(bool_) is True",
        _imaginary_flag,
        lambda *_args, **_kwargs: np.True_,
    ),
    Defect(
        "an axis given twice is not noticed",
        _repeated_axis,
        may_raise=True,
    ),
    Defect(
        "NumPy values in lists, and NumPy arrays with negative strides, are refused",
        _refused_by_mlx,
        may_raise=True,
    ),
    Defect(
        "there are no reflected bitwise operators",
        lambda case: case.op in REFLECTED_BITWISE,
        may_raise=True,
    ),
    Defect(
        "copy=False is refused for an array of its own",
        lambda case: _name(case) == "asarray" and case.kwargs.get("copy") is False,
        may_raise=True,
    ),
    Defect(
        "assigning to the whole array gives it the dtype of the value",
        lambda case: (
            case.op == "array.__setitem__"
            and case.args[1] in (None, Ellipsis)
            and isinstance(case.args[2], Array)
            and case.args[2].dtype != case.args[0].dtype
        ),
    ),
    Defect(
        "a negative number beside uint64 wraps around, while other unsigned dtypes refuse it",
        lambda case: (
            _first(case) is not None
            and _first(case).dtype == "uint64"
            and any(isinstance(arg, int) and arg < 0 for arg in case.args[1:3])
            and (case.op == "clip" or case.op.startswith("array.__"))
            and "item" not in case.op
        ),
        may_raise=True,
    ),
    Defect(
        "== and != raise TypeError for None, though not for other strangers",
        lambda case: case.op in COMPARISONS and case.args[1] is None,
        may_raise=True,
    ),
    Defect(
        "float64 comes back from pickle as float32",
        lambda case: case.op == "array.__reduce__" and case.args[0].dtype == "float64",
        dtype="float64",
    ),
    Defect(
        "addmm broadcasts complex products to c, and refuses c beside a product with a vector",
        lambda case: (
            case.op == "addmm"
            and (case.args[1].dtype == "complex64" or len(case.args[2].shape) == 1)
        ),
        may_raise=True,
    ),
    Defect(
        "leading axes of length 1 of an assigned value are refused for some indices",
        lambda case: (
            case.op == "array.__setitem__"
            and isinstance(case.args[2], Array)
            and case.args[2].shape[:1] == (1,)
        ),
        may_raise=True,
    ),
    Defect(
        "as_strided raises for sliced arrays, although it is to copy them first",
        lambda case: (
            _name(case) == "as_strided"
            and _first(case) is not None
            and len(case.args) > 0
            and _first(case).layout == "stepped"
        ),
        may_raise=True,
    ),
    Defect(
        "elements cannot be read through a boolean mask",
        lambda case: (
            case.op == "array.__getitem__"
            and isinstance(case.args[1], Given)
            and case.args[1].dtype == "bool_"
        ),
        may_raise=True,
    ),
]


def defect_of(case: Case) -> Defect | None:
    """The defect of MLX that a case meets, if any."""
    return next((defect for defect in KNOWN_MLX_DEFECTS if defect.applies(case)), None)
