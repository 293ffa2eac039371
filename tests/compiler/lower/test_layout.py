"""Layouts: strides of contiguous arrays, and views as offsets and strides, against NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.lower.layout import layout_of_view
from ingot.graph.roles import View
from ingot.graph.shape import contiguous


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 1, 3), (2, 0, 3)])
def test_contiguous(shape: tuple[int, ...]) -> None:
    expected = np.zeros(shape, np.float32).strides
    found = contiguous(shape, 4)
    assert (
        all(a == b or n <= 1 for a, b, n in zip(found, expected, shape, strict=True)) or 0 in shape
    )
    assert len(found) == len(shape)


VIEWS: dict[str, tuple[Any, Any]] = {
    "transposed": (lambda x: x.T, lambda x: x.T),
    "sliced": (lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
    "backwards": (lambda x: x[::-1], lambda x: x[::-1]),
    "a row": (lambda x: x[2], lambda x: x[2]),
    "repeated": (
        lambda x: mx.broadcast_to(x, (2, 4, 6)),
        lambda x: np.broadcast_to(x, (2, 4, 6)),
    ),
    "reshaped": (lambda x: x.reshape(3, 8), lambda x: x.reshape(3, 8)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_where_numpy_has_them(name: str) -> None:
    ours, theirs = VIEWS[name]
    tape = traced(ours, mx.zeros((4, 6))).tape
    base = np.zeros((4, 6), np.float32)
    expected = theirs(base)
    offset, strides, moved = 0, base.strides, 0
    for step in tape.steps:
        if isinstance(step.op, View):
            found = layout_of_view(step, strides)
            assert found is not None
            moved, strides = found
            offset += moved
    address = expected.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    assert offset == address
    assert strides == expected.strides


def test_what_only_a_copy_can_show() -> None:
    tape = traced(lambda x: x.T.reshape(-1), mx.zeros((4, 6))).tape
    last = tape.outputs[0]
    assert layout_of_view(last, (4, 24)) is None


def test_empty_views_are_at_the_address_of_their_source() -> None:
    tape = traced(lambda x: x[4:], mx.zeros((4, 6))).tape
    found = layout_of_view(tape.outputs[0], (24, 4))
    assert found is not None
    assert found[0] == 0
