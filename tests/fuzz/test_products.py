"""A bounded number of random products for every change; `python -m tests.fuzz` runs more."""

from __future__ import annotations

import pytest
from tests.fuzz.check import Difference
from tests.fuzz.products import ProductStatistics, check_product, grow_product

import ingot.core as mx

PRODUCTS = 5


def test_products_are_those_of_numpy_and_mlx(capsys: pytest.CaptureFixture[str]) -> None:
    statistics = ProductStatistics()
    for seed in range(PRODUCTS):
        check_product(grow_product(seed), statistics)
    with capsys.disabled():
        print(f"\nfuzz: {statistics}")
    assert statistics.programs == PRODUCTS
    assert statistics.gradients > 0


def test_products_depend_on_their_seeds_only() -> None:
    assert grow_product(17) == grow_product(17)
    assert grow_product(17).source() != grow_product(18).source()


def test_the_fuzzer_notices_a_wrong_epilogue(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(seed for seed in range(100) if "xp.tanh(y)" in grow_product(seed).epilogue)
    monkeypatch.setattr(mx, "tanh", lambda x: mx.sin(x) + 0.2)
    with pytest.raises(Difference, match=r"product \d+: (.|\n)*def function"):
        check_product(grow_product(seed), ProductStatistics())
