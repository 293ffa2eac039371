"""Convolutions as image networks have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers

IMAGES = (32, 56, 56, 64)  # channels last
FILTERS = (64, 3, 3, 64)  # outputs, height, width, inputs


def _arrays() -> tuple[Any, Any]:
    return numbers(IMAGES), numbers(FILTERS, 1)


def _lazy(library: str) -> Callable[[], Any]:
    mx = load(library)
    images, filters = map(mx.array, _arrays())
    mx.eval(images, filters)
    run = mx.compile(lambda x, w: mx.conv2d(x, w, padding=1))
    return lambda: mx.eval(run(images, filters))


def _torch(layout: str) -> Callable[[], Any]:
    torch = load("torch")
    memory_format = getattr(torch, layout)
    images, filters = (
        torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(memory_format=memory_format)
        for x in _arrays()
    )
    convolve = torch.nn.functional.conv2d
    return lambda: convolve(images, filters, padding=1)


def _jax() -> Callable[[], Any]:
    jax = load("jax")
    images, filters = map(jax.numpy.asarray, _arrays())
    filters = filters.transpose(1, 2, 3, 0)
    run = jax.jit(
        lambda x, w: jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    )
    return lambda: run(images, filters).block_until_ready()


@benchmark(
    "compiled conv2d, 32 x 56 x 56 x 64 by 64 filters of 3 x 3",
    targets={"torch": 2.0, "torch channels last": 2.0},
)
def convolution() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot"),
        "mlx compile": partial(_lazy, "mlx"),
        "jax jit": _jax,
        "torch": partial(_torch, "contiguous_format"),
        "torch channels last": partial(_torch, "channels_last"),
    }
