"""Tables in registers: with and without the processor's permutations."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import run_nest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import verify
from ingot.compiler.llvm import lookup
from ingot.graph.dtype import float32, uint32

TABLE = tuple(np.random.default_rng(3).normal(size=16).astype(np.float32).tolist())
FEATURES = [{"avx512f", "avx512vl"}, {"avx2"}, set[str]()]


@pytest.mark.parametrize("lanes", [1, 2, 8, 16, 64])
@pytest.mark.parametrize("features", FEATURES, ids=lambda found: "-".join(sorted(found)))
def test_lowest_bits_choose(
    features: set[str], lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = lookup.processor_features()
    monkeypatch.setattr(lookup, "processor_features", lambda: here & features)
    builder = NestBuilder()
    x = builder.buffer("x", uint32, (lanes,), (4,), 0)
    y = builder.buffer("y", float32, (lanes,), (4,), 1)
    with builder.parallel(()):
        at = (affine(0),)
        index = builder.load(x, at) if lanes == 1 else builder.load_lanes(x, at, lanes)
        builder.store(builder.words.lookup(index, TABLE), y, at)
    verify(builder.nest)
    assert "lookup(" in nest_text(builder.nest)
    words = np.random.default_rng(lanes).integers(0, 2**32, lanes, dtype=np.uint32)
    wanted = np.array(TABLE, np.float32)[words & 15]
    for run in (run_nest, interpret):
        found = np.zeros(lanes, np.float32)
        run(builder.nest, [words, found])
        np.testing.assert_array_equal(found, wanted)
