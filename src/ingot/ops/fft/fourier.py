"""Discrete Fourier transforms along one or more axes, and their frequencies.

Values are complex64 or float32, as in MLX, whatever the dtype of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64, float32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.libraries import scipy_fft
from ingot.graph.numerics.blocks import longest_axis
from ingot.graph.numerics.routines import Routine, Spec, computed, routine_of
from ingot.graph.op import apply
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, as_lengths, axes_tuple, normalize_axis, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.fft.passes import fourier_routine, passes
from ingot.ops.reduce.axes import as_int
from ingot.ops.shape.creation import arange
from ingot.ops.shape.joining import roll
from ingot.ops.shape.movement import require_array, reshape
from ingot.ops.shape.padding import pad
from ingot.ops.shape.slicing import Slice
from ingot.tuning_linalg import MIN_FFT_THREAD_ELEMENTS

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Kind = Literal["fftn", "ifftn", "rfftn", "irfftn"]  # SciPy's names
Axes = Sequence[int] | None

_ADJOINTS: dict[Kind, Kind] = {
    "fftn": "ifftn",
    "ifftn": "fftn",
    "rfftn": "irfftn",
    "irfftn": "rfftn",
}
# The adjoint of a transform that divides by the number of elements also divides, in the other
# direction, where the opposite norm has that meaning.
_ADJOINT_NORMS = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_LAST_TWO = (-2, -1)


@dataclass(frozen=True)
class FourierTransform(Host):
    """A transform along `axes`; the real one stores half of the last axis."""

    kind: Kind
    axes: tuple[int, ...]
    length: int  # of the last axis, before "rfftn" or after "irfftn"
    norm: str

    why_host = "its elements depend on all others"

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        lengths = list(x.shape)
        if self.kind == "rfftn":
            lengths[self.axes[-1]] = self.length // 2 + 1
        elif self.kind == "irfftn":
            lengths[self.axes[-1]] = self.length
        return tuple(lengths), float32 if self.kind == "irfftn" else complex64

    def block_axis(self, x: np.ndarray) -> int | None:
        if routine_of(self, (x.shape, x.dtype)) is not None:
            return None  # the extension looks for signals itself
        return longest_axis(x.shape, *self.axes)

    def lengths(self, shape: Shape) -> tuple[int, ...]:
        """Those of the axes; of the last, where it is real."""
        return (*(shape[axis] for axis in self.axes[:-1]), self.length)

    def routine(self, x: Spec) -> Routine | None:
        steps = passes(self.kind, self.axes, self.lengths(x[0]))
        return None if steps is None else fourier_routine(steps, x, self.norm)

    def evaluate(self, x: np.ndarray) -> Any:
        found = computed(self, x)
        if found is not None:
            return found[0]
        lengths = self.lengths(x.shape)
        threads = 1 if x.size < MIN_FFT_THREAD_ELEMENTS else _native.get_num_threads()
        transform = getattr(scipy_fft(), self.kind)
        return transform(x, lengths, self.axes, self.norm, workers=threads)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        back = replace(self, kind=_ADJOINTS[self.kind], norm=_ADJOINT_NORMS[self.norm])
        if self.kind == "rfftn":
            return (apply(back, cotangent / self.multiplicity(cotangent)),)
        if self.kind == "irfftn":
            whole = apply(back, cotangent)
            return (whole * self.multiplicity(whole),)
        return (apply(back, cotangent),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return None if tangents[0] is None else apply(self, tangents[0])

    def vmap(self, size: int, batched: tuple[bool], x: array) -> array:
        return apply(replace(self, axes=tuple(axis + 1 for axis in self.axes)), x)

    def multiplicity(self, half: array) -> array:
        """How often each value of a half spectrum occurs in the full one: once or twice."""
        axis = self.axes[-1]
        positions = arange(half.shape[axis])
        alone = (positions == 0) | (positions * 2 == self.length)
        shape = [1] * half.ndim
        shape[axis] = half.shape[axis]
        return reshape(where(alone, 1.0, 2.0), shape)


def _transformed(
    name: str,
    kind: Kind,
    a: Any,
    lengths: tuple[int, ...] | None,
    axes: tuple[int, ...] | None,
    norm: Any,
    stream: StreamLike,
) -> array:
    require_array(name, a)
    if not isinstance(norm, str):
        raise TypeError(f"[{name}] norm is a string, got {norm!r}.")
    if norm not in _ADJOINT_NORMS:
        raise ValueError(f'[{name}] norm is "backward", "ortho" or "forward", got {norm!r}.')
    if axes is None and lengths is not None:
        raise ValueError(
            f"[{name}] the lengths {shape_text(lengths)} need axes that they belong to: give axes."
        )
    if a.ndim == 0:
        raise ValueError(f"[{name}] takes an array with at least one axis, got a scalar.")
    given = tuple(range(a.ndim)) if axes is None else axes
    if lengths is not None and len(lengths) != len(given):
        raise ValueError(
            f"[{name}] lengths {shape_text(lengths)} and axes {shape_text(given)} differ in number."
        )
    positions = tuple(normalize_axis(name, axis, a.ndim) for axis in given)
    if len(set(positions)) != len(positions):
        raise ValueError(f"[{name}] the axes {shape_text(given)} name an axis twice.")
    if not positions:
        return wrap(a)
    wanted = list(lengths or (a.shape[position] for position in positions))
    if lengths is None and kind == "irfftn":
        wanted[-1] = 2 * (wanted[-1] - 1)
    if any(length < 1 for length in wanted):
        raise ValueError(
            f"[{name}] the transformed axes have at least one element each, got lengths "
            f"{shape_text(wanted)}."
        )
    needed = list(a.shape)
    for position, length in zip(positions, wanted, strict=True):
        needed[position] = length
    if kind == "irfftn":
        needed[positions[-1]] = wanted[-1] // 2 + 1
    values = astype(_fitted(a, tuple(needed), stream), _INPUTS[kind], stream)
    return apply(FourierTransform(kind, positions, wanted[-1], norm), values, stream=stream)


_INPUTS: dict[Kind, Dtype] = {
    "fftn": complex64,
    "ifftn": complex64,
    "rfftn": float32,
    "irfftn": complex64,
}


def _fitted(a: array, shape: Shape, stream: StreamLike) -> array:
    """`a` truncated or zero-padded to the shape."""
    if a.shape == shape:
        return a
    kept = tuple(map(min, a.shape, shape))
    if kept != a.shape:
        op = Slice((0,) * a.ndim, kept, (1,) * a.ndim)
        a = apply(op, a, stream=stream)
    if kept == shape:
        return a
    widths = [(0, new - old) for old, new in zip(kept, shape, strict=True)]
    return pad(a, widths, stream=stream)


def _one(
    name: str, kind: Kind, a: Any, n: int | None, axis: int, norm: str, stream: StreamLike
) -> array:
    lengths = None if n is None else (as_int(name, "n", n),)
    return _transformed(name, kind, a, lengths, (axis,), norm, stream)


def _several(
    name: str, kind: Kind, a: Any, s: Any, axes: Axes, norm: str, stream: StreamLike
) -> array:
    if isinstance(axes, int):
        raise TypeError(f"[{name}] axes must be a sequence of ints, got {axes!r}.")
    lengths = None if s is None else as_lengths(name, s)
    positions = None if axes is None else axes_tuple(name, axes)
    return _transformed(name, kind, a, lengths, positions, norm, stream)


def fft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The discrete Fourier transform along an axis.

    Args:
        a: The array; real values are treated as complex.
        n: The length of the axis, to which it is truncated or zero-padded.
        axis: The axis.
        norm: Which direction divides by the length: "backward" (the inverse transform), "forward"
            (this one) or "ortho" (both, by its root).
        stream: The stream or device to run on.
    """
    return _one("fft", "fftn", a, n, axis, norm, stream)


def ifft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The inverse of `fft`, whose arguments it takes."""
    return _one("ifft", "ifftn", a, n, axis, norm, stream)


def rfft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The discrete Fourier transform of real values along an axis.

    Args:
        a: The array; imaginary parts have no influence.
        n: The length of the axis, to which it is truncated or zero-padded.
        axis: The axis.
        norm: Which direction divides by the length, as in `fft`.
        stream: The stream or device to run on.

    Returns:
        The first half of the transform, `n // 2 + 1` elements, which the others mirror.
    """
    return _one("rfft", "rfftn", a, n, axis, norm, stream)


def irfft(
    a: array,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The inverse of `rfft`.

    Args:
        a: The first half of a transform, as `rfft` returns it.
        n: The length of the axis in the result; by default it is even.
        axis: The axis.
        norm: Which direction divides by the length, as in `fft`.
        stream: The stream or device to run on.
    """
    return _one("irfft", "irfftn", a, n, axis, norm, stream)


def fftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The discrete Fourier transform along several axes.

    Args:
        a: The array; real values are treated as complex.
        s: The lengths of the axes, to which they are truncated or zero-padded.
        axes: The axes; by default all, unless `s` is given.
        norm: Which direction divides by the number of elements, as in `fft`.
        stream: The stream or device to run on.
    """
    return _several("fftn", "fftn", a, s, axes, norm, stream)


def ifftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The inverse of `fftn`, whose arguments it takes."""
    return _several("ifftn", "ifftn", a, s, axes, norm, stream)


def rfftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The discrete Fourier transform of real values along several axes.

    Args:
        a: The array; imaginary parts have no influence.
        s: The lengths of the axes, to which they are truncated or zero-padded.
        axes: The axes; by default all, unless `s` is given.
        norm: Which direction divides by the number of elements, as in `fft`.
        stream: The stream or device to run on.

    Returns:
        The transform, of which the last of the axes has the first half, as with `rfft`.
    """
    return _several("rfftn", "rfftn", a, s, axes, norm, stream)


def irfftn(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """The inverse of `rfftn`; `s` are the lengths of the axes in the result."""
    return _several("irfftn", "irfftn", a, s, axes, norm, stream)


def fft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = _LAST_TWO,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """`fftn` along two axes, by default the last ones."""
    return _several("fft2", "fftn", a, s, axes, norm, stream)


def ifft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = _LAST_TWO,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """`ifftn` along two axes, by default the last ones."""
    return _several("ifft2", "ifftn", a, s, axes, norm, stream)


def rfft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = _LAST_TWO,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """`rfftn` along two axes, by default the last ones."""
    return _several("rfft2", "rfftn", a, s, axes, norm, stream)


def irfft2(
    a: array,
    s: Sequence[int] | None = None,
    axes: Axes = _LAST_TWO,
    norm: str = "backward",
    stream: StreamLike = None,
) -> array:
    """`irfftn` along two axes, by default the last ones."""
    return _several("irfft2", "irfftn", a, s, axes, norm, stream)


def fftfreq(n: int, d: float = 1.0, stream: StreamLike = None) -> array:
    """The frequencies that belong to the elements of `fft` of `n` samples.

    Args:
        n: The number of samples.
        d: The distance between samples.
        stream: The stream or device to run on.
    """
    count = _sample_count("fftfreq", n, d)
    half = count // 2
    positions = (arange(count, stream=stream) + half) % count - half
    return astype(positions, float32, stream) / (count * d)


def rfftfreq(n: int, d: float = 1.0, stream: StreamLike = None) -> array:
    """The frequencies that belong to the elements of `rfft` of `n` samples.

    Args:
        n: The number of samples.
        d: The distance between samples.
        stream: The stream or device to run on.
    """
    count = _sample_count("rfftfreq", n, d)
    return arange(count // 2 + 1, dtype=float32, stream=stream) / (count * d)


def _sample_count(name: str, n: Any, d: Any) -> int:
    count = as_int(name, "n", n)
    if isinstance(d, (complex, str)) or not hasattr(d, "__float__"):
        raise TypeError(f"[{name}] the distance d of samples must be a real number, got {d!r}.")
    if count < 1:
        raise ValueError(f"[{name}] there must be at least one sample, got n={count}.")
    if d == 0:
        raise ValueError(f"[{name}] the distance d of samples cannot be 0.")
    return count


def fftshift(a: array, axes: int | Sequence[int] | None = None, stream: StreamLike = None) -> array:
    """Move the element of frequency 0 to the middle of the axes, by default of all."""
    return _shifted("fftshift", a, axes, 0, stream)


def ifftshift(
    a: array, axes: int | Sequence[int] | None = None, stream: StreamLike = None
) -> array:
    """Undo `fftshift`."""
    return _shifted("ifftshift", a, axes, 1, stream)


def _shifted(name: str, a: Any, axes: Any, rounding: int, stream: StreamLike) -> array:
    require_array(name, a)
    given = range(a.ndim) if axes is None else axes_tuple(name, axes)
    positions = tuple(normalize_axis(name, axis, a.ndim) for axis in given)
    if not positions:
        return wrap(a)
    shifts = tuple((a.shape[position] + rounding) // 2 for position in positions)
    return roll(a, shifts, positions, stream=stream)
