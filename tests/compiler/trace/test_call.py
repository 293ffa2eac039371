"""Calls: what they may change, and NumPy arrays as inputs."""

from __future__ import annotations

import numpy as np
from tests.compiler.compiled_calls import call_of

import ingot.core as mx


def test_calls_run_their_function() -> None:
    call = call_of(lambda x, *, scale: x * scale, 3, kwargs={"scale": 2})
    assert call.run() == 6


def test_roots_begin_with_captured_containers() -> None:
    state, out = [1], [2]
    call = call_of(lambda x: x, 3, inputs=state, outputs=out)
    assert call.roots[:2] == [state, out]
    assert call.args in call.roots


def test_numpy_arrays_become_arrays() -> None:
    x = np.arange(3.0, dtype=np.float32)
    call = call_of(lambda tree: tree["a"][0], {"a": [x, 1]})
    found = call.with_arrays()
    leaf = found.args[0]["a"][0]
    assert isinstance(leaf, mx.array)
    np.testing.assert_array_equal(np.array(leaf), x)
    assert call.args[0]["a"][0] is x, "the caller's own are left alone"


def test_calls_without_any_are_themselves() -> None:
    call = call_of(lambda x: x, mx.zeros(3))
    assert call.with_arrays() is call
