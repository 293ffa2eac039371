"""Ops alone as programs: the bits of any larger program, made once for a kind of inputs."""

from __future__ import annotations

import numpy as np

import ingot.core as mx
from ingot.compiler.call.alone import _program, run_alone
from ingot.ops.elementwise.exponential import Exp


def test_results_are_those_of_compiled_functions() -> None:
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    found = run_alone(None, Exp(), (x,))
    np.testing.assert_array_equal(found, np.array(mx.compile(mx.exp)(mx.array(x))))


def test_programs_are_kept_by_shapes_and_dtypes() -> None:
    _program.cache_clear()
    for shape in ((4, 5), (4, 5), (5, 4)):
        run_alone(None, Exp(), (np.zeros(shape, np.float32),))
    info = _program.cache_info()
    assert (info.hits, info.misses) == (1, 2)
