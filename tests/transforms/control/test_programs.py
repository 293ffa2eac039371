"""Bodies that native code loops over, whatever they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.transforms.control.unrolled import close, scanned

import ingot.core as mx
from ingot.transforms.control.programs import program_of

XS = mx.array(np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32))
STEPS: dict[str, Callable[[mx.array, mx.array], Any]] = {
    "one value": lambda c, x: (c * 0.5 + x, x * 2),
    "the same value twice": lambda c, x: (0.9 * c + 0.1 * x, 0.9 * c + 0.1 * x),
    "its inputs": lambda c, x: (x, c),
    "no-ops": lambda c, x: (x.astype(mx.float32), (c.reshape(5), x + c)),
    "a constant": lambda c, x: (c + x, mx.ones(3) * 2),
}


@pytest.mark.parametrize("name", STEPS)
def test_bodies_become_native_loops(name: str) -> None:
    step = STEPS[name]
    found = mx.scan(step, XS[0], XS)
    op: Any = found[0]._node.inputs[0].op
    assert program_of(op.body, op.carries + op.slices).executable.native.can_loop
    close(found, scanned(step, XS[0], XS))
