"""Groups of a convolution that share vectors: which ones do, and how many."""

from __future__ import annotations

import pytest

from ingot.compiler.lower.products.convolution.grouped import Chunks, chunks_of
from ingot.compiler.lower.products.convolution.plain import Axis, Layout, Operand, Plain
from ingot.graph.dtype import float32
from ingot.runtime import processor


def grouped(groups: int, channels: int, outputs: int) -> Plain:
    """A correlation of 3 taps along 10 pixels."""

    def operand(name: str, shape: tuple[int, ...]) -> Operand:
        strides = [4]
        for length in reversed(shape[1:]):
            strides.insert(0, strides[0] * length)
        return Operand(name, float32, Layout(shape, tuple(strides)))

    axes = (Axis(1, 1, 0, 1, 1, 1), Axis(10, 3, 0, 1, 1, 12))
    return Plain(
        axes,
        groups,
        channels,
        outputs,
        operand("x", (1, 12, groups, channels)),
        operand("filters", (groups, outputs, 1, 3, channels)),
        operand("results", (1, 10, groups, outputs)),
    )


def processors(monkeypatch: pytest.MonkeyPatch, width: int, datapath: int) -> None:
    """Has the compiler believe in vectors of so many bytes."""
    package = "ingot.compiler.lower.products"
    for module in ("convolution.grouped", "register_tile"):
        monkeypatch.setattr(f"{package}.{module}.vector_bytes", lambda: width)
        monkeypatch.setattr(f"{package}.{module}.datapath_bytes", lambda: datapath)
    registers = 32 if width == processor.WIDTHS[-1] // 8 else 16
    monkeypatch.setattr(f"{package}.convolution.grouped.vector_registers", lambda: registers)


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (grouped(8, 8, 8), Chunks(2, 1, 4, 16)),
        (grouped(32, 4, 4), Chunks(4, 1, 8, 16)),
        (grouped(16, 4, 1), Chunks(16, 1, 1, 16)),
        (grouped(7, 6, 6), Chunks(2, 1, 4, 16)),  # seven groups are four pairs
        (grouped(3, 1, 4), Chunks(4, 1, 1, 16)),
        (grouped(2, 24, 24), Chunks(2, 3, 1, 16)),  # 48 outputs fill three vectors
        (grouped(4, 10, 20), Chunks(4, 5, 1, 16)),
        (grouped(3, 24, 24), None),  # no pair for the last one
        (grouped(2, 12, 12), None),
        (grouped(4, 24, 64), None),
    ],
    ids=str,
)
def test_groups_share_vectors(
    plain: Plain, expected: Chunks | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors(monkeypatch, 64, 64)
    assert chunks_of(plain) == expected


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (grouped(8, 8, 8), None),  # vectors of half the length are as fast
        (grouped(32, 4, 4), Chunks(4, 1, 8, 16)),
    ],
    ids=str,
)
def test_groups_share_vectors_of_two_halves(
    plain: Plain, expected: Chunks | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors(monkeypatch, 64, 32)
    assert chunks_of(plain) == expected


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (grouped(8, 8, 8), None),
        (grouped(32, 4, 4), Chunks(2, 1, 16, 8)),
        (grouped(4, 12, 12), Chunks(2, 3, 2, 8)),
    ],
    ids=str,
)
def test_groups_share_short_vectors(
    plain: Plain, expected: Chunks | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors(monkeypatch, 32, 32)
    assert chunks_of(plain) == expected
