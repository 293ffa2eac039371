"""Copies that only a plan knows of."""

from __future__ import annotations

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.materialise import Materialise, copy_of
from ingot.graph.dtype import int32
from ingot.graph.op import registry


def test_a_copy_has_the_elements_and_the_line_of_whom_it_is_for() -> None:
    source, reader = Step(None, (), (2, 3), int32), Step(None, (), (), int32, source=7)
    found = copy_of(source, reader)
    assert (found.shape, found.dtype, found.source) == ((2, 3), int32, 7)
    assert found.inputs == (source,)
    x = np.arange(6, dtype=np.int32).reshape(2, 3).T
    copied = found.op.evaluate(x)  # type: ignore[union-attr]
    assert copied.flags.c_contiguous
    np.testing.assert_array_equal(copied, x)


def test_differentiating_it_is_an_error() -> None:
    assert "Materialise" in registry()
    with pytest.raises(ValueError, match="only planned programs"):
        Materialise().vjp(None, None, None)


def test_compiled_functions_copy_what_cannot_be_viewed() -> None:
    report = mx.compile(lambda x: x.T.reshape(-1) + 0).explain(mx.zeros((40, 50)))
    assert len(report.kernels) >= 1
