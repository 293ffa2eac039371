"""Nests of pooling and of its gradient, against MLX, loops over windows and `evaluate` in NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import mlx.core as real_mx
import mlx.nn as real_nn
import numpy as np
import pytest

import ingot.core as mx
from ingot import nn

# shape, windows, steps, padding: vectors of channels whole and not, one channel, windows that
# overlap, touch, leave gaps and end after the image
CASES: list[tuple[tuple[int, ...], Any, Any, Any]] = [
    ((2, 9, 11, 64), 3, 2, 1),
    ((1, 8, 7, 37), 2, 2, 0),
    ((3, 13, 10, 5), 3, 1, 1),
    ((1, 11, 12, 100), (5, 2), (3, 1), (2, 1)),
    ((1, 11, 9, 130), 2, 3, 0),
    ((2, 6, 5, 1), 3, 2, 1),
    ((2, 41, 17), 3, 2, 1),
    ((1, 9, 24), 9, 4, 4),
    ((1, 5, 6, 7, 16), 3, 2, 1),
    ((2, 4, 5, 4, 3), (2, 1, 3), (1, 1, 2), (1, 0, 1)),
]


def layer(module: Any, kind: str, shape: tuple[int, ...], *numbers: Any) -> Any:
    return getattr(module, f"{kind}Pool{len(shape) - 2}d")(*numbers)


def given(shape: tuple[int, ...], dtype: Any = mx.float32) -> mx.array:
    # few different numbers, so that windows have several largest elements
    return mx.array(np.random.default_rng(sum(shape)).integers(-9, 9, shape) / 4).astype(dtype)


def pooled_with_gradient(pool: Any, m: Any) -> Any:
    """The result, and the gradient of a sum of results that differ in weight."""

    def both(x: Any) -> tuple[Any, Any]:
        def loss(x: Any) -> Any:
            found = pool(x).astype(m.float32)
            return (found * m.sin(m.arange(found.size).reshape(found.shape))).sum()

        return pool(x), m.grad(loss)(x)

    return both


def as_numpy(x: Any, m: Any) -> np.ndarray:
    return np.array(x if x.dtype == m.float64 else x.astype(m.float32))


@pytest.mark.parametrize("kind", ["Max", "Avg"])
@pytest.mark.parametrize(("shape", "size", "step", "padding"), CASES)
def test_results_and_gradients_are_those_of_mlx(
    kind: str, shape: tuple[int, ...], size: Any, step: Any, padding: Any
) -> None:
    x = given(shape)
    ours = pooled_with_gradient(layer(nn, kind, shape, size, step, padding), mx)
    theirs = pooled_with_gradient(layer(real_nn, kind, shape, size, step, padding), real_mx)
    wanted = theirs(real_mx.array(np.array(x)))
    for found in (mx.compile(ours)(x), ours(x)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", ["Max", "Avg"])
def test_other_dtypes(kind: str, dtype: str) -> None:
    x = given((2, 9, 11, 37), getattr(mx, dtype))
    pool = layer(nn, kind, x.shape, 3, 2, 1)
    _, (gradient,) = mx.compile(lambda x: mx.vjp(pool, [x], [pool(x)]))(x)
    pooled = pooled_by_loop(kind, x)
    rtol = {"float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(as_numpy(mx.compile(pool)(x), mx), pooled, rtol=rtol, atol=rtol)
    wanted = gradient_by_loop(kind, x, as_numpy(mx.array(pooled, x.dtype), mx))
    np.testing.assert_allclose(as_numpy(gradient, mx), wanted, rtol=3 * rtol, atol=3 * rtol)


def padded(kind: str, x: mx.array) -> np.ndarray:
    border = ((0, 0), (1, 1), (1, 1), (0, 0))
    fill = -np.inf if kind == "Max" else 0
    return np.pad(as_numpy(x, mx).astype(np.float64), border, constant_values=fill)


def window_at(row: int, column: int) -> tuple[slice, ...]:
    """Windows of 3 x 3, every second."""
    return (slice(None), slice(2 * row, 2 * row + 3), slice(2 * column, 2 * column + 3))


def pooled_by_loop(kind: str, x: mx.array) -> np.ndarray:
    images = padded(kind, x)
    rows, columns = ((length - 3) // 2 + 1 for length in images.shape[1:3])
    pooled = np.empty((images.shape[0], rows, columns, images.shape[3]))
    for row, column in np.ndindex(rows, columns):
        window = images[window_at(row, column)]
        pooled[:, row, column] = window.max((1, 2)) if kind == "Max" else window.mean((1, 2))
    return pooled


def gradient_by_loop(kind: str, x: mx.array, cotangent: np.ndarray) -> np.ndarray:
    images = padded(kind, x)
    total = np.zeros_like(images)
    for row, column in np.ndindex(cotangent.shape[1:3]):
        window = images[window_at(row, column)]
        hits = (
            window == window.max((1, 2), keepdims=True) if kind == "Max" else np.ones_like(window)
        )
        share = cotangent[:, row : row + 1, column : column + 1]
        total[window_at(row, column)] += hits * share / hits.sum((1, 2), keepdims=True)
    return total[:, 1:-1, 1:-1]


@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan])
def test_special_values(special: float) -> None:
    values = np.array(given((1, 8, 7, 20)))
    values[0, :4, :5, 3:] = special
    values[0, 7, 6] = special
    pool, reference = nn.MaxPool2d(3, 2, 1), real_nn.MaxPool2d(3, 2, 1)
    found = mx.compile(pooled_with_gradient(pool, mx))(mx.array(values))
    wanted = pooled_with_gradient(reference, real_mx)(real_mx.array(values))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(0, 2, 3, 1),  # channels are not adjacent
        lambda x: x[:, ::-1, 1:, ::2],
        lambda x: mx.broadcast_to(x[:, :, :1, :1], x.shape),
        lambda x: x[:, :, 1:, 3:],
    ],
)
def test_strided_images(view: Any) -> None:
    x = given((2, 9, 8, 21))
    for kind in ("Max", "Avg"):
        pool = layer(nn, kind, (0,) * 4, 3, 2, 1)
        reference = layer(real_nn, kind, (0,) * 4, 3, 2, 1)
        copied = real_mx.array(np.ascontiguousarray(np.array(view(x))))
        found = mx.compile(lambda x, pool=pool: pooled_with_gradient(pool, mx)(view(x)))(x)
        for a, b in zip(found, pooled_with_gradient(reference, real_mx)(copied), strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-6)


def test_cotangents_that_are_broadcast() -> None:
    x = given((2, 9, 8, 20))
    for kind in ("Max", "Avg"):
        pool, reference = nn_layers(kind)
        found = mx.compile(mx.grad(lambda x, pool=pool: pool(x).sum()))(x)
        wanted = real_mx.grad(lambda x, pool=reference: pool(x).sum())(real_mx.array(np.array(x)))
        np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=1e-5, atol=1e-6)


def nn_layers(kind: str) -> tuple[Any, Any]:
    return layer(nn, kind, (0,) * 4, 3, 2, 1), layer(real_nn, kind, (0,) * 4, 3, 2, 1)


def test_it_is_one_kernel_each() -> None:
    pool = nn.MaxPool2d(3, 2, 1)
    report = mx.compile(mx.grad(lambda x: mx.square(pool(x)).sum())).explain(given((2, 9, 8, 20)))
    assert [work.kernel is not None for work in report.work] == [True] * len(report.work)
    assert len(report.work) <= 3, report


def test_windows_in_the_padding_and_unknown_lengths_have_no_nest() -> None:
    x = given((2, 5, 6, 3))
    found = mx.compile(nn.MaxPool2d(2, 1, 2))(x)  # windows of padding alone
    wanted = real_nn.MaxPool2d(2, 1, 2)(real_mx.array(np.array(x)))
    np.testing.assert_array_equal(np.array(found), np.array(wanted))
    pool = mx.compile(mx.grad(lambda x: nn.MaxPool2d(3, 2, 1)(x).sum()), shapeless=True)
    for shape in ((2, 5, 6, 3), (1, 9, 7, 3)):
        wanted = real_mx.grad(lambda x: real_nn.MaxPool2d(3, 2, 1)(x).sum())(
            real_mx.array(np.array(given(shape)))
        )
        np.testing.assert_allclose(np.array(pool(given(shape))), np.array(wanted), atol=1e-6)


def test_integers() -> None:
    x = mx.arange(2 * 6 * 5 * 3).reshape(2, 6, 5, 3)
    assert mx.compile(nn.MaxPool2d(2))(x)[1, 2, 1, 2].item() == np.array(x)[1, 4:6, 2:4, 2].max()


def test_with_narrower_vectors() -> None:
    script = (
        "import numpy as np, ingot.core as mx\n"
        "from ingot import nn\n"
        "from ingot.runtime.processor import vector_bytes\n"
        "assert vector_bytes() <= 32\n"
        "for pool in (nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1)):\n"
        "    x = mx.array(np.random.default_rng(0).integers(-4, 4, (2, 9, 8, 37)) / 4)\n"
        "    both = lambda x: mx.vjp(pool, [x], [pool(x)])\n"
        "    found = mx.compile(both)(x)\n"
        "    op = pool(x)._node.op\n"
        "    wanted = op.evaluate(np.array(x))\n"
        "    np.testing.assert_allclose(np.array(found[0][0]), wanted, rtol=1e-6)\n"
        "    backward = op.vjp(mx.array(wanted), pool(x), x)[0]._node\n"
        "    inputs = [wanted, np.array(x)][: len(backward.inputs)]\n"
        "    np.testing.assert_allclose(\n"
        "        np.array(found[1][0]), backward.op.evaluate(*inputs), rtol=1e-5, atol=1e-6\n"
        "    )\n"
    )
    environment = {**os.environ, "INGOT_VECTOR_BITS": "256"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
