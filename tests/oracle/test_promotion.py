"""Dtypes of results: every pair of dtypes, and Python scalars beside every dtype.

Only dtypes are compared; values are in test_ops_match_mlx.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import pytest
from tests.oracle.harness.compare import dtype_name
from tests.oracle.harness.inputs import DTYPES

FUNCTIONS = """
    add subtract multiply divide floor_divide remainder power maximum minimum logaddexp arctan2
    equal less
    logical_and bitwise_and left_shift where concatenate stack matmul inner outer divmod
""".split()
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in """
        add sub mul truediv floordiv mod pow eq ne lt le gt ge and_ or_ xor lshift rshift
        iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift
    """.split()
}
SCALARS: list[Any] = [True, 1, 200, 70_000, 2**40, 1.5, 1e300, 2j]
# MLX keeps int32 and loses the value.
LOST_BY_MLX = [("bool_", 2**40)]
NO_REFLECTION = "and_ or_ xor lshift rshift".split()


def _outcome(attempt: Callable[..., Any], mx: ModuleType, case: tuple[Any, ...]) -> str | Exception:
    """The dtype of a result, or the exception."""
    try:
        result = attempt(mx, *case)
    except Exception as error:
        return error
    results = result if isinstance(result, (list, tuple)) else [result]
    return ", ".join(dtype_name(item.dtype) for item in results)


def _apply(mx: ModuleType, op: str, a: Any, b: Any) -> Any:
    if op == "where":
        return mx.where(mx.array(True), a, b)
    if op in ("concatenate", "stack"):
        return getattr(mx, op)([a, b])
    return getattr(mx, op)(a, b)


def _differences(
    ours: ModuleType, theirs: ModuleType, attempt: Callable[..., Any], cases: Any
) -> list[str]:
    found = []
    for case in cases:
        actual, expected = _outcome(attempt, ours, case), _outcome(attempt, theirs, case)
        if isinstance(expected, Exception) and isinstance(actual, type(expected)):
            continue
        if actual != expected:
            found.append(f"{case}: {actual!r} and not {expected!r}"[:300])
    return found


@pytest.mark.parametrize("op", FUNCTIONS)
def test_pairs(op: str, ours: ModuleType, theirs: ModuleType, count: Any) -> None:
    """A function of two arrays, for every pair of dtypes and of 0-d and 1-d arrays."""

    def attempt(mx: ModuleType, first: str, second: str, n: int) -> Any:
        a = mx.ones((2,), dtype=getattr(mx, first))
        b = mx.ones((2,) if n else (), dtype=getattr(mx, second))
        return _apply(mx, op, a, b)

    cases = list(product(DTYPES, DTYPES, (0, 1)))
    count(op, len(cases))
    assert not _differences(ours, theirs, attempt, cases)


@pytest.mark.parametrize("name", OPERATORS)
def test_scalars(name: str, ours: ModuleType, theirs: ModuleType, count: Any) -> None:
    """An operator between an array and a Python scalar, in both orders."""

    def attempt(mx: ModuleType, dtype: str, scalar: Any, reflected: bool) -> Any:
        array = mx.ones((2,), dtype=getattr(mx, dtype))
        return OPERATORS[name](scalar, array) if reflected else OPERATORS[name](array, scalar)

    reflections = (False,) if name in NO_REFLECTION or name.startswith("i") else (False, True)
    cases = list(product(DTYPES, SCALARS, reflections))
    cases = [case for case in cases if case[:2] not in LOST_BY_MLX]
    count(f"array.__{name.strip('_')}__", len(cases))
    assert not _differences(ours, theirs, attempt, cases)


@pytest.mark.parametrize("scalar", [True, 3, 2.5, 1j, 2**40, [1, 2.5], [True, 1]], ids=repr)
def test_dtype_of_python_values(scalar: Any, ours: ModuleType, theirs: ModuleType) -> None:
    """What array(value) is, alone and beside another scalar."""
    assert dtype_name(ours.array(scalar).dtype) == dtype_name(theirs.array(scalar).dtype)
