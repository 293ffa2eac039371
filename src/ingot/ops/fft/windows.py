"""Windows: tapers for signals, largest in the middle and small at both ends."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float32
from ingot.ops.elementwise.arithmetic import abs
from ingot.ops.elementwise.powers import square
from ingot.ops.elementwise.trigonometry import cos, sin
from ingot.ops.shape.creation import arange, ones, zeros

__all__ = ["bartlett", "blackman", "hamming", "hanning"]


def _window(name: str, M: int, shape: Callable[[array], array], stream: StreamLike) -> array:
    """`shape` of the positions 0 to M - 1; no points for M below 1 and a single one for M = 1."""
    if not isinstance(M, int):
        raise TypeError(f"[{name}] the number of points must be an int, got {M!r}.")
    if M < 1:
        return zeros((0,), stream=stream)
    if M == 1:
        return ones((1,), stream=stream)
    return shape(arange(0, M, 1, float32, stream=stream))


def bartlett(M: int, *, stream: StreamLike = None) -> array:
    """The Bartlett window of M points: a triangle that is 0 at both ends."""
    middle = (M - 1) / 2
    return _window("bartlett", M, lambda n: 1 - abs((n - middle) / middle), stream)


def blackman(M: int, *, stream: StreamLike = None) -> array:
    """The Blackman window of M points: `0.42 - 0.5 cos(x) + 0.08 cos(2x)` with x from 0 to 2 pi."""
    step = 2 * pi / max(M - 1, 1)

    def shape(n: array) -> array:
        return 0.42 + 0.08 * cos(n * (2 * step)) - 0.5 * cos(n * step)

    return _window("blackman", M, shape, stream)


def hamming(M: int, *, stream: StreamLike = None) -> array:
    """The Hamming window of M points: `0.54 - 0.46 cos(x)` with x from 0 to 2 pi."""
    step = 2 * pi / max(M - 1, 1)
    return _window("hamming", M, lambda n: 0.54 - 0.46 * cos(n * step), stream)


def hanning(M: int, *, stream: StreamLike = None) -> array:
    """The Hanning window of M points: `0.5 - 0.5 cos(x)` with x from 0 to 2 pi."""
    step = pi / max(M - 1, 1)
    # Equal to the square of a sine, which does not cancel at the ends.
    return _window("hanning", M, lambda n: square(sin(n * step)), stream)
