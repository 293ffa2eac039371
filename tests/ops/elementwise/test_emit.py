"""Every `emit` rule, read by the NumPy kernel, gives what the op's `evaluate` gives."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from tests.support.numpy_kernel import NumpyKernel

import ingot.core as mx
from ingot.graph.dtype import ALL_DTYPES, Dtype, bfloat16, bool_, complex64, float16, is_inexact
from ingot.graph.kernel import Kernel
from ingot.graph.op import Missing, registry
from ingot.graph.roles import Elementwise
from ingot.ops.elementwise.casting import AsType, Contiguous, Copy, StopGradient

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.0, 7.0, np.inf, -np.inf, np.nan, 1e-3, -20.0]
INTEGERS = [0, 1, 2, 3, 7, 31, 33, 100, 5, 6, 255, 127, -1, -2, -7, -128]


def elements(dtype: Dtype, position: int) -> np.ndarray:
    """Elements for one input of an op; with another `position` they are in another order."""
    if dtype is bool_:
        return np.array([False, True, False, True] if position else [False, False, True, True])
    generator = np.random.default_rng(position)
    if dtype is complex64:
        parts = generator.normal(0, 1.5, (2, 64))
        values = parts[0] + 1j * parts[1]
        values[:4] = [0, 1, 1j, -2]
        return values.astype(np.complex64)
    if is_inexact(dtype):
        values = np.concatenate([np.tile(SPECIAL, 4), generator.normal(0, 2, 64)])
        return generator.permutation(values).astype(dtype.numpy)
    values = np.tile(np.array(INTEGERS), 4)
    return generator.permutation(values).astype(dtype.numpy)


def cases() -> Iterator[Any]:
    """Every op with the dtypes that it takes."""
    for name, op in sorted(registry().items()):
        if not issubclass(op, Elementwise) or isinstance(
            inspect.getattr_static(op, "emit"), Missing
        ):
            continue
        assert not fields(op), f"{name} has parameters: give it an example here"
        for dtype in ALL_DTYPES:
            taken = op.accepts >> dtype.number & 1
            if op.operands == "floating" and not is_inexact(dtype):
                taken = False
            if op.operands == "logical" and dtype is not bool_:
                taken = False
            if taken:
                yield pytest.param(op(), dtype, id=f"{name}-{dtype.name}")


def close(found: np.ndarray, expected: np.ndarray, dtype: Dtype) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if not is_inexact(dtype):
        np.testing.assert_array_equal(found, expected)
        return
    rounding = {float16: 2e-3, bfloat16: 2e-2}.get(dtype, 1e-12 if dtype.size == 8 else 5e-6)
    if dtype is complex64:
        rounding = 1e-4
    kind = np.complex128 if dtype is complex64 else np.float64
    np.testing.assert_allclose(found.astype(kind), expected.astype(kind), rounding, rounding)


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_emit_equals_evaluate(op: Elementwise, dtype: Dtype) -> None:
    inputs = [elements(dtype, position) for position in range(op.arity)]
    if op.operands == "select":
        inputs[0] = np.random.default_rng(9).random(inputs[1].size) < 0.5
    if op.name in ("floor_divide", "remainder") and is_inexact(dtype):
        # NumPy's remainder of an infinity is not the reference for what comes out here.
        inputs = [np.where(np.isfinite(values), values, values.dtype.type(2)) for values in inputs]
    expected = np.asarray(op.evaluate(*inputs))
    _, result = op.infer(*(mx.array(values, dtype) for values in inputs))
    found = np.broadcast_to(op.emit(NumpyKernel(), *inputs), expected.shape)
    assert expected.dtype == result.numpy
    close(found, expected, result)


@pytest.mark.parametrize("target", ALL_DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("source", ALL_DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_casts(source: Dtype, target: Dtype) -> None:
    values = elements(source, 0)
    if is_inexact(source) and not is_inexact(target) and target is not bool_:
        # What does not fit has no specified result.
        values = np.abs(values[np.isfinite(values)]).astype(source.numpy)
    op = AsType(target)
    found, expected = op.emit(NumpyKernel(), values), op.evaluate(values)
    assert found.dtype == expected.dtype == target.numpy
    if target is bfloat16:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", [Copy(), StopGradient(), Contiguous(False), Contiguous(True)])
def test_identities(op: Any) -> None:
    values = elements(ALL_DTYPES[-3], 0).reshape(8, -1).T
    assert op.emit(NumpyKernel(), values) is values
    np.testing.assert_array_equal(op.evaluate(values), values)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.name)
def test_no_ops_are_their_input(dtype: Dtype) -> None:
    """Whatever the simplifier may drop evaluates to its input."""
    values = elements(dtype, 0)
    given = mx.array(values, dtype)
    ops = [op() for op in registry().values() if issubclass(op, Elementwise) and op.arity == 1]
    dropped = [op for op in [*ops, Copy(), StopGradient(), AsType(dtype)] if op.is_no_op(given)]
    assert len(dropped) == (8 if not is_inexact(dtype) else 3 if dtype is complex64 else 5)
    for op in dropped:
        assert op.infer(given) == (given.shape, dtype)
        np.testing.assert_array_equal(op.evaluate(values).view(np.uint8), values.view(np.uint8))


def test_the_numpy_kernel_knows_every_word() -> None:
    words = {name for name in vars(Kernel) if not name.startswith("_")}
    assert words == {name for name in vars(NumpyKernel) if not name.startswith("_")}
