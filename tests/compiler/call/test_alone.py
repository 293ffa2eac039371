"""Ops alone as programs: made once for a layout of inputs, and only where the op says so."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call.alone import _program, program_alone
from ingot.compiler.machine import kernels
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


@pytest.mark.parametrize("is_transposed", [False, True])
def test_new_lengths_of_compositions_compile_nothing(
    is_transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rotated(library: Any, length: int) -> np.ndarray:
        x = np.random.default_rng(length).normal(size=(1, 3, length, 16)).astype(np.float32)
        if is_transposed:
            q = library.array(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        else:
            q = library.array(x)
        options = {"traditional": False, "base": 10000.0, "scale": 1.0, "offset": 5}
        return np.array(library.fast.rope(q, 16, **options))

    rotated(mx, 2)  # compiles

    def refuse(text: str, *_: Any) -> Any:
        raise AssertionError(f"compiles {text}")

    monkeypatch.setattr(kernels._Kernel, "of", refuse)  # of a text that is not in memory
    for length in (3, 4, 7, 13, 30):
        np.testing.assert_allclose(rotated(mx, length), rotated(mlx, length), atol=1e-5)
