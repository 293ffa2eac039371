"""Pooling: the largest elements or the means of windows of images (N, ..., C), with their rules.

The loop nests behind these ops read windows in subscript, whether they overlap or not, and know the
padding without storing it. Where there are none (integers, lengths that are symbols), pooling is a
reduction of a strided view of the windows, and so are derivatives of higher order.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from itertools import accumulate, product
from math import inf
from operator import mul
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.dtype import is_floating
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply
from ingot.graph.roles import Pooling, PoolingBackward, PoolingWindows
from ingot.graph.shape import MAX_LENGTH, Shape, size_of
from ingot.ops.elementwise.casting import Copy
from ingot.ops.reduce.extremes import Max, max
from ingot.ops.reduce.statistics import mean
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.movement import reshape, transpose
from ingot.ops.shape.padding import pad
from ingot.ops.shape.slicing import broadcast_batch
from ingot.ops.shape.strided import as_strided
from ingot.tuning_products import MIN_POOLING_ALONE

__all__ = ["Pool", "PoolCotangent", "composed_cotangent", "composed_pool", "pool"]

_COPY = Copy()
_REDUCTIONS: dict[str, Callable[..., array]] = {"max": max, "mean": mean}
_PADDING = {"max": -inf, "mean": 0}


def pool(x: array, kind: str, sizes: Shape, steps: Shape, padding: Shape) -> array:
    """The largest elements ("max") or the means ("mean") of the windows of (N, ..., C). Padding is
    never the largest element, and counts as 0 in means.
    """
    # Beyond the longest axis there is one window, however far away the next would be.
    windows = PoolingWindows(sizes, tuple(min(step, MAX_LENGTH) for step in steps), padding)
    has_nest = (
        is_floating(x.dtype)
        and all(type(length) is int for length in x.shape)
        and 0 not in x.shape
        and min(windows.counts(x.shape[1:-1])) > 0
        and all(width < size for width, size in zip(padding, sizes, strict=True))
    )
    # Means of tiles are reductions of a reshaped array, which fuse with what surrounds them.
    is_small = not _native.in_tracing() and size_of(x.shape) < MIN_POOLING_ALONE
    if not has_nest or is_small or (kind == "mean" and _are_tiles(x.shape[1:-1], windows)):
        return composed_pool(x, kind, windows)
    return apply(Pool(kind, windows), x)


def composed_pool(x: array, kind: str, windows: PoolingWindows) -> array:
    """Pooling as a reduction of a view."""
    return _REDUCTIONS[kind](_view(x, windows, _PADDING[kind]), _tap_axes(windows))


def composed_cotangent(cotangent: array, x: array, kind: str, windows: PoolingWindows) -> array:
    """The cotangent of the images, by the rules of the ops that pooling is composed of."""
    return _pulled_back(lambda x: composed_pool(x, kind, windows), x, cotangent)


def _pulled_back(function: Callable[[array], array], x: array, cotangent: array) -> array:
    taken = _native.follow(_COPY, [x])
    (found,) = _native.backward([function(*taken)], [cotangent], taken)
    return zeros(x.shape, x.dtype) if found is None else found


def _tap_axes(windows: PoolingWindows) -> tuple[int, ...]:
    return tuple(range(-len(windows.sizes) - 1, -1))


def _are_tiles(lengths: Shape, windows: PoolingWindows) -> bool:
    """Whether windows tile the images without overlap or rest."""
    return (
        windows.sizes == windows.steps
        and not any(windows.padding)
        and not any(length % size for length, size in zip(lengths, windows.sizes, strict=True))
    )


def _view(x: array, windows: PoolingWindows, padding: float) -> array:
    """The windows of (N, ..., C): an array of shape (N, counts..., sizes..., C)."""
    if any(windows.padding):
        widths = [(0, 0), *((width, width) for width in windows.padding), (0, 0)]
        x = pad(x, widths, constant_values=padding)
    lengths = x.shape[1:-1]
    inside = windows._replace(padding=(0,) * len(lengths))
    if _are_tiles(lengths, inside):
        return _tiles(x, windows.sizes)
    strides = list(accumulate((1, *reversed(x.shape[1:])), mul))[::-1]
    between = [stride * step for stride, step in zip(strides[1:-1], windows.steps, strict=True)]
    return as_strided(
        x,
        (x.shape[0], *inside.counts(lengths), *windows.sizes, x.shape[-1]),
        (strides[0], *between, *strides[1:-1], strides[-1]),
    )


def _tiles(x: array, sizes: Shape) -> array:
    """The windows if they tile the array without overlap."""
    shape = [x.shape[0]]
    for length, size in zip(x.shape[1:-1], sizes, strict=True):
        shape += [length // size, size]
    last = len(shape)
    divided = reshape(x, (*shape, x.shape[-1]))
    return transpose(divided, (0, *range(1, last, 2), *range(2, last, 2), last))


def _merged(size: int, batched: tuple[bool, ...], inputs: tuple[array, ...]) -> list[array]:
    """The inputs of a vmap rule with their batch axis as part of the first."""
    whole = [broadcast_batch(x, size, each) for x, each in zip(inputs, batched, strict=True)]
    return [reshape(x, (size * x.shape[1], *x.shape[2:])) for x in whole]


def _divided(size: int, result: array) -> array:
    return reshape(result, (size, result.shape[0] // size, *result.shape[1:]))


class _Taps:
    """Padded images in NumPy, in the precision of sums, and the elements at each tap."""

    def __init__(self, x: np.ndarray, windows: PoolingWindows, padding: float) -> None:
        dtype = np.float64 if x.dtype == np.float64 else np.float32
        widths = [(0, 0), *((width, width) for width in windows.padding), (0, 0)]
        self.padded = np.pad(x.astype(dtype), widths, constant_values=padding)
        self.windows = windows
        self.counts = windows.counts(x.shape[1:-1])
        self.inside = (
            builtins.slice(None),
            *[
                builtins.slice(width, width + length)
                for width, length in zip(windows.padding, x.shape[1:-1], strict=True)
            ],
        )

    def strided(self) -> Iterator[tuple[builtins.slice, ...]]:
        """For each tap, the subscript of the elements that it has in all windows."""
        for taps in product(*map(range, self.windows.sizes)):
            along = zip(taps, self.windows.steps, self.counts, strict=True)
            yield (
                builtins.slice(None),
                *[builtins.slice(tap, tap + (n - 1) * step + 1, step) for tap, step, n in along],
            )

    def reduced(self, kind: str) -> np.ndarray:
        """The result of pooling."""
        found = [self.padded[subscript] for subscript in self.strided()]
        if kind == "max":
            return np.maximum.reduce(found)
        return np.add.reduce(found) / np.asarray(len(found), self.padded.dtype)


@dataclass(frozen=True)
class Pool(Pooling):
    """The largest element or the mean of each window."""

    kind: str
    windows: PoolingWindows

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return (x.shape[0], *self.windows.counts(x.shape[1:-1]), x.shape[-1]), x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        found = _Taps(x, self.windows, _PADDING[self.kind]).reduced(self.kind)
        return found.astype(x.dtype)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        backward = PoolCotangent(self.kind, self.windows, x.shape[1:-1])
        return (apply(backward, cotangent, *[x][: self.kind == "max"]),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        (tangent,) = tangents
        if tangent is None or self.kind == "mean":
            return None if tangent is None else apply(self, tangent)
        elements, moving = (
            _view(each, self.windows, fill) for each, fill in ((x, -inf), (tangent, 0))
        )
        last = elements.ndim - 1
        axes = tuple(range(last - len(self.windows.sizes), last))
        whole = reshape(out, [1 if axis in axes else n for axis, n in enumerate(elements.shape)])
        found = Max(axes).jvp((moving,), whole, elements)
        return None if found is None else reshape(found, out.shape)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return _divided(size, apply(self, *_merged(size, batched, (x,))))


@dataclass(frozen=True)
class PoolCotangent(PoolingBackward):
    """The cotangent of pooled images: linear in that of the results, and constant otherwise."""

    kind: str
    windows: PoolingWindows
    lengths: Shape

    def infer(self, cotangent: array, *images: array) -> tuple[Shape, Dtype]:
        return (cotangent.shape[0], *self.lengths, cotangent.shape[-1]), cotangent.dtype

    def evaluate(self, cotangent: np.ndarray, *images: np.ndarray) -> np.ndarray:
        shape = (cotangent.shape[0], *self.lengths, cotangent.shape[-1])
        x = images[0] if images else np.zeros(shape, cotangent.dtype)
        taps = _Taps(x, self.windows, _PADDING[self.kind])
        total = np.zeros_like(taps.padded)
        subscripts = list(taps.strided())
        if self.kind == "mean":
            share = cotangent / np.asarray(len(subscripts), total.dtype)
            for subscript in subscripts:
                total[subscript] += share
            return total[taps.inside].astype(cotangent.dtype)
        out = taps.reduced("max")
        hits = [taps.padded[subscript] == out for subscript in subscripts]
        with np.errstate(all="ignore"):
            share = cotangent / np.add.reduce(hits, dtype=total.dtype)
            for subscript, hit in zip(subscripts, hits, strict=True):
                total[subscript] += hit * share
        return total[taps.inside].astype(cotangent.dtype)

    def composed(self, cotangent: array, *images: array) -> array:
        """The cotangent as a composition."""
        shape = (cotangent.shape[0], *self.lengths, cotangent.shape[-1])
        x = images[0] if images else zeros(shape, cotangent.dtype)
        return composed_cotangent(cotangent, x, self.kind, self.windows)

    def vjp(self, cotangent: array, out: array, given: array, *images: array) -> tuple[Any, ...]:
        if self.kind == "mean":
            return (apply(Pool(self.kind, self.windows), cotangent),)
        return (_pulled_back(lambda x: self.composed(x, *images), given, cotangent), None)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        tangent, *_ = tangents
        return None if tangent is None else apply(self, tangent, *inputs[1:])

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> array:
        return _divided(size, apply(self, *_merged(size, batched, inputs)))
