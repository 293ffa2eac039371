"""Axes of convolutions, and layouts of their operands, against NumPy's views."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compiler.lower.products.convolution.plain import Axis, Layout

X = np.arange(3 * 12 * 8, dtype=np.float32).reshape(3, 12, 8)


def layout_of(x: np.ndarray) -> Layout:
    return Layout(x.shape, x.strides, x.ctypes.data - X.ctypes.data)


@pytest.mark.parametrize(
    "part", [slice(None), slice(1, 9, 2), slice(None, None, -1), slice(8, 2, -3)]
)
def test_slices(part: slice) -> None:
    assert layout_of(X).every(1, part) == layout_of(X[:, part])


@pytest.mark.parametrize("axis", [1, 2])
def test_axes_in_groups(axis: int) -> None:
    shape = list(X.shape)
    shape[axis : axis + 1] = [4, shape[axis] // 4]
    assert layout_of(X).in_groups(axis, 4) == layout_of(X.reshape(shape))


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (X, (288,)),
        (X[:1, :, None], (96,)),
        (X[:, :6], (3, 48)),
        (X[:, :, :4], (36, 4)),
        (X.transpose(0, 2, 1), (3, 8, 12)),
        (X[:1, :1, :1], (1,)),
    ],
)
def test_axes_are_collapsed(x: np.ndarray, shape: tuple[int, ...]) -> None:
    found = layout_of(x).collapsed()
    assert found.shape == shape
    view = np.lib.stride_tricks.as_strided(x, found.shape, found.strides)
    np.testing.assert_array_equal(view.ravel(), x.ravel())
    assert found.offset == layout_of(x).offset


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("pad", [0, 1])
def test_what_windows_reach(stride: int, step: int, pad: int) -> None:
    available, taps = 20, 3
    length = (available + 2 * pad - (taps - 1) * step - 1) // stride + 1
    axis = Axis(length, taps, -pad, stride, step, available)
    met = [-pad + result * stride + tap * step for result in range(length) for tap in range(taps)]
    assert axis.extent(length) == max(met) - min(met) + 1
    assert axis.is_inside == (min(met) >= 0 and max(met) < available)


def test_the_share_inside_is_counted_by_taps() -> None:
    """Results may be many: counting one by one would take forever here."""
    length = 10**12
    assert Axis(length, 3, -1, 1, 1, length).share_inside == pytest.approx(1)
    assert Axis(length, 2, 0, 1, length, length).share_inside == pytest.approx(0.5)
