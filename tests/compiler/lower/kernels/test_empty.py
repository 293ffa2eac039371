"""Kernels over nothing: every kind of instruction with each axis empty, on poisoned memory.

What is computed of no elements is the identity of the reduction, the array as it was, or nothing;
NumPy says which. Memory that nobody wrote holds NaN, True and -1, so that reading it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.poison import poisoned_memory
from tests.transforms.examples.example import Example
from tests.transforms.examples.search import ALL_EXAMPLES as EXAMPLES

import ingot.core as mx
from ingot import _native

Function = Callable[..., Any]

# Each axis empty in turn; 5000 is long enough for parts, tiles and copies that are made first.
SHAPES = [(0, 3), (3, 0), (0, 0), (0, 1), (1, 0), (0, 5000), (5000, 0), (2, 0, 3), (0, 4, 2)]

NONE = np.zeros(0, np.int32)


@pytest.fixture(autouse=True)
def poison() -> Iterator[None]:
    with poisoned_memory():
        yield


def along(x: Any, axis: int) -> tuple[int, ...]:
    """The shape of `x` with nothing along an axis."""
    return (*x.shape[:axis], 0, *x.shape[axis + 1 :])


def updated(x: np.ndarray, index: Any, value: Any) -> np.ndarray:
    result = x.copy()
    result[index] = value
    return result


# kind of kernel: the function, and the same in NumPy
SAME: dict[str, Function] = {  # functions of a module and an array
    "map": lambda m, x: m.exp(x) * 2 + x,
    "transposed map": lambda m, x: m.transpose(x) + 1,
    "map backwards": lambda m, x: m.transpose(x[::-1, ::-1]) * 2,
    "map in steps": lambda m, x: x[::-3, 1::2] * 2,
    "rows": lambda m, x: m.sum(x * 2, axis=-1),
    "rows again": lambda m, x: x - m.sum(x, axis=-1, keepdims=True),
    "columns": lambda m, x: m.sum(x * x, axis=0),
    "columns backwards": lambda m, x: m.sum((x * 2 + 1)[::-1, ::-1], axis=0) + 1,
    "all of it": lambda m, x: m.sum(x + 1) + 1,
    "products": lambda m, x: m.prod(x + 1, axis=0) * 2,
    "some": lambda m, x: m.any(x > 0, axis=-1),
    "every": lambda m, x: m.all(x > 0, axis=0),
    "several reductions": lambda m, x: m.sum(x) + m.sum(x, axis=0),
    "positions": lambda m, x: x * m.arange(x.shape[-1]),
    "matrix product": lambda m, x: m.matmul(m.swapaxes(x, -1, -2), x) + 1,
    "matrix product of rows": lambda m, x: m.matmul(x, m.swapaxes(x, -1, -2)) + 1,
    "matrix times vector": lambda m, x: m.matmul(x * 2, m.ones(x.shape[-1], x.dtype)),
    "dot product": lambda m, x: m.inner(x.reshape(-1), x.reshape(-1)) + 1,
    "assembled": lambda m, x: m.concatenate([x + 1, x[:1], x[:, ::-1]]) * 2,
    "padded": lambda m, x: m.pad(x * 2, [(1, 0), (0, 3), (0, 0)][: x.ndim]) + 1,
    "repeated": lambda m, x: m.tile(x + 1, 3),
    "gathered rows": lambda m, x: m.take(x, m.array(NONE), axis=0) + 1,
    "gathered elements": lambda m, x: (x * 2)[m.array(NONE), m.array(NONE)],
    "along an axis": lambda m, x: m.take_along_axis(x, m.zeros(along(x, 1), m.int32), axis=1) + 1,
    "host step": lambda m, x: m.sort(x * 2, axis=0) + 1,
    "scan": lambda m, x: m.cumsum(x + 1, axis=1) * 2,
    "variance": lambda m, x: m.sum(m.square(x - m.sum(x, axis=0)), axis=0),
    "bytes": lambda m, x: m.sum((x > 0).astype(m.int8), axis=0),
    "complex": lambda m, x: m.sum(x.astype(m.complex64) * 1j, axis=0),
}


PAIRS: dict[str, tuple[Function, Function]] = {
    **{
        f"scattered: {mode}": (
            lambda x, mode=mode: getattr((x * 2).at[mx.array(NONE)], mode)(3.0) + 1,
            lambda x: x * 2 + 1,
        )
        for mode in ("add", "multiply", "maximum", "minimum", "subtract", "divide")
    },
    "scattered columns": (
        lambda x: (x + 1).at[:, mx.array(NONE)].add(mx.zeros(along(x, 1))) * 2,
        lambda x: (x + 1) * 2,
    ),
    "scattered into nothing": (
        lambda x: x.at[mx.arange(x.shape[0])].add(x + 1) * 2,
        lambda x: (2 * x + 1) * 2,
    ),
    "scattered columns of nothing": (
        lambda x: x.at[:, mx.arange(x.shape[1])].multiply(x + 1) * 2,
        lambda x: x * (x + 1) * 2,
    ),
    "scattered elements": (
        lambda x: x.at[mx.array(NONE), mx.array(NONE)].add(1.0) + 1,
        lambda x: x + 1,
    ),
    "put along an axis": (
        lambda x: mx.put_along_axis(
            x * 2, mx.zeros(along(x, 1), mx.int32), mx.zeros(along(x, 1)), axis=1
        ),
        lambda x: x * 2,
    ),
    "updated slice": (
        lambda x: mx.slice_update(x * 2, x[:0] + 1, mx.array([0]), (0,)) + 1,
        lambda x: x * 2 + 1,
    ),
    "pairs of random bits": (
        lambda x: mx.random.normal(x.shape, key=mx.random.key(0)) * x + 1,
        lambda x: x + 1,
    ),
    "softmax": (lambda x: mx.softmax(x * 2, axis=-1), lambda x: x),
    "mean": (lambda x: mx.mean(x, axis=0), lambda x: np.sum(x, 0) / np.float32(x.shape[0])),
    "gradient of a gather": (
        lambda x: mx.grad(lambda x: mx.square(x[mx.array(NONE)]).sum())(x) + 1,
        lambda x: x * 0 + 1,
    ),
    "gradient of rows": (
        lambda x: mx.grad(lambda x: (x * mx.sum(x, axis=-1, keepdims=True)).sum())(x),
        lambda x: x * 0,
    ),
    "gradient of slices": (
        lambda x: mx.grad(lambda x: (x[1:, ::2] * 2).sum())(x) + 1,
        lambda x: updated(x, (slice(1, None), slice(None, None, 2)), 2) + 1,
    ),
    "half": (
        lambda x: mx.sum(x.astype(mx.float16) + 1, axis=1),
        lambda x: np.sum(x.astype(np.float16) + 1, axis=1, dtype=np.float16),
    ),
    "constants": (lambda x: mx.zeros(x.shape) + mx.sum(mx.ones((0, 4))), lambda x: x * 0),
}

KINDS: dict[str, tuple[Function, Function]] = {
    **{
        name: (
            lambda x, f=function: f(mx, x),
            lambda x, f=function: f(np, x),
        )
        for name, function in SAME.items()
    },
    **PAIRS,
}


@pytest.mark.parametrize("shapeless", [False, True], ids=["", "shapeless"])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_over_nothing(kind: str, shapeless: bool) -> None:
    function, in_numpy = KINDS[kind]
    compiled = mx.compile(function, shapeless=shapeless)
    for shape in SHAPES:
        x = np.zeros(shape, np.float32)
        with np.errstate(invalid="ignore"):
            expected = in_numpy(x)
        for found in (compiled(mx.array(x)), function(mx.array(x))):
            values = np.array(found)
            assert values.shape == expected.shape, shape
            np.testing.assert_array_equal(values, expected, err_msg=str(shape))


@pytest.mark.parametrize("shape", [(4, 3), (1, 1), (300, 70)])
@pytest.mark.parametrize("mode", ["add", "multiply", "maximum", "minimum"])
def test_scatters_without_indices_leave_the_array(mode: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    subscripts: list[Function] = [lambda i: i, lambda i: (slice(None), i), lambda i: (i, i)]
    for index in (mx.zeros((0,), mx.int32), mx.zeros((2, 0), mx.int32)):
        for subscript in subscripts:
            compiled = mx.compile(lambda x, i, s=subscript: getattr(x.at[s(i)], mode)(7.0))
            np.testing.assert_array_equal(np.array(compiled(mx.array(x), index)), x)


def emptied(inputs: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """One axis of one input empty in turn, then each length everywhere; each choice once."""
    shapes = [x.shape for x in inputs]
    choices = [
        [*shapes[:k], along(x, axis), *shapes[k + 1 :]]
        for k, x in enumerate(inputs)
        for axis in range(x.ndim)
    ]
    for length in sorted({n for shape in shapes for n in shape}):
        choices.append([tuple(0 if n == length else n for n in shape) for shape in shapes])
    for choice in dict.fromkeys(map(tuple, choices)):
        yield [
            x if x.shape == shape else np.zeros(shape, x.dtype)
            for x, shape in zip(inputs, choice, strict=True)
        ]


def outcome(function: Function, inputs: list[np.ndarray]) -> Any:
    try:
        found = function(*[mx.array(x) for x in inputs])
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        return [np.array(x) for x in results]
    except (ValueError, TypeError, IndexError) as error:
        return str(error)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.mlx is not None], ids=str)
def test_registered_ops_over_nothing(example: Example) -> None:
    """Compiled as uncompiled: the same values, or the same sentence of ours."""
    assert example.mlx is not None
    call = example.mlx

    def function(*inputs: mx.array) -> Any:
        return call(mx, *inputs)

    compiled = mx.compile(function)
    for inputs in emptied(example.primals(1)):
        found, expected = outcome(compiled, inputs), outcome(function, inputs)
        shapes = [x.shape for x in inputs]
        if isinstance(expected, str):
            assert found == expected, shapes
            assert expected.startswith("["), shapes
            continue
        for ours, plain in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, plain, rtol=1e-6, err_msg=str(shapes))


def test_memory_is_poisoned_at_each_allocation() -> None:
    for size in (8, 4096, 1 << 20):
        for _ in range(2):  # fresh memory, then the same block again
            block = _native.Buffer(size)
            assert bytes(memoryview(block)[:8]) == b"\xff" * 8
            memoryview(block)[:8] = b"\x00" * 8
            del block


def test_zeros_are_zero_on_poisoned_memory() -> None:
    for size in (3, 5000, 1 << 20):
        assert not np.array(mx.zeros((size,)) + mx.zeros((size,))).any()
