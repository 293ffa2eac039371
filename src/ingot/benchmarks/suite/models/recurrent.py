"""An LSTM over a sequence: the loss and its gradients, compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load, load_submodule
from ingot.benchmarks.suite.contenders import numbers

BATCH, STEPS, WIDTH = 32, 32, 256


def _inputs() -> tuple[Any, Any]:
    return numbers((BATCH, STEPS, WIDTH)), numbers((BATCH, STEPS, WIDTH), 1)


def _weights() -> tuple[Any, Any, Any]:
    scale = 1 / math.sqrt(WIDTH)
    np = load("numpy")
    entering, recurring = (numbers((4 * WIDTH, WIDTH), seed) * scale for seed in (2, 3))
    return entering, recurring, np.zeros(4 * WIDTH, np.float32)


def _lazy(library: str) -> Callable[[], Any]:
    mx, nn = load(library), load_submodule(library, "nn")
    model = nn.LSTM(WIDTH, WIDTH)
    model.Wx, model.Wh, model.bias = map(mx.array, _weights())
    x, y = map(mx.array, _inputs())
    mx.eval(model.parameters(), x, y)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return mx.mean(mx.square(model(x)[0] - y))

    gradients = nn.value_and_grad(model, loss)
    step = mx.compile(lambda x, y: gradients(model, x, y), inputs=model.state, outputs=model.state)
    return lambda: mx.eval(step(x, y))


def _jax() -> Callable[[], Any]:
    jax = load("jax")
    jnp = jax.numpy
    weights = tuple(map(jnp.asarray, _weights()))
    x, y = map(jnp.asarray, _inputs())

    def loss(weights: Any, x: Any, y: Any) -> Any:
        entering, recurring, bias = weights

        def one(state: Any, gates: Any) -> Any:
            hidden, cell = state
            enter, keep, new, leave = jnp.split(gates + hidden @ recurring.T, 4, axis=-1)
            cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zeros = jnp.zeros((BATCH, WIDTH))
        gates = (x @ entering.T + bias).swapaxes(0, 1)
        _, states = jax.lax.scan(one, (zeros, zeros), gates)
        return jnp.mean(jnp.square(states.swapaxes(0, 1) - y))

    step = jax.jit(jax.value_and_grad(loss))
    return lambda: jax.block_until_ready(step(weights, x, y))


def _torch() -> Callable[[], Any]:
    torch = load("torch")
    model = torch.nn.LSTM(WIDTH, WIDTH, batch_first=True)
    entering, recurring, bias = map(torch.from_numpy, _weights())
    with torch.no_grad():
        model.weight_ih_l0.copy_(entering)
        model.weight_hh_l0.copy_(recurring)
        model.bias_ih_l0.copy_(bias)
        model.bias_hh_l0.zero_()
    x, y = map(torch.from_numpy, _inputs())

    def run() -> None:
        model.zero_grad()
        (model(x)[0] - y).square().mean().backward()

    return run


@benchmark("LSTM of 256, 32 x 32 steps, loss and gradients, compiled", targets={"torch": 0.7})
def training_lstm() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot"),
        "mlx compile": partial(_lazy, "mlx"),
        "jax jit": _jax,
        "torch": _torch,
    }
