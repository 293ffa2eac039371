"""The oracle's cases with something empty in each: compiled against uncompiled against MLX.

Memory is poisoned (tests/conftest.py), so that a kernel that reads what nobody wrote differs. MLX
says which shapes and dtypes results have and what is refused; it is not evaluated, because empty
arrays end its process or stop it for good in several ops. Values are compared with NumPy's in
tests/compiler/lower/kernels/test_empty.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.oracle.cases.case import Case, evaluate_all, outcome, perform
from tests.oracle.cases.table import CASES
from tests.oracle.harness.compare import difference, is_array
from tests.oracle.harness.emptied import emptied
from tests.oracle.harness.inputs import make
from tests.oracle.test_compiled_ops_match_mlx import OPS, _arrays, _fill

CASES_OF_AN_OP = 4

# MLX takes any index of an axis without elements, and reads what is outside the array.
MLX_IS_NO_ORACLE = (
    "array.__getitem__",
    "array.__setitem__",
    "array.at",
    "as_strided",
    "put_along_axis",
    "take_along_axis",
)


def _passed(mx: ModuleType, yes: Any, value: Any) -> Any:
    """The same arrays, as the results of elementwise steps that are fused with their neighbours."""
    if is_array(value):
        return mx.where(yes, value, value)
    if type(value) in (list, tuple):
        return type(value)(_passed(mx, yes, item) for item in value)
    return value


def _compiled(case: Case, mx: ModuleType) -> Any:
    """The outcome of the case between elementwise steps, inside a compiled function."""

    def function(yes: Any, *inputs: Any) -> Any:
        arrays = iter([_passed(mx, yes, x) for x in inputs])
        args = _fill(mx, case.args, arrays)
        kwargs = {k: _fill(mx, v, arrays) for k, v in case.kwargs.items()}
        return _passed(mx, yes, perform(case, mx, args, kwargs))

    try:
        inputs = [make(mx, array) for array in _arrays((case.args, tuple(case.kwargs.values())))]
        result = mx.compile(function)(mx.array(True), *inputs)
        evaluate_all(mx, result)
    except Exception as error:  # Every exception is an outcome to compare.
        return error
    return result


def _judged(found: Any, expected: Any) -> str | None:
    """How the outcome of a compiled call differs from that of an uncompiled one."""
    if isinstance(found, Exception) or isinstance(expected, Exception):
        if type(found) is type(expected) and str(found) == str(expected):
            return None
        return f"gives {found!r} and not {expected!r}"
    return difference(found, expected)


_REFUSALS = (ValueError, TypeError, IndexError)


def _against_mlx(case: Case, found: Any, theirs: ModuleType) -> str | None:
    expected = outcome(case, theirs, evaluate=False)
    if isinstance(expected, Exception):
        # what MLX refuses may have a result; what both refuse, ingot refuses in a sentence
        accepted = not isinstance(found, Exception) or isinstance(found, _REFUSALS)
        return None if accepted else f"raises {found!r}"
    if isinstance(found, Exception):
        return f"raises {found!r}, MLX does not"
    return _shape_difference(found, expected)


def _shape_difference(found: Any, expected: Any) -> str | None:
    if is_array(expected):
        ours, theirs = f"{found.dtype}{found.shape}", f"{expected.dtype}{expected.shape}"
        ours = ours.replace("ingot.core", "mlx.core")
        return None if ours == theirs else f"is {ours} and not {theirs}"
    if isinstance(expected, (list, tuple)):
        pairs = zip(found, expected, strict=True)
        return next(filter(None, (_shape_difference(a, b) for a, b in pairs)), None)
    return None


def _chosen(op: str) -> Iterator[Case]:
    """Some of the variants of some of the cases, spread over all of them."""
    choice = random.Random(op)
    cases = [case for case in CASES[op] if next(_arrays((case.args,)), None) is not None]
    for case in choice.sample(cases, min(len(cases), CASES_OF_AN_OP)):
        variants = list(emptied(case))
        if variants:
            yield choice.choice(variants)


@pytest.mark.parametrize("op", OPS)
def test_empty(op: str, ours: ModuleType, theirs: ModuleType) -> None:
    """Some of the cases of one op."""
    if ours is theirs:
        return
    failures = []
    for case in _chosen(op):
        plain = outcome(case, ours)
        texts = [("compiled", _judged(_compiled(case, ours), plain))]
        if op not in MLX_IS_NO_ORACLE:
            texts.append(("uncompiled", _against_mlx(case, plain, theirs)))
        failures += [f"{case}: {name} {text}" for name, text in texts if text]
    if failures:
        lines = "\n".join(failures)
        pytest.fail(f"{op}: {len(failures)} differences\n{lines}", pytrace=False)
