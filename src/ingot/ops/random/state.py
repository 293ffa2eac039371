"""Keys of random numbers: creation, splitting, and the global state.

A function without a key argument splits the key in the state: the first half becomes the new state,
the second is used.
"""

from __future__ import annotations

import time
from operator import index
from typing import Any

import numpy as np

from ingot._native import array, constant
from ingot.graph.device import StreamLike
from ingot.graph.dtype import uint32
from ingot.graph.errors import type_name
from ingot.graph.shape import shape_text
from ingot.graph.state import current_state, register_implicit_state, state_lock
from ingot.ops.random.bits import random_bits
from ingot.ops.shape.slicing import element

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
        raise TypeError(f"[{name}] a seed must be an int, got {type_name(seed)}.") from None
    if not 0 <= number < 1 << 64:
        raise TypeError(f"[{name}] a seed is from 0 up to 2**64 - 1, got {number}.")
    return constant(np.array([number >> 32, number & 0xFFFFFFFF], np.uint32), uint32)


# Shared by all threads; compiled functions track it implicitly. Seeded with the time.
state = register_implicit_state([key(time.time_ns() // 1_000_000)])


def seed(seed: int) -> None:
    """Reset the global random state to a seed, an int from 0 up to 2**64 - 1."""
    first = _key_of_seed("seed", seed)
    with state_lock:
        current_state(state)[0] = first


def split(key: array, num: int = 2, stream: StreamLike = None) -> array:
    """New keys from a key, which is not to be used again itself.

    Args:
        key: A key.
        num: How many.
        stream: The stream or device to run on.

    Returns:
        The keys, as the rows of an array of shape (num, 2).
    """
    checked_key("split", key)
    if not isinstance(num, int):
        raise TypeError(f"[split] num must be an int, got {type_name(num)}.")
    if num < 0:
        raise ValueError(f"[split] cannot make {num} keys.")
    return random_bits(key, (int(num), 2), stream)


def checked_key(name: str, key: Any) -> array:
    """Validate a key."""
    if not isinstance(key, array):
        raise TypeError(f"[{name}] a key must be an array, got {type_name(key)}.")
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
    """The given key, or the next one of the state."""
    if key is not None:
        return checked_key(name, key)
    # No two threads may take the same key.
    with state_lock:
        keys = current_state(state)
        halves = random_bits(checked_key("random.state", keys[0]), (2, 2))
        keys[0] = element(halves, 0, 0)
    return element(halves, 0, 1)
