"""Random choices: integers, bools, indices and permutations, from random bits and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingot._native import Dtype, array
from ingot.graph.arrays.construct import scalar
from ingot.graph.deferred import Deferred
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float32, int32, is_floating, is_inexact
from ingot.graph.errors import type_name
from ingot.graph.shape import broadcast_shapes, normalize_axis, shape_text
from ingot.ops.elementwise.arithmetic import add, multiply, subtract
from ingot.ops.elementwise.casting import as_array, astype, only_array
from ingot.ops.elementwise.comparison import equal, isinf, less, where
from ingot.ops.elementwise.exponential import exp
from ingot.ops.elementwise.extremes import maximum, minimum
from ingot.ops.elementwise.rounding import floor
from ingot.ops.index.indexing import take
from ingot.ops.random.bits import random_bits
from ingot.ops.random.distributions import (
    between,
    check_fit,
    checked_dtype,
    checked_shape,
    gumbel_noise,
    uniform,
)
from ingot.ops.random.state import key_or_next
from ingot.ops.reduce.extremes import argmax, max
from ingot.ops.reduce.reduction import sum
from ingot.ops.reduce.scan import cumsum
from ingot.ops.shape.movement import expand_dims, reshape

if TYPE_CHECKING:
    from ingot.ops.reduce import sorting
else:
    sorting = Deferred("ingot.ops.reduce.sorting")

__all__ = ["bernoulli", "categorical", "permutation", "randint"]


def randint(
    low: Any,
    high: Any,
    shape: Sequence[int] = (),
    dtype: Dtype | None = int32,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Integers from `low` up to `high`, all equally likely; `high` itself is not one of them.

    They are made of float32 numbers, as MLX's are: of intervals that are longer than 2**24, or that
    lie beyond it, not all integers occur.

    Args:
        low: A number or an array that broadcasts to `shape`.
        high: A number or an array that broadcasts to `shape`.
        shape: The shape of the result.
        dtype: An integer dtype or bool.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    lengths = checked_shape("randint", shape)
    wanted = checked_dtype("randint", dtype, int32)
    if is_inexact(wanted):
        raise ValueError(f"[randint] makes integers or bools, not numbers of {wanted.name}.")
    least = as_array("randint", low)
    end = as_array("randint", high)
    check_fit("randint", lengths, least, end)
    used = key_or_next("randint", key)
    low_float, high_float = (astype(bound, float32, stream) for bound in (least, end))
    samples = floor(between(used, low_float, high_float, lengths, float32, stream), stream=stream)
    samples = astype(samples, wanted, stream)
    # Rounding may have left the interval. An empty one gives its lower bound.
    greatest = astype(subtract(end, 1, stream=stream), wanted, stream)
    inside = minimum(samples, greatest, stream=stream)
    return maximum(inside, astype(least, wanted, stream), stream=stream)


def bernoulli(
    p: Any = 0.5,
    shape: Sequence[int] | None = None,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Bools that are true with probability `p`.

    Args:
        p: A probability, or an array of them that broadcasts to `shape`; floating-point.
        shape: The shape of the result; by default that of `p`.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    probability = as_array("bernoulli", p)
    if not is_floating(probability.dtype):
        raise ValueError(f"[bernoulli] p must be floating-point, got {probability.dtype.name}.")
    lengths = probability.shape if shape is None else checked_shape("bernoulli", shape)
    check_fit("bernoulli", lengths, probability)
    words = random_bits(key_or_next("bernoulli", key), lengths, stream)
    # The float32 after 2^32: a probability of 1 is then above all words, and 0 above none.
    limit = multiply(probability, scalar(2.0**32 + 512, float32), stream=stream)
    return less(words, limit, stream=stream)


def categorical(
    logits: array,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    num_samples: int | None = None,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Positions along an axis that are chosen with probabilities in proportion to exp(logits).

    Args:
        logits: An array, of which each row along `axis` is a distribution.
        axis: The axis that is chosen from.
        shape: The shape of the result, to which that of `logits` without the axis broadcasts.
        num_samples: How many samples of each distribution; they become a new last axis.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.

    Returns:
        The positions as uint32; without `shape` and `num_samples` one for each distribution.
    """
    only_array("categorical", logits)
    position = normalize_axis("categorical", axis, logits.ndim)
    length = logits.shape[position]
    lengths = (*logits.shape[:position], *logits.shape[position + 1 :])
    if shape is not None and num_samples is not None:
        raise ValueError(
            f"[categorical] takes shape or num_samples, not both, got shape={shape} and "
            f"num_samples={num_samples}."
        )
    if shape is not None:
        rest, lengths = lengths, checked_shape("categorical", shape)
        if broadcast_shapes("categorical", lengths, rest) != lengths:
            raise ValueError(
                f"[categorical] the shape {shape_text(lengths)} that is asked for has no room for "
                f"distributions of shape {shape_text(rest)}."
            )
        position += len(lengths) - len(rest)
    elif num_samples is not None:
        if not isinstance(num_samples, int):
            raise TypeError(
                f"[categorical] num_samples must be an int, got {type_name(num_samples)}."
            )
        lengths = checked_shape("categorical", (*lengths, num_samples))
        logits = expand_dims(logits, -1, stream=stream)
    if lengths and logits.size == length > 0:
        return _from_one_distribution(logits, lengths, key_or_next("categorical", key), stream)
    # Gumbel-max trick: the argmax of logits plus Gumbel noise has the wanted distribution.
    full = (*lengths[:position], length, *lengths[position:])
    noise = gumbel_noise(key_or_next("categorical", key), full, float32, stream)
    return argmax(add(noise, logits, stream=stream), position, stream=stream)


def _from_one_distribution(
    logits: array, lengths: tuple[int, ...], key: array, stream: StreamLike
) -> array:
    """Inverse transform sampling by binary search in the cumulative weights: one draw
    per sample.
    """
    row = astype(reshape(logits, (logits.size,), stream=stream), float32, stream)
    largest = max(row, stream=stream)
    weights = where(
        isinf(largest, stream=stream),
        astype(equal(row, largest, stream=stream), float32, stream),
        exp(subtract(row, largest, stream=stream), stream=stream),
        stream=stream,
    )
    before = cumsum(weights, inclusive=False, stream=stream)
    numbers = uniform(shape=lengths, key=key, stream=stream)
    sought = multiply(numbers, sum(weights, stream=stream), stream=stream)
    found = sorting.searchsorted(before, sought, side="right", stream=stream)
    return subtract(found, 1, stream=stream)


def permutation(
    x: int | array, axis: int = 0, key: array | None = None, stream: StreamLike = None
) -> array:
    """The numbers below an int in random order, or an array with an axis in random order.

    Args:
        x: An int or an array.
        axis: The axis of the array.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.

    Returns:
        For an int, a uint32 array; for an array one like it.
    """
    if not isinstance(axis, int):
        raise TypeError(f"[permutation] an axis must be an int, got {type_name(axis)}.")
    if isinstance(x, int):
        (length,) = checked_shape("permutation", (x,))
    elif not isinstance(x, array):
        raise TypeError(f"[permutation] takes an int or an array, got {type_name(x)}.")
    else:
        length = x.shape[normalize_axis("permutation", axis, x.ndim)]
    words = random_bits(key_or_next("permutation", key), (length,), stream)
    order = sorting.argsort(words, stream=stream)
    return order if isinstance(x, int) else take(x, order, axis, stream=stream)
