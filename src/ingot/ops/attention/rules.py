"""Attention as an op that is computed in blocks of queries, with its rules.

It is for sequences whose matrix of scores would be too large; attention over shorter ones is
composed of array operations, which fuse. Its VJP for queries, keys and values is an op of three
outputs that recomputes the scores block by block. All other derivatives (with respect to a mask, of
higher order, and in forward mode) are those of the composition, which builds the matrix.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import cache
from functools import partial as deferred
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.dtype import bool_, float16, float32, float64
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Attend, AttendBackward, Host
from ingot.graph.shape import Shape
from ingot.ops.attention.blocks import Masking, attend, attention_cotangents
from ingot.ops.elementwise.casting import Copy, astype, stop_gradient
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.exponential import exp
from ingot.ops.elementwise.extremes import LARGEST, maximum
from ingot.ops.products.contraction import matmul
from ingot.ops.reduce.extremes import max
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.creation import arange, ones, zeros
from ingot.ops.shape.movement import broadcast_to, expand_dims, reshape, swapaxes
from ingot.ops.shape.slicing import broadcast_batch

__all__ = ["Attention", "AttentionCotangents", "composed_attention", "lowest"]

_COPY = Copy()

Composition = Callable[..., list[array]]


def lowest(dtype: Dtype) -> float:
    """The lowest finite number: the score of a masked key."""
    return -float(np.finfo(np.float64).max) if dtype is float64 else -LARGEST[dtype]


def composed_attention(
    q: array,
    k: array,
    v: array,
    scale: float,
    causal: bool,
    mask: array | None = None,
    sinks: array | None = None,
) -> array:
    """Attention of array operations.

    Args:
        q: Queries (B, heads, queries, D).
        k: Keys (B, heads / n, keys, D), each for n consecutive heads of queries.
        v: Values (B, heads / n, keys, E).
        scale: A factor for the products of queries and keys.
        causal: Whether keys are hidden that come after a query; the last query sees all.
        mask: What is added to the scores (B, heads, queries, keys), or False for hidden keys.
        sinks: For each head of queries, (1, heads) or (B, heads), the score of one more key, which
            has no value.
    """
    dtype = q.dtype
    wide = _wide(dtype)
    q, k, v = (astype(x, wide) for x in (q, k, v))
    batch, heads, queries, _ = q.shape
    shared, keys = k.shape[1:3]
    rows = heads // shared * queries
    grouped = reshape(q, (batch, shared, rows, q.shape[-1]))
    products = matmul(grouped, swapaxes(k, -1, -2))
    scores = reshape(products, (batch, heads, queries, keys)) * scale
    if causal:
        seen = expand_dims(arange(keys - queries, keys), 1) >= arange(keys)
        scores = where(seen, scores, lowest(wide))
    if mask is not None and mask.dtype is bool_:
        scores = where(mask, scores, lowest(wide))
    elif mask is not None:
        scores = scores + astype(mask, wide)
    powers, totals = _powers(scores, None if sinks is None else astype(sinks, wide))
    sums = reshape(
        matmul(reshape(powers, (batch, shared, rows, keys)), v),
        (batch, heads, queries, v.shape[-1]),
    )
    # Dividing last is less work, and with heads after positions, as the next layer needs them, it
    # saves a copy.
    result = swapaxes(swapaxes(sums, 1, 2) / swapaxes(totals, 1, 2), 1, 2)
    return astype(result, dtype)


def _powers(scores: array, sinks: array | None) -> tuple[array, array]:
    """Exponentials of scores, scaled so that the largest of each row is 1, and their row sums."""
    if scores.shape[-1] == 0:
        return scores, ones((*scores.shape[:-1], 1), scores.dtype)
    # Softmax is invariant to the shift, so its derivative is not needed.
    largest = stop_gradient(max(scores, -1, keepdims=True))
    if sinks is None:
        powers = exp(scores - largest)
        return powers, sum(powers, -1, keepdims=True)
    sink = expand_dims(sinks, (2, 3))
    largest = maximum(largest, stop_gradient(sink))
    powers = exp(scores - largest)
    return powers, sum(powers, -1, keepdims=True) + exp(sink - largest)


def _pulled_back(
    function: Composition, inputs: Sequence[array], cotangents: Sequence[array | None]
) -> list[array | None]:
    """The cotangents of `inputs`, given those of a composition's results."""
    taken = _native.follow(_COPY, list(inputs))
    return _native.backward(function(*taken), list(cotangents), taken)


def _pushed_forward(
    function: Composition, inputs: Sequence[array], tangents: Sequence[array | None]
) -> list[array | None]:
    """The tangents of a composition's results.

    The VJP is linear in the cotangents, so its own transpose is the JVP.
    """
    varying = [position for position, tangent in enumerate(tangents) if tangent is not None]

    def pull(*cotangents: array) -> list[array]:
        found = _pulled_back(function, inputs, cotangents)
        return [_zeros_for_none(found[position], inputs[position]) for position in varying]

    seeds = [zeros(output.shape, output.dtype) for output in function(*inputs)]
    return _pulled_back(pull, seeds, [tangents[position] for position in varying])


def _zeros_for_none(x: array | None, like: array) -> array:
    return zeros(like.shape, like.dtype) if x is None else x


@dataclass(frozen=True)
class _InBlocks(Host, abstract=True):
    """Shared by the two ops: a mask and sinks may follow the other inputs."""

    scale: float
    causal: bool
    has_mask: bool

    def masking(self, extras: Sequence[np.ndarray]) -> Masking:
        """The modifiers of the scores, in the form that the computation takes."""
        mask = extras[0] if self.has_mask else None
        sinks = extras[-1] if len(extras) > self.has_mask else None
        return Masking(self.causal, mask, sinks)

    def attention(self, q: array, k: array, v: array, *extras: array) -> list[array]:
        """Attention as a composition."""
        mask = extras[0] if self.has_mask else None
        sinks = extras[-1] if len(extras) > self.has_mask else None
        return [composed_attention(q, k, v, self.scale, self.causal, mask, sinks)]


@dataclass(frozen=True)
class Attention(_InBlocks, Attend):
    """Values weighted by the softmax of scaled and masked products of queries and keys, and
    statistics of the scores, which only the cotangents' op uses: they have no derivative.
    """

    def infer(
        self, q: array, k: array, v: array, *extras: array
    ) -> tuple[tuple[Shape, Dtype], ...]:
        statistic = (q.shape[:-1], _wide(q.dtype))
        return ((*q.shape[:-1], v.shape[-1]), q.dtype), statistic, statistic

    def evaluate(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, *extras: np.ndarray) -> Any:
        return attend(q, k, v, self.scale, self.masking(extras))

    def vjp(
        self, cotangents: Sequence[array | None], outs: tuple[array, ...], *inputs: array
    ) -> tuple[Any, ...]:
        cotangent = cotangents[0]
        if cotangent is None:
            return (None,) * len(inputs)
        backward = AttentionCotangents(self.scale, self.causal, self.has_mask)
        together = cache(lambda: apply_multiple(backward, cotangent, *outs, *inputs))
        found: list[Any] = [
            deferred(lambda position: together()[position], position)
            for position in range(len(inputs) - self.has_mask)
        ]
        if self.has_mask:
            of_mask = None
            if inputs[3].dtype is not bool_:
                of_mask = deferred(lambda: _pulled_back(self.attention, inputs, [cotangent])[3])
            found.insert(3, of_mask)
        return tuple(found)

    def jvp(
        self, tangents: tuple[array | None, ...], outs: tuple[array, ...], *inputs: array
    ) -> tuple[array | None, ...]:
        return _pushed_forward(self.attention, inputs, tangents)[0], None, None

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        results = apply_multiple(self, *_merged(size, batched, inputs))
        return tuple(_split(size, result) for result in results)


_OUTPUTS = 3  # of attention


@dataclass(frozen=True)
class AttentionCotangents(_InBlocks, AttendBackward):
    """The cotangents of queries, keys, values and sinks. The inputs are the cotangent of the
    result, the outputs of attention, and its inputs. The outputs are functions of the inputs, so
    derivatives are taken with respect to the inputs only.
    """

    def followed(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs of attention that have a cotangent here: all but the mask."""
        return [x for position, x in enumerate(inputs) if position != 3 or not self.has_mask]

    def infer(self, cotangent: array, *inputs: array) -> tuple[tuple[Shape, Dtype], ...]:
        return tuple((x.shape, x.dtype) for x in self.followed(inputs[_OUTPUTS:]))

    def evaluate(self, cotangent: np.ndarray, *inputs: np.ndarray) -> Any:
        q, k, v, *extras = inputs[_OUTPUTS:]
        return attention_cotangents(cotangent, q, k, v, self.scale, self.masking(extras))

    def composed(self, cotangent: array, *inputs: array) -> list[array]:
        """The cotangents as a composition."""
        found = self.followed(_pulled_back(self.attention, inputs, [cotangent]))
        followed = self.followed(inputs)
        return [_zeros_for_none(x, like) for x, like in zip(found, followed, strict=True)]

    def vjp(
        self, cotangents: Sequence[array | None], outs: tuple[array, ...], *inputs: array
    ) -> tuple[Any, ...]:
        of_cotangent, *others = _pulled_back(self.composed, _independent(inputs), cotangents)
        return (of_cotangent, *[None] * _OUTPUTS, *others)

    def jvp(
        self, tangents: tuple[array | None, ...], outs: tuple[array, ...], *inputs: array
    ) -> tuple[array | None, ...]:
        varying = _independent(tangents)
        return tuple(_pushed_forward(self.composed, _independent(inputs), varying))

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        if len(inputs) == 4 + _OUTPUTS + self.has_mask:
            results = apply_multiple(self, *_merged(size, batched, inputs))
            return tuple(_split(size, result) for result in results)
        # Each example has its own cotangent of the sinks, even if all share the sinks.
        sinks = broadcast_batch(inputs[-1], size, batched[-1])
        merged = _merged(size, (*batched[:-1], True), (*inputs[:-1], sinks))
        *others, of_sinks = map(deferred(_split, size), apply_multiple(self, *merged))
        if sinks.shape[1] == 1:
            of_sinks = sum(of_sinks, 1, keepdims=True)
        return *others, of_sinks


def _independent(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Drop the entries for the outputs of attention."""
    return (inputs[0], *inputs[1 + _OUTPUTS :])


def _wide(dtype: Dtype) -> Dtype:
    """The dtype of sums."""
    return dtype if dtype.size > float16.size else float32


def _merged(size: int, batched: Sequence[bool], inputs: Sequence[array]) -> list[array]:
    """Inputs of a vmap rule with the batch axis merged into that of examples."""
    examples = builtins.max(
        x.shape[1] if has else x.shape[0] for x, has in zip(inputs, batched, strict=True)
    )
    merged = []
    for x, has in zip(inputs, batched, strict=True):
        if not has and x.shape[0] == 1 and x.shape[0] != examples:
            merged.append(x)  # a mask that is shared by all
            continue
        whole = broadcast_batch(x, size, has)
        shape = whole.shape[2:]
        spread = broadcast_to(whole, (size, examples, *shape))
        merged.append(reshape(spread, (size * examples, *shape)))
    return merged


def _split(size: int, x: array) -> array:
    return reshape(x, (size, x.shape[0] // size, *x.shape[1:]))
