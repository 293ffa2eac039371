"""Which gradients of filters gather patches."""

from __future__ import annotations

import pytest

from ingot.compiler.lower.products.convolution.patches import is_patched
from ingot.compiler.lower.products.convolution.plain import Axis, Layout, Operand, Plain
from ingot.graph.dtype import float32
from ingot.runtime import processor

EMPTY = Operand("unused", float32, Layout((), ()))


def correlation(taps: int, channels: int, outputs: int, step: int = 1) -> Plain:
    """A correlation with as many taps along both axes."""
    axis = Axis(28, taps, 0, 1, step, 28 + (taps - 1) * step)
    axes = (Axis(8, 1, 0, 1, 1, 8), axis, axis)
    return Plain(axes, 1, channels, outputs, EMPTY, EMPTY, EMPTY)


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (correlation(3, 3, 32), True),  # two vectors instead of three
        (correlation(7, 3, 64), True),
        (correlation(3, 5, 40, step=2), True),  # three instead of nine
        (correlation(3, 3, 8), False),  # copied for few outputs
        (correlation(3, 8, 24), False),  # five instead of six
        (correlation(3, 16, 64), False),
        (correlation(1, 3, 64), False),
        (correlation(101, 1, 64), False),  # patches are too long
    ],
    ids=str,
)
def test_patches_fill_vectors(
    plain: Plain, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "ingot.compiler.lower.products.register_tile"
    monkeypatch.setattr(f"{package}.vector_bytes", lambda: processor.WIDTHS[-1] // 8)
    assert is_patched(plain) is expected
