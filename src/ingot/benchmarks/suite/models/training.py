"""Training steps, most of them compiled: gradients and the update of all parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load, load_submodule
from ingot.benchmarks.suite.contenders import numbers
from ingot.benchmarks.suite.models import transformer
from ingot.tuning import MIN_SMALL_GRAPH_RUNS

LAYERS = (784, 512, 512, 10)
BATCH = 256


def _network() -> tuple[list[Any], Any, Any]:
    weights = [numbers((a, b), i) * 0.05 for i, (a, b) in enumerate(pairwise(LAYERS))]
    np = load("numpy")
    biases = [np.zeros(b, np.float32) for b in LAYERS[1:]]
    return [*weights, *biases], numbers((BATCH, LAYERS[0]), 7), numbers((BATCH, LAYERS[-1]), 8)


def _step(m: Any, grad: Callable[..., Any]) -> Callable[..., Any]:
    def loss(parameters: Any, x: Any, y: Any) -> Any:
        for i in range(3):
            x = x @ parameters[i] + parameters[3 + i]
            if i < 2:
                x = m.maximum(x, 0.0)
        return m.mean(m.square(x - y))

    def step(parameters: Any, x: Any, y: Any) -> Any:
        gradients = grad(loss)(parameters, x, y)
        return [p - 0.01 * g for p, g in zip(parameters, gradients, strict=True)]

    return step


def _lazy(library: str) -> Callable[[], Any]:
    mx = load(library)
    parameters, x, y = _network()
    state = [mx.array(p) for p in parameters]
    inputs, targets = mx.array(x), mx.array(y)
    mx.eval(state, inputs, targets)
    step = mx.compile(_step(mx, mx.grad))

    def run() -> None:
        nonlocal state
        state = step(state, inputs, targets)
        mx.eval(state)

    return run


def _jax() -> Callable[[], Any]:
    jax = load("jax")
    parameters, x, y = _network()
    state = [jax.numpy.asarray(p) for p in parameters]
    inputs, targets = jax.numpy.asarray(x), jax.numpy.asarray(y)
    step = jax.jit(_step(jax.numpy, jax.grad))

    def run() -> None:
        nonlocal state
        state = jax.block_until_ready(step(state, inputs, targets))

    return run


def _torch() -> Callable[[], Any]:
    torch = load("torch")
    arrays, x, y = _network()
    parameters = [torch.tensor(array, requires_grad=True) for array in arrays]
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    optimizer = torch.optim.SGD(parameters, 0.01)
    torch.compiler.reset()

    def loss(x: Any, y: Any) -> Any:
        for i in range(3):
            x = x @ parameters[i] + parameters[3 + i]
            if i < 2:
                x = torch.relu(x)
        return (x - y).square().mean()

    forward = torch.compile(loss)
    update = torch.compile(optimizer.step)

    def run() -> None:
        optimizer.zero_grad()
        forward(inputs, targets).backward()
        update()

    return run


@benchmark("MLP 784-512-512-10, batch 256, SGD step, compiled", targets={"jax jit": 0.6})
def training_step() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot"),
        "mlx compile": partial(_lazy, "mlx"),
        "jax jit": _jax,
        "torch compile": _torch,
    }


@benchmark(
    "transformer block, 4 x 256 x 256, 4 heads, AdamW step, compiled",
    targets={"jax jit": 0.7},
)
def training_block() -> Contenders:
    return {
        "ingot": partial(transformer.lazy, "ingot", 1),
        "mlx compile": partial(transformer.lazy, "mlx", 1),
        "jax jit": partial(transformer.jax, 1),
        "torch compile": partial(transformer.torch, 1),
    }


@benchmark("transformer block, 4 x 256 x 256, 4 heads, forward, compiled", targets={"jax jit": 0.7})
def forward_block() -> Contenders:
    return {
        "ingot": partial(transformer.lazy_forward, "ingot"),
        "mlx compile": partial(transformer.lazy_forward, "mlx"),
        "jax jit": transformer.jax_forward,
        "torch compile": transformer.torch_forward,
    }


def _tiny_batch() -> tuple[Any, Any]:
    return numbers((32, 20)), load("numpy").arange(32) % 3


def _tiny_lazy(library: str) -> Callable[[], Any]:
    mx, nn = load(library), load_submodule(library, "nn")
    model = nn.Sequential(
        nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)
    )
    optimizer = load_submodule(library, "optimizers").Adam(1e-3)
    x, y = map(mx.array, _tiny_batch())

    def loss(model: Any, x: Any, y: Any) -> Any:
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    gradients = nn.value_and_grad(model, loss)

    def run() -> None:
        value, found = gradients(model, x, y)
        optimizer.update(model, found)
        mx.eval(value, model.parameters(), optimizer.state)

    for _ in range(2 * MIN_SMALL_GRAPH_RUNS):
        run()
    return run


def _tiny_torch() -> Callable[[], Any]:
    torch = load("torch")
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x, y = map(torch.from_numpy, _tiny_batch())

    def run() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return run


@benchmark(
    "MLP 20-64-64-3, batch 32, Adam step without compile, in a long loop", targets={"torch": 0.9}
)
def training_tiny() -> Contenders:
    return {
        "ingot": partial(_tiny_lazy, "ingot"),
        "mlx": partial(_tiny_lazy, "mlx"),
        "torch": _tiny_torch,
    }
