"""Transforms of many functions of integers give what MLX gives; see `walk/derivatives.py`."""

from __future__ import annotations

import re

import pytest
from tests.oracle.walk.compare import difference
from tests.oracle.walk.derivatives import FUNCTIONS, INDEXED, transforms
from tests.oracle.walk.environment import environment
from tests.oracle.walk.known import reason
from tests.oracle.walk.outcome import call

KNOWN = {library: environment(library) for library in ("mlx", "ingot")}


@pytest.mark.parametrize("function", FUNCTIONS + INDEXED)
def test_transforms(function: str) -> None:
    wrong = []
    for text in transforms(function, "int32"):
        found, expected = (call(text, KNOWN[library]) for library in ("ingot", "mlx"))
        unequal = difference(found, expected)
        if unequal is not None and reason(text, unequal) is None:
            wrong.append(f"{text}\n    {unequal.kind}: {unequal.text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("function", INDEXED)
@pytest.mark.parametrize("transform", ["grad", "vjp", "jvp"])
def test_no_derivative_by_indices(function: str, transform: str) -> None:
    """The words that MLX's users look for."""
    texts = [text for text in transforms(function, "int32") if f"mx.{transform}(" in text]
    assert texts
    for text in texts:
        found = call(text, KNOWN["ingot"])
        assert re.search("stop_gradient", found.text), found
