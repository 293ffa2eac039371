"""Fourier transforms. Complex numbers are complex64: ingot has no wider ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ingot.core as mx
from ingot.array_api.array import Array, check_device, default_float, unwrap, wrap

__all__ = """
    fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn
""".split()


def _along(function: Any, x: Array, n: int | None, axis: int, norm: str) -> Array:
    return wrap(function(unwrap(x), n, axis, norm))


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform along an axis."""
    return _along(mx.fft.fft, x, n, axis, norm)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse transform along an axis."""
    return _along(mx.fft.ifft, x, n, axis, norm)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform of real numbers along an axis."""
    return _along(mx.fft.rfft, x, n, axis, norm)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `rfft`."""
    return _along(mx.fft.irfft, x, n, axis, norm)


_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform of a signal with Hermitian symmetry, which is real."""
    return wrap(mx.fft.irfft(mx.conjugate(unwrap(x)), n, axis, _OPPOSITE[norm]))


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `hfft`."""
    return wrap(mx.conjugate(mx.fft.rfft(unwrap(x), n, axis, _OPPOSITE[norm])))


def _over(
    function: Any, x: Array, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str
) -> Array:
    if s is not None and axes is None:
        axes = range(-len(s), 0)
    lengths = None if s is None else list(s)
    return wrap(function(unwrap(x), lengths, None if axes is None else list(axes), norm))


def fftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The transform along several axes."""
    return _over(mx.fft.fftn, x, s, axes, norm)


def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The inverse transform along several axes."""
    return _over(mx.fft.ifftn, x, s, axes, norm)


def rfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The transform of real numbers along several axes."""
    return _over(mx.fft.rfftn, x, s, axes, norm)


def irfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The inverse of `rfftn`."""
    return _over(mx.fft.irfftn, x, s, axes, norm)


def _frequencies(function: Any, n: int, d: float, dtype: Any, device: Any) -> Array:
    check_device(device)
    wanted = dtype or default_float
    return wrap(mx.array(function(n, d).astype(wanted.numpy), wanted))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of `fft`."""
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of `rfft`."""
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """The spectrum with frequency 0 in the middle."""
    return wrap(mx.fft.fftshift(unwrap(x), _axes(axes)))


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`."""
    return wrap(mx.fft.ifftshift(unwrap(x), _axes(axes)))


def _axes(axes: int | Sequence[int] | None) -> list[int] | None:
    if axes is None:
        return None
    return [axes] if isinstance(axes, int) else list(axes)
