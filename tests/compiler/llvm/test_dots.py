"""Products of packed numbers: bytes and halves, with and without the processor's instructions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import CompiledLoop

from ingot.compiler.llvm import dots
from ingot.compiler.llvm.conversions import Element
from ingot.graph.dtype import float32, int32, uint32

GENERATOR = np.random.default_rng(5)


@pytest.fixture(params=["as it is", "without vector instructions"])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "as it is":
        monkeypatch.setattr(dots, "processor_features", frozenset)


def test_bytes(processor: None) -> None:
    a = GENERATOR.integers(0, 256, (50, 4)).astype(np.uint8)
    b = GENERATOR.integers(-128, 128, (50, 4)).astype(np.int8)
    total = GENERATOR.integers(-1000, 1000, 50).astype(np.int32)
    loop = CompiledLoop(
        [int32, uint32, uint32],
        int32,
        lambda k, v: Element(dots.bytes(k.code, *(x.register for x in v)), int32),
    )
    found = loop(total, a.view(np.uint32).ravel(), b.view(np.uint32).ravel())
    np.testing.assert_array_equal(found, total + (a.astype(int) * b.astype(int)).sum(1))


def test_halves(processor: None) -> None:
    x, y = (GENERATOR.integers(-8, 8, (50, 2)).astype(np.float32) for _ in range(2))
    words = [(z.view(np.uint32) >> 16).astype(np.uint16).view(np.uint32).ravel() for z in (x, y)]
    total = np.arange(50, dtype=np.float32)
    loop = CompiledLoop(
        [float32, uint32, uint32],
        float32,
        lambda k, v: Element(dots.bfloat16(k.code, *(x.register for x in v)), float32),
    )
    np.testing.assert_array_equal(loop(total, *words), total + (x * y).sum(1))
