"""Every elementwise op in machine code against its NumPy rule: all dtypes it takes, odd sizes,
strides, and values at the edges.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.pipeline import run_pipeline
from ingot.graph.dtype import ALL_DTYPES, bool_, is_inexact
from ingot.graph.op import registry
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementwise import lift
from ingot.ops.elementwise.arithmetic import Add
from ingot.runtime.compile_mode import CompileMode

OPS = {
    name: kind()
    for name, kind in sorted(registry().items())
    if issubclass(kind, Elementwise) and not fields(kind)
}
# Where the two may differ by more than rounding of the result: functions of half types are rounded
# once here, and complex ones are computed in other ways.
TOLERANCE = {
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "float32": 2e-6,
    "float64": 1e-14,
    "complex64": 2e-4,
}


def _values(dtype: mx.Dtype, size: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    kind = dtype.numpy.kind
    if dtype is bool_:
        return generator.integers(0, 2, size).astype(bool)
    if kind in "iu":
        limits = np.iinfo(dtype.numpy)
        return generator.integers(max(limits.min, -40), min(limits.max, 40), size).astype(
            dtype.numpy
        )
    if kind == "c":
        parts = generator.standard_normal((2, size)).astype(np.float32)
        return (parts[0] + 1j * parts[1]).astype(np.complex64)
    values = generator.standard_normal(size) * 1.5
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan]
    values[: min(size, len(edges))] = edges[:size]
    return values.astype(np.float32).astype(dtype.numpy)


def _array(dtype: mx.Dtype, size: int, seed: int) -> mx.array:
    return mx.array(_values(dtype, size, seed), dtype)


def _accepted(op: Elementwise) -> list[mx.Dtype]:
    accepted = [dtype for dtype in ALL_DTYPES if op.accepts >> dtype.number & 1]
    if op.operands == "floating":
        return [dtype for dtype in accepted if is_inexact(dtype)]
    return [bool_] if op.operands == "logical" else accepted


def _close(name: str, dtype: mx.Dtype, found: np.ndarray, expected: np.ndarray) -> bool:
    if expected.dtype.kind in "biu":
        return bool(np.array_equal(found, expected))
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    tolerance = TOLERANCE[dtype.name]
    return bool(
        np.allclose(
            found.astype(wide),
            expected.astype(wide),
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
        )
    )


@pytest.mark.parametrize("name", OPS)
def test_machine_code_equals_the_rule(name: str) -> None:
    op = OPS[name]
    for dtype in _accepted(op):
        for size in (37, 70):
            first = 1 if op.operands == "select" else 0
            inputs = [
                _array(bool_ if i < first else dtype, size, 7 * i + size) for i in range(op.arity)
            ]
            compiled = mx.compile(lambda *arrays, op=op: lift(op)(*arrays))
            found = compiled(*inputs)
            with np.errstate(all="ignore"):
                expected = np.asarray(op.evaluate(*[x._data for x in inputs]))
            assert found.dtype.numpy == expected.dtype
            assert _close(name, dtype, found._data, expected), (
                f"{name} of {dtype}, {size} elements: {found._data} instead of {expected} "
                f"for {[x._data for x in inputs]}"
            )


@pytest.mark.parametrize("source", ALL_DTYPES, ids=lambda dtype: dtype.name)
def test_casts(source: mx.Dtype) -> None:
    values = _values(source, 50, 3)
    if values.dtype.kind not in "biuc":
        values = np.nan_to_num(values.astype(np.float32), posinf=3, neginf=-3).astype(values.dtype)
    x = mx.array(values, source)
    for target in ALL_DTYPES:
        if not is_inexact(target) and is_inexact(source) and "u" in target.name:
            continue  # negative numbers have no defined value there
        found = mx.compile(lambda a, target=target: (a + a).astype(target))(x)
        expected = (x + x).astype(target)
        assert found.dtype is target
        wide = np.complex128
        assert np.allclose(
            found._data.astype(wide), expected._data.astype(wide), rtol=1e-2, equal_nan=True
        )


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.int64, mx.bool_, mx.complex64])
def test_inputs_of_any_layout(dtype: mx.Dtype) -> None:
    base = mx.array(_values(mx.int32, 24 * 20, 1).reshape(24, 20)).astype(dtype)
    other = mx.array(_values(mx.int32, 20 * 24, 2).reshape(20, 24)).astype(dtype)
    views = {
        "transposed": (base.T, other),
        "stepped": (base[::2, ::3], base[1::2, ::3]),
        "reversed": (base[::-1, ::-1], base),
        "repeated": (mx.broadcast_to(base[0], (24, 20)), base),
        "column": (base[:, 3:4], base),
    }
    for name, (a, b) in views.items():
        mx.eval(a, b)
        compiled = mx.compile(lambda x, y: mx.where(x == y, x, y))
        expected = np.where(a._data == b._data, a._data, b._data)
        # the first time on copies, then by a program for that layout
        for _ in range(3):
            found = compiled(a, b)
            assert np.array_equal(found._data, expected), name


ORDERS = [(1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.int8, mx.float64, mx.complex64])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_maps_across_the_grain(order: tuple[int, ...], dtype: mx.Dtype) -> None:
    """Tiles, the blocks of which they are made, and what remains beside those."""
    shape = (150, 83) if len(order) == 2 else (6, 37, 35)
    count = int(np.prod(shape))
    values = np.random.default_rng(0).integers(-60, 60, count).astype(dtype.numpy).reshape(shape)
    for cut in (values, values[::-1, ..., ::-1], values[1:, ..., :-1], values[..., ::3]):
        view = np.transpose(cut, order)
        flat = np.ascontiguousarray(view)
        x, y = _native.constant(view, dtype), _native.constant(flat, dtype)
        compiled = mx.compile(lambda x, y: x + y)
        mx.eval(compiled(x, y))  # on copies
        assert np.array_equal(compiled(x, y)._data, view + flat), (view.shape, view.strides)


def test_a_layout_that_comes_again_gets_a_program() -> None:
    x = mx.array(np.arange(12, dtype=np.float32).reshape(3, 4)).T
    mx.eval(x)
    program = run_pipeline(_doubling(x.shape), CompileMode.enabled).program
    planned = []
    for _ in range(3):
        assert np.array_equal(program.run((x._data,))[0], x._data * 2)
        planned.append(len(program.by_strides))
    assert planned == [0, 1, 1]


def _doubling(shape: tuple[int, ...]) -> Tape:
    given = Step(None, (), shape, mx.float32)
    doubled = Step(Add(), (given, given), shape, mx.float32)
    return Tape([given], [doubled], [given, doubled])


def test_views_inside_a_function_are_addresses() -> None:
    x = mx.array(np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5))

    def function(x: mx.array) -> mx.array:
        y = x.transpose(3, 1, 0, 2)[::-2, :, None, 1]
        return y.reshape(9, -1) * 2 + 1

    assert np.array_equal(mx.compile(function)(x)._data, function(x)._data)


def test_results_do_not_depend_on_the_run() -> None:
    x = mx.array(np.random.default_rng(0).standard_normal((513, 1031)).astype(np.float32))
    compiled = mx.compile(lambda x: (mx.sum(x), mx.sum(x, axis=0), mx.exp(x).sum(axis=1)))
    first = [np.array(y) for y in compiled(x)]
    for _ in range(5):
        again = [np.array(y) for y in compiled(x)]
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
