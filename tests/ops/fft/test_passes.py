"""Transforms of all lengths by the extension, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.graph.numerics.routines import computed
from ingot.ops.fft.fourier import FourierTransform, Kind
from ingot.ops.fft.passes import _convolution_length, passes
from ingot.tuning_linalg import MAX_ROWS_WITHOUT_PLAN

# small factors; odd and smooth; primes; with large factors
LENGTHS = [1, 2, 3, 8, 9, 15, 17, 19, 31, 34, 46, 101, 225, 257, 512, 997, 1009, 1034, 2187, 4099]


def random(shape: tuple[int, ...], kind: str) -> np.ndarray:
    rng = np.random.default_rng(shape[-1])
    x = rng.normal(size=shape)
    return x if kind == "rfftn" else x + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("kind", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_along_both_axes(kind: Kind, length: int) -> None:
    stored = length // 2 + 1 if kind == "irfftn" else length
    for norm in ("backward", "ortho"):
        for rows, axis in ((1, 1), (3, 1), (18, 1), (1, 0), (4, 0), (37, 0)):
            shape = (rows, stored) if axis == 1 else (stored, rows)
            x = random(shape, kind)
            narrow = x.astype(np.float32 if kind == "rfftn" else np.complex64)
            found = computed(FourierTransform(kind, (axis,), length, norm), narrow)
            if found is None:  # left to SciPy
                assert rows > MAX_ROWS_WITHOUT_PLAN
                assert length > 4096 or (length % 2 == 1 and length in (1, 3, 9, 15, 225, 2187))
                continue
            name = kind[:-1]
            expected = getattr(np.fft, name)(narrow.astype(x.dtype), length, axis, norm)
            assert found[0].dtype == (np.float32 if kind == "irfftn" else np.complex64)
            scale = float(np.abs(expected).max())
            np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-6 * max(scale, 1e-3))


def test_several_axes_of_any_length() -> None:
    x = random((2, 3, 22), "rfftn").astype(np.float32)
    found = computed(FourierTransform("rfftn", (0, 1, 2), 22, "backward"), x)
    assert found is not None
    np.testing.assert_allclose(found[0], np.fft.rfftn(x), atol=1e-3)
    back = computed(FourierTransform("irfftn", (0, 1, 2), 22, "backward"), found[0])
    assert back is not None
    np.testing.assert_allclose(back[0], x, atol=1e-5)


def test_lengths_of_convolutions() -> None:
    for length in (2, 17, 101, 997, 4099, 10007):
        total = _convolution_length(length)
        assert 2 * length - 1 <= total < 4 * length + 32
        for prime in (2, 3, 5, 7):
            while total % prime == 0:
                total //= prime
        assert total == 1


def test_very_long_axes_are_left_to_scipy() -> None:
    assert passes("fftn", (0,), (1 << 22,)) is not None
    assert passes("rfftn", (0,), (3**11,)) is not None
    assert passes("fftn", (0,), ((1 << 22) + 15,)) is None
    assert passes("rfftn", (0,), ((1 << 16) + 1,)) is None  # a prime
