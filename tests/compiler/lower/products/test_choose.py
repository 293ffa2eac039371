"""Which products become loop nests."""

from __future__ import annotations

from tests.compiler.compiled_calls import traced
from tests.compiler.lower.nests_of_calls import numbers

import ingot.core as mx
from ingot.compiler.lower.products.choose import lower_product
from ingot.graph.shape import contiguous


def test_other_ops_have_no_nests() -> None:
    tape = traced(lambda x: mx.sort(mx.exp(x)), numbers(4, 5)).tape
    strides = {step: contiguous(step.shape, step.dtype.size) for step in tape.steps}
    assert all(lower_product(step, strides) is None for step in tape.steps if step.op is not None)
