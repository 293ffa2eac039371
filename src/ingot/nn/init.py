"""Initialisers: functions of an array that return a new one of its shape, for `Module.apply`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import ingot.core as mx
from ingot.graph.boundary import check_function
from ingot.graph.reporting.foreign import name_missing

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "normal",
    "orthogonal",
    "sparse",
    "uniform",
]

Initializer = Callable[[mx.array], mx.array]
Fan = Literal["fan_in", "fan_out"]


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser that fills arrays with one value.

    Args:
        value: The value.
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return check_function(initializer, "init.constant", converts=True)


def normal(mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser that draws from a normal distribution.

    Args:
        mean: The mean.
        std: The standard deviation.
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(a.shape, dtype=dtype, loc=mean, scale=std)

    return check_function(initializer, "init.normal", converts=True)


def uniform(low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser that draws from a uniform distribution.

    Args:
        low: The lower bound, inclusive.
        high: The upper bound, exclusive.
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return check_function(initializer, "init.uniform", converts=True)


def identity(dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser that returns identity matrices.

    Args:
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2 or a.shape[0] != a.shape[1]:
            raise ValueError(f"[init.identity] expected a square matrix, got shape {a.shape}.")
        return mx.eye(a.shape[0], dtype=dtype)

    return check_function(initializer, "init.identity", converts=True)


def _fans(name: str, a: mx.array) -> tuple[int, int]:
    """The fan-in and fan-out of weights of shape (outputs, ..., inputs)."""
    if a.ndim < 2:
        raise ValueError(
            f"[init.{name}] Glorot / He initialization requires at least 2 dimensional input, got "
            f"one with {a.ndim} dimensions, of shape {a.shape}."
        )
    outputs, *between, inputs = a.shape
    positions = math.prod(between)
    return max(inputs * positions, 1), max(outputs * positions, 1)  # any value, if empty


def _chosen_fan(name: str, a: mx.array, mode: str) -> int:
    fan_in, fan_out = _fans(name, a)
    if mode == "fan_in":
        return fan_in
    if mode == "fan_out":
        return fan_out
    raise ValueError(f"[init.{name}] mode must be 'fan_in' or 'fan_out', got {mode!r}.")


def glorot_normal(dtype: mx.Dtype = mx.float32) -> Callable[..., mx.array]:
    """An initialiser that draws from a normal distribution, after Glorot and Bengio.

    Its standard deviation is gain * sqrt(2 / (fan_in + fan_out)), where fan_in and fan_out are the
    numbers of inputs and outputs. The initialiser takes the array and `gain`, 1 by default.

    Args:
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        std = gain * math.sqrt(2.0 / sum(_fans("glorot_normal", a)))
        return mx.random.normal(a.shape, dtype=dtype, scale=std)

    return check_function(initializer, "init.glorot_normal", converts=True)


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> Callable[..., mx.array]:
    """An initialiser that draws from a uniform distribution, after Glorot and Bengio.

    It goes from minus to plus gain * sqrt(6 / (fan_in + fan_out)), where fan_in and fan_out are the
    numbers of inputs and outputs. The initialiser takes the array and `gain`, 1 by default.

    Args:
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        limit = gain * math.sqrt(6.0 / sum(_fans("glorot_uniform", a)))
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return check_function(initializer, "init.glorot_uniform", converts=True)


def he_normal(dtype: mx.Dtype = mx.float32) -> Callable[..., mx.array]:
    """An initialiser that draws from a normal distribution, after He and others.

    Its standard deviation is gain / sqrt(fan). The initialiser takes the array; `mode`, which says
    whether fan is the number of inputs ("fan_in", the default) or of outputs ("fan_out"); and
    `gain`, 1 by default.

    Args:
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array, mode: Fan = "fan_in", gain: float = 1.0) -> mx.array:
        std = gain / math.sqrt(_chosen_fan("he_normal", a, mode))
        return mx.random.normal(a.shape, dtype=dtype, scale=std)

    return check_function(initializer, "init.he_normal", converts=True)


def he_uniform(dtype: mx.Dtype = mx.float32) -> Callable[..., mx.array]:
    """An initialiser that draws from a uniform distribution, after He and others.

    It goes from minus to plus gain * sqrt(3 / fan). The initialiser takes the array; `mode`, which
    says whether fan is the number of inputs ("fan_in", the default) or of outputs ("fan_out"); and
    `gain`, 1 by default.

    Args:
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array, mode: Fan = "fan_in", gain: float = 1.0) -> mx.array:
        limit = gain * math.sqrt(3.0 / _chosen_fan("he_uniform", a, mode))
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return check_function(initializer, "init.he_uniform", converts=True)


def sparse(
    sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Initializer:
    """An initialiser that draws matrices from a normal distribution, with zeros in each row.

    Args:
        sparsity: The fraction of each row that is 0.
        mean: The mean.
        std: The standard deviation.
        dtype: The dtype of the new arrays.
    """
    if not 0 <= sparsity <= 1:
        raise ValueError(f"[init.sparse] sparsity must be from 0 to 1, got {sparsity}.")

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(
                f"[init.sparse] takes arrays with 2 dimensions, got one with {a.ndim}, of shape "
                f"{a.shape}."
            )
        rows, columns = a.shape
        order = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)
        zeroed = order[:, : math.ceil(sparsity * columns)]
        values = mx.random.normal(a.shape, dtype=dtype, loc=mean, scale=std)
        values[mx.arange(rows)[:, None], zeroed] = 0
        return values

    return check_function(initializer, "init.sparse", converts=True)


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser that draws orthogonal matrices, truncated if the shape is not square.

    Args:
        gain: A factor for the matrices.
        dtype: The dtype of the new arrays.
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(
                f"[init.orthogonal] requires a 2D array, got a {a.ndim}D array of shape {a.shape}."
            )
        rows, columns = a.shape
        size = max(rows, columns)
        q, r = mx.linalg.qr(mx.random.normal((size, size)), stream=mx.cpu)
        # Fixing the signs makes the distribution uniform over all orthogonal matrices.
        q = q * mx.sign(mx.diag(r))
        return (q[:rows, :columns] * gain).astype(dtype)

    return check_function(initializer, "init.orthogonal", converts=True)


name_missing(globals())
