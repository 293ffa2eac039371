"""Checked functions look like plain functions to introspection."""

from __future__ import annotations

import copy
import inspect
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
from ingot._native import Checked


def test_what_is_known_of_a_function() -> None:
    assert isinstance(mx.sum, Checked)
    assert mx.sum.__name__ == "sum"
    assert (mx.sum.__doc__ or "").startswith("Sum of the elements.")
    assert list(inspect.signature(mx.sum).parameters) == ["a", "axis", "keepdims", "stream"]
    # CPython 3.13 forgets that wrapped methods are bound, and lists `self`.
    of_class = [name for name in inspect.signature(nn.Linear).parameters if name != "self"]
    assert of_class == ["input_dims", "output_dims", "bias"]
    assert inspect.isroutine(mx.sum)
    assert weakref.ref(mx.sum)() is mx.sum


@pytest.mark.parametrize("function", [mx.sum, mx.linalg.inv, nn.relu, nn.losses.mse_loss])
def test_copies_are_the_function(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


def test_elementwise_functions_are_not_wrapped() -> None:
    for name in ("exp", "add", "maximum"):
        assert inspect.isfunction(getattr(mx, name))


def test_what_stands_for_a_value_is_converted() -> None:
    x = mx.ones((2, 3))
    for axis in (1, np.int64(1), np.array(1), mx.array(1), True):
        assert mx.sum(x, axis=axis).shape == (2,)
    for shape in ((3, 2), [3, 2], np.array([3, 2]), mx.array([3, 2]), (np.int8(3), 2)):
        assert mx.reshape(x, shape).shape == (3, 2)
    assert mx.sum(x, keepdims=np.bool_(True)).shape == (1, 1)
    for number in (0.5, np.float32(0.5), mx.array(0.5), np.array([0.5])):
        assert mx.allclose(x, x + 0.25, rtol=number).item()


def test_functions_are_constants_of_compiled_ones() -> None:
    compiled = mx.compile(lambda x, reduce: reduce(x, axis=0))
    x = mx.array([[1.0, 5.0], [3.0, 2.0]])
    assert compiled(x, mx.sum).tolist() == [4.0, 7.0]
    assert compiled(x, mx.max).tolist() == [3.0, 5.0]
    assert compiled(x, mx.sum).tolist() == [4.0, 7.0]


def test_arrays_in_sentences_are_not_evaluated() -> None:
    x = mx.ones((2, 3)) + 1
    with pytest.raises(TypeError, match=r"got list: \[array of shape \(2, 3\), float32, 1\]\."):
        mx.concatenate([x, 1])  # type: ignore[list-item]
    assert not x._node.evaluated


def test_symbolic_lengths_stay_so() -> None:
    traced = []

    def flat(x: mx.array) -> mx.array:
        traced.append(x.shape)
        return mx.reshape(x, (x.shape[0] * x.shape[1],)) + mx.zeros((x.shape[0] * x.shape[1],))

    compiled = mx.compile(flat, shapeless=True)
    assert compiled(mx.ones((2, 3))).shape == (6,)
    assert compiled(mx.ones((4, 5))).shape == (20,)
    assert len(traced) == 1
