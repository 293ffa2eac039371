"""Ops alone as programs: made once for a layout of inputs, and only where the op says so."""

from __future__ import annotations

from typing import Any

import numpy as np

import ingot.core as mx
from ingot.compiler.call.alone import _program, program_alone
from ingot.ops.elementwise.exponential import Exp


class Alone(Exp):
    """An op that runs by itself where it has elements."""

    def runs_alone(self, *shapes: Any) -> bool:
        return all(0 not in shape for shape in shapes)


def test_results_are_those_of_compiled_functions() -> None:
    x = np.linspace(-3, 3, 1000, dtype=np.float32).reshape(20, 50)
    for values in (x, x.T):
        program = program_alone(None, Alone(), (values,))  # type: ignore[arg-type]
        assert program is not None
        found = program.run((values,))[0]
        np.testing.assert_array_equal(found, np.array(mx.compile(mx.exp)(mx.array(values))))


def test_ops_may_leave_it_to_their_own_rule() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert program_alone(None, Alone(), (empty,)) is None  # type: ignore[arg-type]


def test_programs_are_kept_by_layouts() -> None:
    _program.cache_clear()
    x = np.zeros((4, 5), np.float32)
    for values in (x, x, x.T, np.zeros((5, 4), np.float32)):
        program_alone(None, Alone(), (values,))  # type: ignore[arg-type]
    info = _program.cache_info()
    assert (info.hits, info.misses) == (1, 3)
