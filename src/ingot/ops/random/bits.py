"""Random bits: MLX's generator, which turns a key and a position into a word of 32 random bits.

Input: keys, pairs of uint32. Output: for each key as many words as are asked for. The
generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as
easy as 1, 2, 3; 2011): a cipher, applied to counters. One application makes two words, and MLX puts
the first words of all of them before all of the second. So a word depends on nothing but its key,
its position and the number of words, and the same key gives the same words as in MLX. In compiled
programs each word is computed from its position, inside the kernel that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from operator import xor
from typing import Any

import numpy as np

from ingot._native import Dtype, array, make
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
from ingot.tuning import MAX_SCALAR_BITS, RANDOM_SLAB

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
        pairs = keys.reshape(-1, 2)
        applications = (words + 1) // 2
        result = np.empty((len(pairs), 2 * applications), np.uint32)
        first, second = result[:, :applications], result[:, applications:]
        if len(pairs) * applications <= MAX_SCALAR_BITS:
            _fill_few(pairs, words, first, second)
        else:
            for rows, columns in _slabs(len(pairs), applications):
                _fill(pairs[rows], words, columns, first[rows, columns], second[rows, columns])
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


def _fill_few(pairs: np.ndarray, words: int, first: np.ndarray, second: np.ndarray) -> None:
    applications = first.shape[1]
    for row, pair in enumerate(pairs.tolist()):
        for position in range(applications):
            x, y = _encrypted(pair, position, _second_counter(position, words))
            first[row, position] = x
            second[row, position] = y


def _second_counter(position: int, words: int) -> int:
    """The other half of the counter. For an odd number of words, the middle one has no partner."""
    return 0 if 2 * position + 1 == words else position + (words + 1) // 2


def _encrypted(pair: Sequence[int], x: int, y: int) -> tuple[int, int]:
    """One application of the cipher to the counter (x, y)."""

    def added(a: int, b: int) -> int:
        return a + b & _MASK

    def rotated(a: int, count: int) -> int:
        return a << count & _MASK | a >> 32 - count

    words = (*pair, pair[0] ^ pair[1] ^ _PARITY)
    found: tuple[int, int] = _mixed(x, y, words, added, xor, rotated, int)
    return found


def _mixed(
    x: Any,
    y: Any,
    words: Sequence[Any],
    add: Callable[[Any, Any], Any],
    exclusive_or: Callable[[Any, Any], Any],
    rotated: Callable[[Any, int], Any],
    number: Callable[[int], Any],
) -> tuple[Any, Any]:
    """The cipher in terms of the given arithmetic: of numbers, of arrays, or of a kernel."""
    x = add(x, words[0])
    y = add(y, words[1])
    for group, rotations in zip(range(1, _GROUPS + 1), cycle(_ROTATIONS), strict=False):
        for rotation in rotations:
            x = add(x, y)
            y = exclusive_or(rotated(y, rotation), x)
        x = add(x, words[group % 3])
        y = add(y, add(words[(group + 1) % 3], number(group)))
    return x, y


def _slabs(keys: int, applications: int) -> Iterator[tuple[slice, slice]]:
    height = max(1, RANDOM_SLAB // max(1, applications))
    width = min(RANDOM_SLAB, applications)
    for top in range(0, keys, height):
        for left in range(0, applications, width):
            yield slice(top, min(top + height, keys)), slice(left, min(left + width, applications))


def _fill(
    pairs: np.ndarray, words: int, columns: slice, first: np.ndarray, second: np.ndarray
) -> None:
    """Apply the cipher to the counters of `columns` for each key; `_encrypted` for many."""
    key = (pairs[:, :1], pairs[:, 1:], pairs[:, :1] ^ pairs[:, 1:] ^ np.uint32(_PARITY))
    counters = np.arange(columns.start, columns.stop, dtype=np.uint32)
    partners = counters + np.uint32((words + 1) // 2)
    if 2 * columns.stop - 1 == words:
        partners[-1] = 0
    x = counters + key[0]
    y = partners + key[1]
    shifted = np.empty_like(y)
    for group, rotations in zip(range(1, _GROUPS + 1), cycle(_ROTATIONS), strict=False):
        for rotation in rotations:
            x += y
            np.left_shift(y, rotation, out=shifted)
            np.right_shift(y, 32 - rotation, out=y)
            y |= shifted
            y ^= x
        x += key[group % 3]
        y += key[(group + 1) % 3] + np.uint32(group)
    first[...] = x
    second[...] = y
