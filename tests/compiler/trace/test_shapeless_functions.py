"""Every function that takes shapes, sizes or slices, with sizes from `x.shape` inside a shapeless
compiled function: for several shapes what MLX gives, or the error of the uncompiled call.

A public function that takes a number of elements and has no call here fails a test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.compiler.sized_calls import CALLS, EXEMPT
from tests.oracle.harness.compare import to_numpy

import ingot.core as mx

SHAPES = [(4, 6), (7, 3), (5, 5), (1, 2)]
MODULES = {"": mx, "fft.": mx.fft, "linalg.": mx.linalg, "fast.": mx.fast, "random.": mx.random}
# Parameters that are ints but no sizes.
PLAIN = {"axis", "axes", "axis1", "axis2", "start_axis", "end_axis", "source", "destination"}


def values(shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def outcome(function: Callable[..., Any], x: Any) -> Any:
    """The results as NumPy arrays, or the exception."""
    try:
        found = function(x)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        return [item if isinstance(item, int) else to_numpy(item) for item in found]
    except Exception as error:  # Every exception is an outcome to compare.
        return error


def sentence(error: Exception) -> str:
    """What an error says, without the name of the function, of which a subscript has several."""
    return str(error).partition("] ")[2]


def takes_sizes(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any("int" in str(p.annotation) and p.name not in PLAIN for p in parameters)


def test_every_function_that_takes_sizes_is_called() -> None:
    named = {
        prefix + name
        for prefix, module in MODULES.items()
        for name in dir(module)
        if not name.startswith("_") and not inspect.isclass(getattr(module, name))
        if takes_sizes(getattr(module, name))
    }
    called = {name.split(":")[0] for name in CALLS}
    assert not named - called - set(EXEMPT), f"add calls of {sorted(named - called - set(EXEMPT))}"
    assert not called & set(EXEMPT)


@pytest.mark.parametrize("name", CALLS)
def test_sizes_from_a_shape(name: str) -> None:
    call = CALLS[name]
    compiled = mx.compile(lambda x: call(mx, x), shapeless=True)
    for shape in SHAPES:
        x = values(shape)
        found = outcome(compiled, mx.array(x))
        plain = outcome(lambda x: call(mx, x), mx.array(x))
        if isinstance(plain, Exception):
            assert type(found) is type(plain), f"{shape}: {found!r} and not {plain!r}"
            assert sentence(found) == sentence(plain), shape
            assert type(plain) in (ValueError, IndexError), f"{shape}: {plain!r}"
            continue
        if isinstance(found, Exception):
            raise AssertionError(str(shape)) from found
        expected = outcome(lambda x: call(mlx, x), mlx.array(x))
        assert not isinstance(expected, Exception), f"{shape}: MLX raises {expected!r}"
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert np.shape(ours) == np.shape(theirs), shape
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=str(shape))
