"""Image networks: a small residual network on 32 x 32 images, trained and applied."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load, load_submodule
from ingot.benchmarks.suite.contenders import numbers

WIDTHS = (32, 64, 128)  # channels of the stages, of which all but the first halve the sides
CLASSES = 10
SIDE = 32
TRAINING_BATCH = 64
BATCH = 16
RATE = 0.01


def _data(batch: int) -> tuple[Any, Any]:
    np = load("numpy")
    return numbers((batch, SIDE, SIDE, 3)), np.arange(batch, dtype=np.int32) % CLASSES


# MLX's API


def _lazy_network(nn: Any, m: Any) -> Any:
    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norms = [nn.BatchNorm(outputs), nn.BatchNorm(outputs)]
            if inputs != outputs:
                self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def __call__(self, x: Any) -> Any:
            y = nn.relu(self.norms[0](self.first(x)))
            y = self.norms[1](self.second(y))
            return nn.relu(y + (self.shortcut(x) if "shortcut" in self else x))

    class Network(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False)
            self.norm = nn.BatchNorm(WIDTHS[0])
            self.pool = nn.MaxPool2d(2, 2)
            sizes = zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False)
            self.blocks = [Block(a, b, 1 if a == b else 2) for a, b in sizes]
            self.head = nn.Linear(WIDTHS[-1], CLASSES)

        def __call__(self, x: Any) -> Any:
            x = self.pool(nn.relu(self.norm(self.stem(x))))
            for block in self.blocks:
                x = block(x)
            return self.head(m.mean(x, (1, 2)))

    return Network()


def _lazy_training(library: str) -> Callable[[], Any]:
    mx, nn, optimizers = load(library), *(load_submodule(library, n) for n in ("nn", "optimizers"))
    network = _lazy_network(nn, mx)
    optimizer = optimizers.SGD(RATE, momentum=0.9)
    images, labels = map(mx.array, _data(TRAINING_BATCH))
    state = [network.state, optimizer.state]

    def loss(x: Any, y: Any) -> Any:
        return nn.losses.cross_entropy(network(x), y, reduction="mean")

    gradients = nn.value_and_grad(network, loss)

    def step(x: Any, y: Any) -> Any:
        found, by_parameters = gradients(x, y)
        optimizer.update(network, by_parameters)
        return found

    mx.eval(state, images, labels)
    compiled = mx.compile(step, inputs=state, outputs=state)
    return lambda: mx.eval(compiled(images, labels), state)


def _lazy_forward(library: str) -> Callable[[], Any]:
    mx, nn = load(library), load_submodule(library, "nn")
    network = _lazy_network(nn, mx)
    network.eval()
    images = mx.array(_data(BATCH)[0])
    mx.eval(network.parameters(), images)
    compiled = mx.compile(lambda x: network(x))
    return lambda: mx.eval(compiled(images))


# PyTorch


def _torch_network(torch: Any) -> Any:
    nn: Any = torch.nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
            changes = inputs != outputs
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if changes else None

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.norms[0](self.first(x)))
            y = self.norms[1](self.second(y))
            return torch.relu(y + (x if self.shortcut is None else self.shortcut(x)))

    sizes = zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False)
    return nn.Sequential(
        nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False),
        nn.BatchNorm2d(WIDTHS[0]),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        *(Block(a, b, 1 if a == b else 2) for a, b in sizes),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(WIDTHS[-1], CLASSES),
    )


def _torch_parts(torch: Any, batch: int) -> tuple[Any, Any, Any]:
    images, labels = map(torch.from_numpy, _data(batch))
    layout = torch.channels_last
    images = images.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    return _torch_network(torch).to(memory_format=layout), images, labels.long()


def _torch_training() -> Callable[[], Any]:
    torch = load("torch")
    network, images, labels = _torch_parts(torch, TRAINING_BATCH)
    optimizer = torch.optim.SGD(network.parameters(), RATE, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return step


def _torch_forward() -> Callable[[], Any]:
    torch = load("torch")
    network, images, _ = _torch_parts(torch, BATCH)
    network.eval()

    def run() -> Any:
        with torch.no_grad():
            return network(images)

    return run


# JAX


def _jax_parameters() -> list[Any]:
    """Filters (height, width, inputs, outputs), each with scales and shifts; and the head."""
    shapes = [(3, 3, 3, WIDTHS[0])]
    for a, b in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False):
        shapes += [(3, 3, a, b), (3, 3, b, b)]
        if a != b:
            shapes.append((1, 1, a, b))
    np = load("numpy")
    filters = [numbers(shape, i) * 0.1 for i, shape in enumerate(shapes)]
    norms = [np.stack([np.ones(s[-1], np.float32), np.zeros(s[-1], np.float32)]) for s in shapes]
    return [filters, norms, numbers((WIDTHS[-1], CLASSES)) * 0.1, np.zeros(CLASSES, np.float32)]


def _jax_network(jax: Any, trains: bool) -> Callable[[Any, Any], Any]:
    np, lax = jax.numpy, jax.lax

    def convolved(x: Any, w: Any, stride: int = 1) -> Any:
        around = w.shape[0] // 2
        names = ("NHWC", "HWIO", "NHWC")
        padding = [(around, around)] * 2
        return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=names)

    def normalized(x: Any, norm: Any) -> Any:
        if not trains:
            return x * norm[0] + norm[1]
        mean, variance = np.mean(x, (0, 1, 2)), np.var(x, (0, 1, 2))
        return (x - mean) * lax.rsqrt(variance + 1e-5) * norm[0] + norm[1]

    def network(parameters: Any, x: Any) -> Any:
        filters, norms, head, bias = parameters
        pairs = iter(zip(filters, norms, strict=True))
        w, norm = next(pairs)
        x = jax.nn.relu(normalized(convolved(x, w), norm))
        window = (1, 2, 2, 1)
        x = lax.reduce_window(x, -np.inf, lax.max, window, window, "VALID")
        for a, b in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False):
            stride = 1 if a == b else 2
            w, norm = next(pairs)
            y = jax.nn.relu(normalized(convolved(x, w, stride), norm))
            w, norm = next(pairs)
            y = normalized(convolved(y, w), norm)
            if a != b:
                w, _ = next(pairs)
                x = convolved(x, w, stride)
            x = jax.nn.relu(x + y)
        return np.mean(x, (1, 2)) @ head + bias

    return network


def _jax_training() -> Callable[[], Any]:
    jax = load("jax")
    network = _jax_network(jax, trains=True)
    images, labels = map(jax.numpy.asarray, _data(TRAINING_BATCH))
    parameters = jax.tree.map(jax.numpy.asarray, _jax_parameters())
    momenta = jax.tree.map(jax.numpy.zeros_like, parameters)

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        found = jax.nn.log_softmax(network(parameters, x))
        return -jax.numpy.mean(jax.numpy.take_along_axis(found, y[:, None], 1))

    def step(parameters: Any, momenta: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(loss)(parameters, x, y)
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, gradients)
        return jax.tree.map(lambda p, m: p - RATE * m, parameters, momenta), momenta

    compiled = jax.jit(step)

    def run() -> None:
        nonlocal parameters, momenta
        parameters, momenta = jax.block_until_ready(compiled(parameters, momenta, images, labels))

    return run


def _jax_forward() -> Callable[[], Any]:
    jax = load("jax")
    network = jax.jit(_jax_network(jax, trains=False))
    images = jax.numpy.asarray(_data(BATCH)[0])
    parameters = jax.tree.map(jax.numpy.asarray, _jax_parameters())
    return lambda: network(parameters, images).block_until_ready()


@benchmark(
    "training step of a residual network, 64 images of 32 x 32, SGD",
    targets={"jax jit": 0.8, "torch": 0.8},
)
def residual_training() -> Contenders:
    return {
        "ingot": partial(_lazy_training, "ingot"),
        "mlx compile": partial(_lazy_training, "mlx"),
        "jax jit": _jax_training,
        "torch": _torch_training,
    }


@benchmark(
    "compiled residual network, 16 images of 32 x 32",
    targets={"jax jit": 0.8, "torch": 0.8},
)
def residual_forward() -> Contenders:
    return {
        "ingot": partial(_lazy_forward, "ingot"),
        "mlx compile": partial(_lazy_forward, "mlx"),
        "jax jit": _jax_forward,
        "torch": _torch_forward,
    }
