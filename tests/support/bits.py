"""Comparing results bit by bit, and arrays that hold every pattern of bits or every edge.

All NaNs count as equal: which NaN an operation gives is no part of any rule here.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["different_bits", "edges", "pairs_of_special", "special", "ulps_apart"]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _is_nan(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        found: np.ndarray = x != x
        return found


def _bits(x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x)
    if x.dtype.kind == "c":
        x = x.view(np.float32)
    return x.view(_UNSIGNED[x.dtype.itemsize])


def _parts(x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x).reshape(-1)
    return x.view(np.float32) if x.dtype.kind == "c" else x


def different_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The positions, in row-major order, at which two arrays of equal dtype differ; parts of
    complex numbers count by themselves.
    """
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    a, b = _parts(a), _parts(b)
    return np.flatnonzero((_bits(a) != _bits(b)) & ~(_is_nan(a) & _is_nan(b)))


def ulps_apart(a: np.ndarray, b: np.ndarray) -> int:
    """The largest distance of two arrays in units of the last place, NaNs apart."""
    a, b = _parts(a), _parts(b)
    numbers = ~(_is_nan(a) & _is_nan(b))
    distance = np.abs(_place(a[numbers]) - _place(b[numbers]))
    return int(distance.max(initial=0))


def _place(x: np.ndarray) -> np.ndarray:
    """The number of a float among all floats of its dtype, counted from 0."""
    sign = 1 << (8 * x.dtype.itemsize - 1)
    bits = _bits(x).astype(object) if x.dtype.itemsize == 8 else _bits(x).astype(np.int64)
    return np.where(bits >= sign, sign - bits, bits)


def edges(dtype: np.dtype, count: int, generator: np.random.Generator) -> np.ndarray:
    """Values that find what is wrong: for types of 8 and 16 bits all there are, else edges and
    random ones of all sizes.
    """
    if dtype.kind == "b":
        return generator.integers(0, 2, count).astype(bool)
    if dtype.itemsize <= 2:
        every = np.arange(1 << (8 * dtype.itemsize), dtype=_UNSIGNED[dtype.itemsize]).view(dtype)
        found = np.resize(every, max(count, every.size) if count > 256 else count)
        generator.shuffle(found)
        return found
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = generator.integers(limits.min, limits.max, count, dtype, endpoint=True)
        values[: count // 2] >>= generator.integers(0, limits.bits - 1, count // 2).astype(dtype)
        values[:6] = special(dtype)
        return values
    if dtype.kind == "c":
        pairs: Any = edges(np.dtype(np.float32), 2 * count, generator)
        generator.shuffle(pairs)
        return pairs.view(dtype)
    values = generator.uniform(-4, 4, count)
    values[: count // 2] *= np.exp(generator.uniform(-60, 60, count // 2))
    values = values.astype(dtype)
    found = special(dtype)
    values[: found.size] = found
    return values


def special(dtype: np.dtype) -> np.ndarray:
    """The values of a dtype that operations treat in ways of their own."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, limits.min, limits.max, limits.max - 1], dtype)
    if dtype.kind == "c":
        parts = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    limits = ml_dtypes.finfo(dtype)
    found = [0.0, 1, 0.5, 2, 1.5, 2.5, np.inf, np.nan, float(limits.max), float(limits.tiny)]
    found += [float(limits.smallest_subnormal), 3.0, 1e-3, 127, 255.5, 32768, 65536, 2**31, 2**63]
    with np.errstate(over="ignore"):
        positive = np.array(found).astype(dtype)
    return np.concatenate([positive, -positive])


def pairs_of_special(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Every special value beside every other one."""
    found = special(dtype)
    return np.repeat(found, found.size), np.tile(found, found.size)
