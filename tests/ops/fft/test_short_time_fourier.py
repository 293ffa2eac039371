"""Short-time Fourier transforms against MLX and SciPy."""

from __future__ import annotations

from typing import Any

import mlx.core
import numpy as np
import pytest
import scipy.signal

import ingot.core as mx

MODULES = (mx, mlx.core)
X = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"n_fft": 16},
    {"n_fft": 15, "hop_length": 5},
    {"n_fft": 16, "win_length": 10},
    {"n_fft": 16, "window": 16},
    {"n_fft": 16, "window": 9, "win_length": 12},
    {"n_fft": 16, "center": False},
    {"n_fft": 16, "pad_mode": "edge"},
    {"n_fft": 16, "pad_mode": "constant", "norm": "ortho"},
    {"n_fft": 16, "norm": "forward", "onesided": False},
]


def with_window(module: Any, options: dict[str, Any]) -> dict[str, Any]:
    given = dict(options)
    if "window" in given:
        given["window"] = module.hanning(given["window"])
    return given


def compare(function: Any, tolerance: float = 2e-4) -> None:
    ours, theirs = (function(module) for module in MODULES)
    assert ours.dtype.name == str(theirs.dtype).removeprefix("mlx.core.")
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_stft_equals_mlx(options: dict[str, Any]) -> None:
    compare(lambda m: m.fft.stft(m.array(X), **with_window(m, options)))


@pytest.mark.parametrize("kind", ["complex64", "float16", "int32"])
def test_stft_of_other_dtypes(kind: str) -> None:
    compare(lambda m: m.fft.stft(m.array(X * 5).astype(getattr(m, kind)), 16), 2e-3)
    if kind == "complex64":
        compare(lambda m: m.fft.stft(m.array(X).astype(m.complex64), 16, onesided=True))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_fft": 17},
        {"window": 16},
        {"window": 16, "length": 90},
        {"length": 130},
        {"center": False, "hop_length": 4},
        {"norm": "ortho"},
        {"onesided": False},
        {"hop_length": 20},
    ],
    ids=str,
)
def test_istft_equals_mlx(options: dict[str, Any]) -> None:
    spectra = np.array(mlx.core.fft.stft(mlx.core.array(X), 16))
    compare(lambda m: m.fft.istft(m.array(spectra), **with_window(m, options)))


def test_there_and_back_again() -> None:
    x = mx.array(X)
    for options in ({"n_fft": 16}, {"n_fft": 32, "window": mx.hanning(32)}):
        again = mx.fft.istft(mx.fft.stft(x, **options), **options, length=100)
        np.testing.assert_allclose(np.array(again)[:, :96], X[:, :96], rtol=1e-4, atol=1e-5)


def test_stft_equals_scipy() -> None:
    window = np.hanning(32).astype(np.float32)
    transform = scipy.signal.ShortTimeFFT(window, 8, 1.0, fft_mode="onesided")
    expected = transform.stft(X, p0=2, p1=10)
    found = mx.fft.stft(mx.array(X), 32, 8, window=mx.array(window), center=False)
    np.testing.assert_allclose(abs(np.array(found))[..., :8], abs(expected), rtol=1e-3, atol=1e-3)


def test_gradient_follows() -> None:
    def energy(x: mx.array) -> mx.array:
        return mx.abs(mx.fft.stft(x, 16, center=False, hop_length=16)).square().sum()

    found = np.array(mx.grad(energy)(mx.array(X[0])))
    frames = X[0, :96].reshape(6, 16)
    spectra = np.fft.rfft(frames)
    exponent = np.exp(2j * np.pi * np.outer(np.arange(9), np.arange(16)) / 16)
    expected = 2 * (spectra @ exponent).real
    np.testing.assert_allclose(found[:96].reshape(6, 16), expected, rtol=1e-3, atol=1e-3)


ERRORS: list[tuple[Any, str]] = [
    (lambda: mx.fft.stft(mx.array(1.0)), "got a scalar"),
    (lambda: mx.fft.stft(mx.ones(9), 0), "n_fft must be positive, got 0"),
    (lambda: mx.fft.stft(mx.ones(9), 4, 0), "hop_length must be positive, got 0"),
    (lambda: mx.fft.stft(mx.ones(9), 4, win_length=5), "at most the 4 samples of a frame, got 5"),
    (lambda: mx.fft.stft(mx.ones(9), 4, window=mx.ones((2, 4))), "a window has one axis"),
    (lambda: mx.fft.stft(mx.ones(9), 4, norm="both"), "backward, ortho, forward, got 'both'"),
    (lambda: mx.fft.stft(mx.ones(9), 4, pad_mode="wrap"), "constant, reflect, edge, got 'wrap'"),
    (lambda: mx.fft.stft(mx.ones(9), 16, center=False), "9 samples has no frame of 16"),
    (lambda: mx.fft.istft(mx.ones(9)), r"got shape \(9\)"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
