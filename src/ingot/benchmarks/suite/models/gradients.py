"""Gradients of a small network: what it costs to build them, and to evaluate them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load

LAYERS = (32, 64, 64, 10)
BATCH = 16


def _parameters() -> tuple[list[tuple[Any, Any]], Any, Any]:
    """Weights and biases of three layers, a batch of inputs and the outputs they should give."""
    np = load("numpy")
    random = np.random.default_rng(0)
    layers = [
        (random.standard_normal((inside, outside), np.float32), np.zeros(outside, np.float32))
        for inside, outside in pairwise(LAYERS)
    ]
    inputs = random.standard_normal((BATCH, LAYERS[0]), np.float32)
    return layers, inputs, random.standard_normal((BATCH, LAYERS[-1]), np.float32)


def _loss(module: Any, parameters: Any, x: Any, y: Any) -> Any:
    for position, (weight, bias) in enumerate(parameters):
        x = x @ weight + bias
        if position + 1 < len(parameters):
            x = module.maximum(x, 0.0)
    return module.mean(module.square(x - y))


def _lazy(library: str, evaluate: bool) -> Callable[[], Any]:
    mx = load(library)
    layers, inputs, outputs = _parameters()
    parameters = [(mx.array(weight), mx.array(bias)) for weight, bias in layers]
    x, y = mx.array(inputs), mx.array(outputs)
    mx.eval(parameters, x, y)
    step = mx.value_and_grad(lambda *arguments: _loss(mx, *arguments))
    if not evaluate:
        return lambda: step(parameters, x, y)
    return lambda: mx.eval(step(parameters, x, y))


def _jax(compiled: bool) -> Callable[[], Any]:
    jax = load("jax")
    layers, inputs, outputs = _parameters()
    parameters = jax.tree.map(jax.numpy.asarray, layers)
    x, y = jax.numpy.asarray(inputs), jax.numpy.asarray(outputs)
    step = jax.value_and_grad(lambda *arguments: _loss(jax.numpy, *arguments))
    if compiled:
        step = jax.jit(step)
    return lambda: jax.block_until_ready(step(parameters, x, y))


def _torch() -> Callable[[], Any]:
    torch = load("torch")
    layers, inputs, outputs = _parameters()
    parameters = [
        (torch.tensor(weight, requires_grad=True), torch.tensor(bias, requires_grad=True))
        for weight, bias in layers
    ]
    flat = [parameter for layer in parameters for parameter in layer]
    x, y = torch.tensor(inputs), torch.tensor(outputs)

    def step() -> Any:
        hidden = x
        for position, (weight, bias) in enumerate(parameters):
            hidden = hidden @ weight + bias
            if position + 1 < len(parameters):
                hidden = torch.relu(hidden)
        return torch.autograd.grad((hidden - y).square().mean(), flat)

    return step


@benchmark("value_and_grad of a 3-layer network, not evaluated", targets={"mlx": 2.0})
def gradient_build() -> Contenders:
    return {"ingot": lambda: _lazy("ingot", False), "mlx": lambda: _lazy("mlx", False)}


@benchmark("value_and_grad of a 3-layer network, batch of 16, evaluated without compile")
def gradient_evaluated() -> Contenders:
    return {
        "ingot": lambda: _lazy("ingot", True),
        "mlx": lambda: _lazy("mlx", True),
        "jax": lambda: _jax(False),
        "jax jit": lambda: _jax(True),
        "torch": _torch,
    }
