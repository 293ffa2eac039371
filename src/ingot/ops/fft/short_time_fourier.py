"""Short-time Fourier transforms: spectra of overlapping frames of a signal, and the inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64, float32, is_complex
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.complex_numbers import real
from ingot.ops.fft.fourier import fft, ifft, irfft, rfft
from ingot.ops.index.indexing import take
from ingot.ops.index.subscript import at
from ingot.ops.shape.creation import ones, zeros
from ingot.ops.shape.movement import require_array, reshape, swapaxes
from ingot.ops.shape.padding import pad

__all__ = ["istft", "stft"]

_NORMS = ("backward", "ortho", "forward")
_PADDINGS = ("reflect", "edge")
_NOTHING = 1e-11  # a sample whose total window weight is below this cannot be recovered


def stft(
    x: array,
    n_fft: int = 2048,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    norm: str = "backward",
    onesided: bool | None = None,
    stream: StreamLike = None,
) -> array:
    """The spectra of overlapping frames along the last axis.

    Args:
        x: Signals along the last axis.
        n_fft: How many samples a frame has.
        hop_length: How many samples lie between the beginnings of frames: a quarter by default.
        win_length: How many samples of a frame count, unless there is a window: all by default.
        window: Factors for the samples of a frame, or for its middle if it is shorter.
        center: Whether frames are around their samples: the signal is continued at both ends.
        pad_mode: How it is continued: "reflect", "constant" (by zeros) or "edge".
        norm: "backward", "ortho" or "forward"; see `mx.fft.fft`.
        onesided: Whether to leave out negative frequencies: by default if the signal is real.
        stream: The stream or device to run on.

    Returns:
        A complex array (..., frequencies, frames).
    """
    if require_array("stft", x).ndim == 0:
        raise ValueError("[stft] takes signals along an axis, got a scalar.")
    hop = _checked("stft", n_fft, hop_length, norm)
    weights = _window("stft", n_fft, win_length, window)
    signal = x if is_complex(x.dtype) else astype(x, float32, stream)
    if center:
        signal = _continued(signal, n_fft // 2, pad_mode)
    if signal.shape[-1] < n_fft:
        raise ValueError(f"[stft] a signal of {signal.shape[-1]} samples has no frame of {n_fft}.")
    frames = take(signal, array(_frame_indices(signal.shape[-1], n_fft, hop)), axis=-1) * weights
    if onesided is None:
        onesided = not is_complex(x.dtype)
    if onesided and not is_complex(x.dtype):
        spectra = rfft(frames, axis=-1, norm=norm, stream=stream)
    else:
        spectra = fft(frames, axis=-1, norm=norm, stream=stream)
        if onesided:
            spectra = spectra[..., : n_fft // 2 + 1]
    return swapaxes(spectra, -1, -2)


def istft(
    stft_matrix: array,
    n_fft: int | None = None,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: array | None = None,
    center: bool = True,
    norm: str = "backward",
    onesided: bool | None = None,
    length: int | None = None,
    stream: StreamLike = None,
) -> array:
    """The real signals whose spectra `stft` gave: frames are added up and divided by their windows.

    Args:
        stft_matrix: Spectra (..., frequencies, frames).
        n_fft: How many samples a frame has; by default as many as the frequencies tell, and even.
        hop_length: How many samples lie between the beginnings of frames: a quarter by default.
        win_length: How many samples of a frame count, unless there is a window: all by default.
        window: What the samples of a frame were multiplied by.
        center: Whether the signal was continued at both ends.
        norm: "backward", "ortho" or "forward", as it was given to `stft`.
        onesided: Whether negative frequencies were left out: True by default.
        length: The number of samples to which the result is truncated or zero-padded.
        stream: The stream or device to run on.
    """
    if require_array("istft", stft_matrix).ndim < 2:
        raise ValueError(
            "[istft] takes spectra (..., frequencies, frames), got shape "
            f"{shape_text(stft_matrix.shape)}."
        )
    count, frames = stft_matrix.shape[-2:]
    half = onesided is None or onesided
    if n_fft is None:
        n_fft = 2 * (count - 1) if half else count
    hop = _checked("istft", n_fft, hop_length, norm)
    weights = _window("istft", n_fft, win_length, window)
    spectra = swapaxes(astype(stft_matrix, complex64, stream), -1, -2)
    if half:
        samples = irfft(spectra, n_fft, axis=-1, norm=norm, stream=stream)
    else:
        samples = real(ifft(spectra, n_fft, axis=-1, norm=norm, stream=stream))
    total = n_fft + hop * (frames - 1)
    positions = array(_frame_indices(total, n_fft, hop).reshape(-1))
    added = _added(samples * weights, positions, total)
    covered = _added(weights * weights * ones((frames, n_fft)), positions, total)
    signal = where(covered > _NOTHING, added / where(covered > _NOTHING, covered, 1.0), added)
    start = n_fft // 2 if center else 0
    stop = total - start if length is None else min(start + length, total)
    signal = signal[..., start:stop]
    missing = 0 if length is None else length - signal.shape[-1]
    return _padded(signal, 0, missing) if missing > 0 else signal


def _checked(name: str, n_fft: int, hop_length: int | None, norm: str) -> int:
    """The hop length, after checking all arguments."""
    if n_fft <= 0:
        raise ValueError(f"[{name}] n_fft must be positive, got {n_fft}.")
    hop = max(1, n_fft // 4) if hop_length is None else hop_length
    if hop <= 0:
        raise ValueError(f"[{name}] hop_length must be positive, got {hop}.")
    if norm not in _NORMS:
        raise ValueError(f"[{name}] norm is one of {', '.join(_NORMS)}, got {norm!r}.")
    return hop


def _window(name: str, n_fft: int, win_length: int | None, window: Any) -> array:
    """The window of a frame."""
    if window is None:
        weights = ones((n_fft if win_length is None else win_length,))
    else:
        if require_array(name, window).ndim != 1:
            raise ValueError(
                f"[{name}] a window has one axis, got shape {shape_text(window.shape)}."
            )
        weights = astype(window, float32)
    missing = n_fft - weights.shape[0]
    if missing < 0:
        raise ValueError(
            f"[{name}] a window has at most the {n_fft} samples of a frame, got {weights.shape[0]}."
        )
    return _padded(weights, missing // 2, missing - missing // 2)


def _padded(x: array, before: int, after: int) -> array:
    return pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)])


def _continued(signal: array, count: int, mode: str) -> array:
    """A signal padded at both ends."""
    if mode == "constant":
        return _padded(signal, count, count)
    if mode not in _PADDINGS:
        raise ValueError(
            f"[stft] pad_mode must be one of constant, {', '.join(_PADDINGS)}, got {mode!r}."
        )
    if signal.shape[-1] == 0:
        raise ValueError("[stft] a signal without samples cannot be continued.")
    positions = np.pad(np.arange(signal.shape[-1]), count, mode=mode)  # type: ignore[call-overload]
    return take(signal, array(positions), axis=-1)


def _frame_indices(length: int, size: int, hop: int) -> np.ndarray:
    """The sample indices of each frame."""
    starts = np.arange(0, length - size + 1, hop)
    return starts[:, None] + np.arange(size)


def _added(frames: array, positions: array, length: int) -> array:
    """Overlap-add of frames."""
    flat = reshape(frames, (*frames.shape[:-2], frames.shape[-2] * frames.shape[-1]))
    result: array = at(zeros((*flat.shape[:-1], length)))[..., positions].add(flat)
    return result
