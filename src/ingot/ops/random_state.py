"""Keys of random numbers: making, splitting, and the state from which functions take their own.

A function that is given no key splits the key in the state: the first half becomes the new state,
the second is used. As in MLX, each thread has a state of its own, and all begin with the same seed,
the time at which the process began to use random numbers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from operator import index
from typing import Any

import numpy as np

from ingot._native import array, constant
from ingot.graph.device import StreamLike
from ingot.graph.dtype import uint32
from ingot.graph.errors import type_name
from ingot.graph.shape import shape_text
from ingot.graph.state import current_state, register_implicit_state
from ingot.ops.random_bits import random_bits
from ingot.ops.slicing import element

__all__ = ["checked_key", "key", "key_or_next", "seed", "split", "state"]


def key(seed: int) -> array:
    """The key that belongs to a seed.

    Args:
        seed: An int from 0 up to 2**64 - 1.

    Returns:
        A uint32 array of shape (2,).
    """
    return _key_of_seed("key", seed)


def _key_of_seed(name: str, seed: int) -> array:
    try:
        number = index(seed)
    except TypeError:
        raise TypeError(f"[{name}] a seed is an int, got {type_name(seed)}.") from None
    if not 0 <= number < 1 << 64:
        raise TypeError(f"[{name}] a seed is from 0 up to 2**64 - 1, got {number}.")
    return constant(np.array([number >> 32, number & 0xFFFFFFFF], np.uint32), uint32)


_FIRST_SEED = time.time_ns() // 1_000_000


class _OfThread(threading.local):
    """What each thread has of its own: a list with its key."""

    def __init__(self) -> None:
        self.keys = [key(_FIRST_SEED)]


class _ThreadKeys(list[array]):
    """A list that is another one in each thread; `compile` and this module only index it."""

    def __init__(self) -> None:
        super().__init__()
        self._own = _OfThread()

    def __len__(self) -> int:
        return len(self._own.keys)

    def __iter__(self) -> Iterator[array]:
        return iter(self._own.keys)

    def __getitem__(self, place: Any) -> Any:
        return self._own.keys[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        self._own.keys[place] = value


_keys = register_implicit_state(_ThreadKeys())


class _RandomState:
    """The key from which functions without one take theirs: `state[0]`, of the thread that asks.

    What it is now can be kept, and put back by assignment. Compiled functions follow it by
    themselves; that it is among their `inputs` or `outputs` changes nothing.
    """

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[array]:
        return iter(current_state(_keys))

    def __getitem__(self, place: int) -> array:
        return current_state(_keys)[_checked_place(place)]

    def __setitem__(self, place: int, value: array) -> None:
        current_state(_keys)[_checked_place(place)] = checked_key("random.state", value)


def _checked_place(place: Any) -> int:
    if not isinstance(place, int):
        raise TypeError(f"[random.state] an index is an int, got {type_name(place)}.")
    if place not in (0, -1):
        raise IndexError(f"[random.state] has one key, so there is none at {place}.")
    return 0


state = _RandomState()


def seed(seed: int) -> None:
    """Start the random numbers of this thread anew, from an int from 0 up to 2**64 - 1."""
    current_state(_keys)[0] = _key_of_seed("seed", seed)


def split(key: array, num: int = 2, stream: StreamLike = None) -> array:
    """New keys from a key, which is not to be used again itself.

    Args:
        key: A key.
        num: How many.
        stream: Where the work belongs.

    Returns:
        The keys, as the rows of an array of shape (num, 2).
    """
    checked_key("split", key)
    if not isinstance(num, int):
        raise TypeError(f"[split] num is an int, got {type_name(num)}.")
    if num < 0:
        raise ValueError(f"[split] cannot make {num} keys.")
    return random_bits(key, (num, 2), stream)


def checked_key(name: str, key: Any) -> array:
    """A key that was given, if it is one."""
    if not isinstance(key, array):
        raise TypeError(f"[{name}] a key is an array, got {type_name(key)}.")
    if key.dtype is not uint32:
        raise ValueError(
            f"[{name}] a key has dtype uint32, got {key.dtype.name}: make it with "
            "mx.random.key(seed)."
        )
    if key.shape != (2,):
        raise ValueError(
            f"[{name}] a key has shape (2), got {shape_text(key.shape)}: for several keys at once "
            "use mx.vmap."
        )
    return key


def key_or_next(name: str, key: array | None) -> array:
    """The key that was given, or the next one of the state."""
    if key is not None:
        return checked_key(name, key)
    keys = current_state(_keys)
    halves = random_bits(keys[0], (2, 2))
    keys[0] = element(halves, 0, 0)
    return element(halves, 0, 1)
