"""The nests that a compiled function becomes, and whether they compute what the function does."""

from __future__ import annotations

from typing import Any

import numpy as np

import ingot.core as mx
from ingot.compiler.forms.nest.data import Nest
from ingot.compiler.forms.nest.text import nest_text
from ingot.graph.tree import arrays_in


def numbers(*shape: int, dtype: Any = mx.float32) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).uniform(-1, 1, shape)).astype(dtype)


def nests_of(function: Any, *args: Any) -> list[Nest]:
    """The nests of a call, whose results are those of the function without `compile`."""
    compiled = mx.compile(function)
    with np.errstate(all="ignore"):
        pairs = zip(arrays_in(compiled(*args)), arrays_in(function(*args)), strict=True)
        for found, expected in pairs:
            wide = np.complex128 if found.dtype == mx.complex64 else np.float64
            a, b = np.array(found).astype(wide), np.array(expected).astype(wide)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return [work.kernel.nest for work in compiled.explain(*args).work if work.kernel is not None]


def texts_of(function: Any, *args: Any) -> list[str]:
    """The same as text."""
    return [nest_text(nest) for nest in nests_of(function, *args)]
