"""Maps in pairs: random bits of two elements for one application of the cipher."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of

import ingot.core as mx
from ingot.compiler.forms.nest.data import Store
from ingot.compiler.forms.nest.traversal import statements

KEY = mx.random.key(3)


@pytest.mark.parametrize("shape", [(8,), (9,), (6, 4), (1,)])
def test_pairs_are_the_numbers_of_single_elements(shape: tuple[int, ...]) -> None:
    (nest,) = nests_of(lambda: mx.random.uniform(shape=shape, key=KEY))
    stores = [len([x for x in statements(r.body) if isinstance(x, Store)]) for r in nest.parallel]
    odd = len(shape) == 1 and shape[0] % 2
    if shape != (1,):
        assert stores == ([2, 1] if odd else [2])


def test_a_loop_covers_half_of_the_elements() -> None:
    (nest,) = nests_of(lambda: mx.random.uniform(shape=(10,), key=KEY))
    assert nest.parallel[0].lengths == (5,)


def test_other_keys_give_other_numbers() -> None:
    compiled = mx.compile(lambda key: mx.random.uniform(shape=(64,), key=key))
    a, b = (np.array(compiled(mx.random.key(seed))) for seed in (1, 2))
    assert (a != b).mean() > 0.9
