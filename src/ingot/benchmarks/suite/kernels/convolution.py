"""Convolutions as image networks have them: forward, and with both gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load, load_submodule
from ingot.benchmarks.suite.contenders import numbers


class Layer(NamedTuple):
    """A convolution: images with channels last, filters (outputs, height, width, inputs)."""

    images: tuple[int, int, int, int]
    filters: tuple[int, int, int, int]
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def results(self) -> tuple[int, ...]:
        """The shape of the results."""
        batch, *sides, _ = self.images
        taps = self.filters[1:-1]
        each = zip(sides, taps, strict=True)
        lengths = ((n + 2 * self.padding - k) // self.stride + 1 for n, k in each)
        return (batch, *lengths, self.filters[0])

    def arrays(self) -> tuple[Any, Any, Any]:
        """Images, filters and the cotangents of the results."""
        return numbers(self.images), numbers(self.filters, 1), numbers(self.results, 2)


def _lazy(library: str, layer: Layer, trains: bool) -> Callable[[], Any]:
    mx = load(library)
    images, filters, cotangents = map(mx.array, layer.arrays())
    mx.eval(images, filters, cotangents)

    def forward(x: Any, w: Any) -> Any:
        return mx.conv2d(x, w, layer.stride, layer.padding, groups=layer.groups)

    def training(x: Any, w: Any, c: Any) -> Any:
        return mx.vjp(forward, [x, w], [c])

    if trains:
        step = mx.compile(training)
        return lambda: mx.eval(step(images, filters, cotangents))
    run = mx.compile(forward)
    return lambda: mx.eval(run(images, filters))


def _torch(layout: str, layer: Layer, trains: bool) -> Callable[[], Any]:
    torch = load("torch")
    memory_format = getattr(torch, layout)
    images, filters, cotangents = (
        torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(memory_format=memory_format)
        for x in layer.arrays()
    )
    convolve = partial(
        torch.nn.functional.conv2d,
        stride=layer.stride,
        padding=layer.padding,
        groups=layer.groups,
    )
    if not trains:
        return lambda: convolve(images, filters)
    images.requires_grad_()
    filters.requires_grad_()

    def step() -> None:
        images.grad = filters.grad = None
        convolve(images, filters).backward(cotangents)

    return step


def _jax(layer: Layer, trains: bool) -> Callable[[], Any]:
    jax = load("jax")
    images, filters, cotangents = map(jax.numpy.asarray, layer.arrays())
    filters = filters.transpose(1, 2, 3, 0)

    def forward(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            w,
            (layer.stride, layer.stride),
            [(layer.padding, layer.padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=layer.groups,
        )

    def training(x: Any, w: Any, c: Any) -> Any:
        found, backward = jax.vjp(forward, x, w)
        return found, backward(c)

    if trains:
        step = jax.jit(training)
        return lambda: jax.block_until_ready(step(images, filters, cotangents))
    run = jax.jit(forward)
    return lambda: run(images, filters).block_until_ready()


def _contenders(layer: Layer, trains: bool = False) -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot", layer, trains),
        "mlx compile": partial(_lazy, "mlx", layer, trains),
        "jax jit": partial(_jax, layer, trains),
        "torch": partial(_torch, "contiguous_format", layer, trains),
        "torch channels last": partial(_torch, "channels_last", layer, trains),
    }


ODD = Layer((8, 33, 33, 48), (80, 3, 3, 48), padding=1)
MIDDLE = Layer((32, 56, 56, 64), (64, 3, 3, 64), padding=1)
TARGETS = {"jax jit": 0.9, "torch": 0.9, "torch channels last": 0.9}
UNCOMPILED_TARGETS = {"torch": 0.9, "torch channels last": 0.9}


@benchmark("compiled conv2d, 32 x 56 x 56 x 64 by 64 filters of 3 x 3", targets=TARGETS)
def convolution() -> Contenders:
    return _contenders(MIDDLE)


@benchmark("compiled conv2d and gradients, 32 x 56 x 56 x 64 by 64 of 3 x 3", targets=TARGETS)
def convolution_gradients() -> Contenders:
    return _contenders(MIDDLE, trains=True)


@benchmark("compiled conv2d, 32 x 56 x 56 x 64 by 256 filters of 1 x 1", targets=TARGETS)
def convolution_1x1() -> Contenders:
    return _contenders(Layer((32, 56, 56, 64), (256, 1, 1, 64)))


@benchmark("compiled conv2d, 8 x 224 x 224 x 3 by 64 filters of 7 x 7, stride 2", targets=TARGETS)
def convolution_3_channels() -> Contenders:
    return _contenders(Layer((8, 224, 224, 3), (64, 7, 7, 3), 2, 3))


@benchmark("compiled conv2d, 8 x 33 x 33 x 48 by 80 filters of 3 x 3", targets=TARGETS)
def convolution_odd() -> Contenders:
    return _contenders(ODD)


@benchmark("compiled conv2d and gradients, 32 x 32 x 32 x 64, stride 2", targets=TARGETS)
def convolution_strided_gradients() -> Contenders:
    return _contenders(Layer((32, 32, 32, 64), (128, 3, 3, 64), 2, 1), trains=True)


@benchmark("compiled depthwise conv2d, 8 x 56 x 56 x 96, 7 x 7", targets=TARGETS)
def convolution_depthwise() -> Contenders:
    return _contenders(Layer((8, 56, 56, 96), (96, 7, 7, 1), padding=3, groups=96))


@benchmark("compiled depthwise conv2d and gradients, 8 x 56 x 56 x 96, 7 x 7", targets=TARGETS)
def convolution_depthwise_gradients() -> Contenders:
    return _contenders(Layer((8, 56, 56, 96), (96, 7, 7, 1), padding=3, groups=96), trains=True)


@benchmark("compiled depthwise conv2d, 16 x 56 x 56 x 144, 3 x 3", targets=TARGETS)
def convolution_depthwise_3x3() -> Contenders:
    return _contenders(Layer((16, 56, 56, 144), (144, 3, 3, 1), padding=1, groups=144))


@benchmark("compiled conv2d in 32 groups, 8 x 28 x 28 x 256, 3 x 3", targets=TARGETS)
def convolution_grouped() -> Contenders:
    return _contenders(Layer((8, 28, 28, 256), (256, 3, 3, 8), padding=1, groups=32))


@benchmark("compiled conv2d in 4 groups, 8 x 27 x 27 x 96, 5 x 5", targets=TARGETS)
def convolution_four_groups() -> Contenders:
    return _contenders(Layer((8, 27, 27, 96), (256, 5, 5, 24), padding=2, groups=4))


@benchmark("compiled conv2d of signals, 16 x 1 x 2047 x 80 by 256 of 1 x 3", targets=TARGETS)
def convolution_signals() -> Contenders:
    return _contenders(Layer((16, 1, 2047, 80), (256, 1, 3, 80)))


@benchmark(
    "compiled gradient of max_pool2d, 3 x 3, stride 2, 32 x 56 x 56 x 64",
    targets={"torch": 0.9, "torch channels last": 0.9},
)
def pooling_gradients() -> Contenders:
    shape = (32, 56, 56, 64)
    return {
        "ingot": partial(_pooling, "ingot", shape),
        "mlx compile": partial(_pooling, "mlx", shape),
        "torch": partial(_torch_pooling, shape, False),
        "torch channels last": partial(_torch_pooling, shape, True),
    }


def _pooling(library: str, shape: tuple[int, ...]) -> Callable[[], Any]:
    mx, layers = load(library), load_submodule(library, "nn")
    images = mx.array(numbers(shape))
    layer = layers.MaxPool2d(3, 2, 1)
    gradient = mx.compile(mx.grad(lambda x: mx.square(layer(x)).sum()))
    mx.eval(images)
    return lambda: mx.eval(gradient(images))


def _torch_pooling(shape: tuple[int, ...], channels_last: bool) -> Callable[[], Any]:
    torch = load("torch")
    images = torch.from_numpy(numbers(shape)).permute(0, 3, 1, 2)
    images = (images if channels_last else images.contiguous()).requires_grad_()

    def run() -> None:
        images.grad = None
        torch.nn.functional.max_pool2d(images, 3, 2, 1).square().sum().backward()

    return run


def _uncompiled(library: str) -> Callable[[], Any]:
    mx = load(library)
    images, filters, _ = map(mx.array, ODD.arrays())
    mx.eval(images, filters)
    return lambda: mx.eval(mx.conv2d(images, filters, padding=ODD.padding))


@benchmark("conv2d without compile, 8 x 33 x 33 x 48 by 80 of 3 x 3", targets=UNCOMPILED_TARGETS)
def convolution_uncompiled() -> Contenders:
    others = {name: setup for name, setup in _contenders(ODD).items() if "torch" in name}
    return {
        "ingot": partial(_uncompiled, "ingot"),
        "mlx": partial(_uncompiled, "mlx"),
        **others,
    }
