"""The extension for Fourier transforms."""

from __future__ import annotations

import pytest
from tests.array_api.comparison import DATA, compare


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier_transforms(norm: str) -> None:
    real, spectrum = DATA["float32"], DATA["complex64"]
    for name in ("fft", "ifft", "irfft", "hfft"):
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, norm=norm), spectrum)
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, n=5, axis=0), spectrum)
    for name in ("rfft", "ihfft", "rfftn"):
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, norm=norm), real)
    for name in ("fftn", "ifftn", "irfftn"):
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, norm=norm), spectrum)
    compare(lambda ns, x: (ns.fft.fftshift(x), ns.fft.ifftshift(x, axes=1)), real)
    compare(lambda ns: (ns.fft.fftfreq(6, d=0.5), ns.fft.rfftfreq(7)))
