"""The comparison itself: a library that is wrong on purpose is found out."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.oracle.cases.case import Case
from tests.oracle.harness.compare import Close
from tests.oracle.harness.inputs import Array
from tests.oracle.harness.judge import mismatch


def _raise(error: Exception) -> Any:
    raise error


# How a result of MLX is spoilt, and a part of the sentence that reports it.
SPOILT: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "one value": (
        lambda mx, x: mx.where(mx.arange(37) == 5, x + 1, x),
        "1 of 37 values differ: [5]",
    ),
    "one ulp too many": (lambda mx, x: x * (1 + 2**-20), "values differ"),
    "NaN": (lambda mx, x: mx.where(mx.arange(37) == 0, mx.nan, x), "[0]"),
    "infinity": (lambda mx, x: mx.where(mx.arange(37) == 0, mx.inf, x), "[0]"),
    "dtype": (lambda mx, x: x.astype(mx.float16), "has dtype float16"),
    "shape": (lambda mx, x: x[None], "has shape (1, 37)"),
    "no array": (lambda mx, x: x.tolist(), "and not an array"),
    "exception": (lambda mx, x: _raise(ValueError("no")), "raises ValueError(no), MLX does not"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_finds(name: str, theirs: ModuleType) -> None:
    """Each kind of error in the result of exp is reported."""
    spoil, words = SPOILT[name]

    def exp(x: Any) -> Any:
        return spoil(theirs, theirs.exp(x))

    names = {key: getattr(theirs, key) for key in dir(theirs)}
    broken: Any = SimpleNamespace(**{**names, "exp": exp})
    case = Case("exp", (Array("float32", (37,), values="positive"),), close=Close(4, 1))
    assert mismatch(case, theirs, theirs) is None
    assert words in (mismatch(case, broken, theirs) or "")


def test_finds_exceptions(theirs: ModuleType) -> None:
    """A missing exception and one of another type are reported."""
    names = {key: getattr(theirs, key) for key in dir(theirs)}
    case = Case("reshape", (Array("float32", (5,)), (2,)))
    lenient: Any = SimpleNamespace(**{**names, "reshape": lambda x, shape: x})
    assert "does not raise, MLX raises ValueError" in (mismatch(case, lenient, theirs) or "")
    other: Any = SimpleNamespace(**{**names, "reshape": lambda x, shape: _raise(KeyError("a"))})
    assert "raises KeyError('a'), MLX raises ValueError" in (mismatch(case, other, theirs) or "")
