"""Convolutions and their gradients as sums over taps that NumPy adds up in float64."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Case", "convolution", "gradients"]


class Case(NamedTuple):
    """Shapes of input and filters, and the options of `conv_general`, one for each axis."""

    x: tuple[int, ...]
    filters: tuple[int, ...]
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: int = 1
    spread: Any = 1  # input dilation

    def each(self, value: Any) -> tuple[int, ...]:
        """An option for each axis."""
        return (value,) * (len(self.x) - 2) if isinstance(value, int) else tuple(value)

    @property
    def options(self) -> dict[str, Any]:
        """What `conv_general` is given."""
        return {
            "stride": self.stride,
            "padding": self.padding,
            "kernel_dilation": self.dilation,
            "input_dilation": self.spread,
            "groups": self.groups,
        }

    def _placed(self) -> tuple[list[int], tuple[slice, ...], tuple[slice, ...]]:
        """The lengths of the input among zeros, where its elements are, and what padding leaves."""
        lengths, elements, left = [], [slice(None)], [slice(None)]
        each = zip(self.x[1:-1], self.each(self.spread), self.each(self.padding), strict=True)
        for length, spread, padding in each:
            around = max(padding, 0)
            extent = (length - 1) * spread + 1
            lengths.append(extent + 2 * around)
            elements.append(slice(around, around + extent, spread))
            removed = max(-padding, 0)
            left.append(slice(removed, extent + 2 * around - removed))
        return lengths, tuple(elements), tuple(left)

    def padded(self, x: np.ndarray) -> np.ndarray:
        """The input with zeros between and around its elements."""
        lengths, elements, left = self._placed()
        found = np.zeros((self.x[0], *lengths, self.x[-1]), x.dtype)
        found[elements] = x
        return found[left]

    def unpadded(self, x: np.ndarray) -> np.ndarray:
        """The elements alone."""
        lengths, elements, left = self._placed()
        found = np.zeros((self.x[0], *lengths, self.x[-1]), x.dtype)
        found[left] = x
        return found[elements]

    def lengths(self) -> tuple[int, ...]:
        """Of the result, without batch and channels."""
        extents = self.padded(np.zeros(self.x)).shape[1:-1]
        options = self.each(self.stride), self.each(self.dilation)
        each = zip(extents, self.filters[1:-1], *options, strict=True)
        return tuple((n - (k - 1) * d - 1) // s + 1 for n, k, s, d in each)

    def met(self, tap: tuple[int, ...]) -> tuple[slice, ...]:
        """What a tap meets of the padded input."""
        options = self.each(self.stride), self.each(self.dilation)
        each = zip(tap, self.lengths(), *options, strict=True)
        return (slice(None), *(slice(k * d, k * d + (n - 1) * s + 1, s) for k, n, s, d in each))

    def taps(self) -> product[tuple[int, ...]]:
        """The indices of all taps."""
        return product(*map(range, self.filters[1:-1]))


def _grouped(x: np.ndarray, groups: int) -> np.ndarray:
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


def convolution(case: Case, x: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The result in float64."""
    padded = case.padded(x.astype(np.float64))
    outputs, groups = case.filters[0], case.groups
    weights = filters.astype(np.float64).reshape(groups, outputs // groups, *case.filters[1:])
    result = np.zeros((case.x[0], *case.lengths(), groups, outputs // groups))
    for tap in case.taps():
        of_tap = weights[(slice(None), slice(None), *tap)]
        with np.errstate(all="ignore"):
            result += np.einsum("...gc,goc->...go", _grouped(padded[case.met(tap)], groups), of_tap)
    return result.reshape(*result.shape[:-2], outputs)


def gradients(
    case: Case, x: np.ndarray, filters: np.ndarray, cotangent: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The cotangents of input and filters in float64."""
    padded = case.padded(x.astype(np.float64))
    outputs, groups = case.filters[0], case.groups
    weights = filters.astype(np.float64).reshape(groups, outputs // groups, *case.filters[1:])
    given = _grouped(cotangent.astype(np.float64), groups)
    by_x, by_filters = np.zeros(padded.shape), np.zeros(weights.shape)
    for tap in case.taps():
        place = (slice(None), slice(None), *tap)
        met = case.met(tap)
        share = np.einsum("...go,goc->...gc", given, weights[place])
        by_x[met] += share.reshape(*share.shape[:-2], -1)
        pixels = given.reshape(-1, *given.shape[-2:])
        elements = _grouped(padded[met], groups).reshape(len(pixels), groups, -1)
        by_filters[place] = np.einsum("pgo,pgc->goc", pixels, elements)
    return case.unpadded(by_x), by_filters.reshape(case.filters)
