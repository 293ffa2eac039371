"""Functions of C's math library as ufuncs."""

from __future__ import annotations

import ctypes
import gc
import math

import numpy as np
import pytest

from ingot.graph.numerics.c_library import c_function


@pytest.mark.parametrize("name", ["log", "log1p", "exp", "cbrt"])
def test_values_are_those_of_c(name: str) -> None:
    function = getattr(ctypes.CDLL(None), f"{name}f")
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    given = np.random.default_rng(1).uniform(0.1, 5, 500)
    single = given.astype(np.float32)
    expected = np.array([function(value) for value in single.tolist()], np.float32)
    np.testing.assert_array_equal(c_function(name)(single), expected)
    assert c_function(name)(single).dtype == np.float32
    double = [getattr(math, name)(value) for value in given] if hasattr(math, name) else None
    if double is not None:
        np.testing.assert_array_equal(c_function(name)(given), double)


def test_layouts() -> None:
    given = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    log = c_function("log")
    np.testing.assert_array_equal(log(given.T[::-1, ::2]), log(given).T[::-1, ::2])
    assert log(np.float32(1)) == 0
    assert log(np.zeros((0, 2), np.float32)).shape == (0, 2)


def test_it_lives_on() -> None:
    log = c_function("log")
    gc.collect()
    assert c_function("log") is log
    assert log.types == ["f->f", "d->d"]
    assert log(np.float64(math.e)) == 1


def test_no_such_function() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        c_function("nonsense")
