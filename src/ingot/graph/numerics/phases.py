"""The geometry of convolutions, and its decomposition into plain correlations.

Input dilation inserts zeros between the elements of an input. They are never stored: the results
are split into phases, each of which is a plain correlation with a subset of the taps.
"""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import NamedTuple

from ingot.graph.shape import Shape

__all__ = ["Geometry", "Phase", "phases_of"]


class Geometry(NamedTuple):
    """The geometry of a convolution along each axis.

    Tap k of result y reads index y * stride + k * step - before of the dilated input, which has an
    element at every multiple of its spread and zeros elsewhere, also outside.
    """

    strides: Shape
    before: Shape
    steps: Shape
    spreads: Shape


class Phase(NamedTuple):
    """The results along one axis that a plain correlation computes with a subset of the taps.

    For result y of the phase, tap k reads the element `first + y * stride + k * step`.
    """

    results: slice
    taps: slice
    first: int
    stride: int
    step: int


def phases_of(lengths: Shape, taps: Shape, geometry: Geometry) -> list[tuple[Phase, ...]]:
    """All combinations of the phases of all axes."""
    by_axis = zip(lengths, taps, *geometry, strict=True)
    return list(product(*[_phases_of_axis(*parameters) for parameters in by_axis]))


def _phases_of_axis(
    length: int, taps: int, stride: int, before: int, step: int, spread: int
) -> list[Phase]:
    """The results along one axis, grouped by which taps read elements: the others read zeros."""
    if spread == 1:
        return [Phase(slice(None), slice(None), -before, stride, step)]
    every = spread // gcd(stride, spread)
    every_tap = spread // gcd(step, spread)
    found = []
    for result in range(min(every, length)):
        for tap in range(min(every_tap, taps)):
            index = result * stride + tap * step - before
            if index % spread == 0:
                phase = Phase(
                    slice(result, None, every),
                    slice(tap, None, every_tap),
                    index // spread,
                    every * stride // spread,
                    every_tap * step // spread,
                )
                found.append(phase)
                break
    return found
