"""Products of packed numbers: bytes and halves, with and without the processor's instructions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import CompiledLoop

from ingot.compiler.llvm import dots
from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.conversions import Element
from ingot.graph.dtype import float32, int32, uint32
from ingot.runtime.processor import processor_features

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


@pytest.mark.parametrize("count", [4, 8, 50, 51])
def test_pairs(processor: None, count: int) -> None:
    """Sums of codes of four bits and signed bytes, which 16 bits hold at their extremes, too."""
    a = GENERATOR.integers(0, 16, (8, count, 4)).astype(np.uint8)
    b = GENERATOR.integers(-128, 128, (8, count, 4)).astype(np.int8)
    a[:, 0], b[:, 0], a[:, 1], b[:, 1] = 15, -128, 15, 127
    loop = CompiledLoop(
        [uint32, uint32, uint32],
        uint32,
        lambda k, v: Element(dots.pairs(k.code, *(x.register for x in v)), uint32),
    )
    pairs = np.zeros(count, np.uint32)
    for left, right in zip(a, b, strict=True):
        pairs = loop(pairs, left.view(np.uint32).ravel(), right.view(np.uint32).ravel())
    products = (a.astype(int) * b.astype(int)).sum(0).reshape(-1, 2, 2).sum(-1)
    np.testing.assert_array_equal(pairs.view(np.int16).reshape(-1, 2), products)
    total = GENERATOR.integers(-(1 << 30), 1 << 30, count).astype(np.int32)
    add = CompiledLoop(
        [int32, uint32],
        int32,
        lambda k, v: Element(dots.add_pairs(k.code, *(x.register for x in v)), int32),
    )
    np.testing.assert_array_equal(add(total, pairs), total + products.sum(1))


@pytest.mark.parametrize("lanes", [4, 8])
def test_instructions_for_vectors(lanes: int) -> None:
    """LLVM's loops call no intrinsics of x86: in bundles, pairs are multiplied by one."""
    features = processor_features()
    if ("avx2" if lanes == 8 else "ssse3") not in features:
        return
    code, words = Code(), [Register(f"%{name}", f"<{lanes} x i32>") for name in "tab"]
    dots.add_pairs(code, words[0], dots.pairs(code, *words))
    assert [line.count("pmadd") for line in code.lines].count(1) == 2


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
