"""Random bits: MLX's generator, which turns a key and a position into a word of 32 random bits.

Input: keys, pairs of uint32. Output: for each key as many words as are asked for. The
generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as
easy as 1, 2, 3; 2011): a cipher, applied to counters. One application makes two words, and MLX puts
the first words of all of them before all of the second. So a word depends on nothing but its key,
its position and the number of words, and the same key gives the same words as in MLX. In compiled
programs each word is computed from its position, inside the kernel that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from ingot._native import Dtype, array, make, random_words
from ingot.graph.device import StreamLike
from ingot.graph.dtype import uint32
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply, no_rule, zero_jvp, zero_vjp
from ingot.graph.roles import Host, PairedMap
from ingot.graph.shape import Shape, size_of
from ingot.ops.internal.adjoints import Broadcast, Reshape
from ingot.ops.internal.positions import IN_PROGRAMS, Positions
from ingot.ops.shape.slicing import Slice

__all__ = ["random_bits"]

_PARITY = 0x1BD11BDA  # mixed into the third word of the key; a constant of the cipher
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_GROUPS = 5  # of four rounds; after each, words of the key are added

_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class RandomBits(Host):
    """For each key of an array of shape (..., 2), an array of `shape` of random uint32."""

    shape: Shape

    why_host = "its words come from a cipher"

    def infer(self, keys: array) -> tuple[Shape, Dtype]:
        return (*keys.shape[:-1], *self.shape), uint32

    def evaluate(self, keys: np.ndarray) -> np.ndarray:
        words = size_of(self.shape)
        pairs = np.ascontiguousarray(keys).reshape(-1, 2)
        result = np.empty((len(pairs), words + words % 2), np.uint32)
        random_words(pairs, words, result)
        return result[:, :words].reshape((*keys.shape[:-1], *self.shape))

    vjp = zero_vjp
    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool, ...], keys: array) -> array:
        return apply(self, keys)

    def expanded(self, build: Callable[..., Any], keys: Any) -> Any | None:
        words = size_of(self.shape)
        batch = keys.shape[:-1]
        shape = (*batch, *self.shape)
        if not 0 < words <= _MASK or size_of(shape) == 0:
            return None
        halves = []
        for half in (0, 1):
            span = (*(0 for _ in batch), half), (*batch, half + 1), (1,) * len(keys.shape)
            column = build(Slice(*span), keys)
            column = build(Reshape((*batch, *(1 for _ in self.shape))), column)
            halves.append(build(Broadcast(shape), column))
        own = tuple(range(len(batch), len(shape)))
        return build(RandomWord(words), build(Positions(shape, own, uint32)), *halves)


@dataclass(frozen=True)
class RandomWord(PairedMap):
    """One of `words` random words, given its position and both halves of the key."""

    words: int

    def infer(self, position: array, first: array, second: array) -> tuple[Shape, Dtype]:
        return position.shape, uint32

    def evaluate(self, position: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        half = np.uint32((self.words + 1) // 2)
        front = position < half
        x = np.where(front, position, position - half)
        y = x + half
        if self.words % 2:
            y = np.where(x == half - 1, np.uint32(0), y)
        mixed = first ^ second ^ np.uint32(_PARITY)
        x, y = _mixed(
            x, y, (first, second, mixed), np.add, np.bitwise_xor, _rotated_words, np.uint32
        )
        return np.where(front, x, y)

    def emit(self, k: Kernel, position: Value, first: Value, second: Value) -> Value:
        half = k.constant((self.words + 1) // 2, position)
        front = k.less(position, half)
        x = k.select(front, position, k.subtract(position, half))
        y = k.add(x, half)
        if self.words % 2:
            last = k.equal(y, k.constant(self.words, position))
            y = k.select(last, k.constant(0, position), y)
        return k.select(front, *_emitted(k, x, y, first, second))

    @property
    def paired_elements(self) -> int:
        return self.words

    def emit_pair(
        self, k: Kernel, position: Value, first: Value, second: Value
    ) -> tuple[Value, Value]:
        half = k.constant((self.words + 1) // 2, position)
        return _emitted(k, position, k.add(position, half), first, second)

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)


def _emitted(k: Kernel, x: Value, y: Value, first: Value, second: Value) -> tuple[Value, Value]:
    """One application of the cipher to the counter (x, y), in a kernel."""

    def number(value: int) -> Value:
        return k.constant(value, x)

    mixed = k.bitwise_xor(k.bitwise_xor(first, second), number(_PARITY))
    return _mixed(x, y, (first, second, mixed), k.add, k.bitwise_xor, k.rotate_left, number)


def _rotated_words(x: np.ndarray, count: int) -> np.ndarray:
    return x << np.uint32(count) | x >> np.uint32(32 - count)


def random_bits(key: array, shape: Shape, stream: StreamLike = None) -> array:
    """Random uint32 of `shape` for a key of shape (2,)."""
    return make(RandomBits(shape), (key,), shape, uint32, stream)


def _mixed(
    x: Any,
    y: Any,
    words: Sequence[Any],
    add: Callable[[Any, Any], Any],
    exclusive_or: Callable[[Any, Any], Any],
    rotated: Callable[[Any, int], Any],
    number: Callable[[int], Any],
) -> tuple[Any, Any]:
    """The cipher in terms of the given arithmetic: of arrays, or of a kernel."""
    x = add(x, words[0])
    y = add(y, words[1])
    for group, rotations in zip(range(1, _GROUPS + 1), cycle(_ROTATIONS), strict=False):
        for rotation in rotations:
            x = add(x, y)
            y = exclusive_or(rotated(y, rotation), x)
        x = add(x, words[group % 3])
        y = add(y, add(words[(group + 1) % 3], number(group)))
    return x, y
