"""A training step of transformer blocks in each library: forward, backward and AdamW's update.

The blocks normalise first; attention has no bias, the perceptron is four times as wide and has
gelu. Each library's own layers and optimizer are used where it has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from ingot.benchmarks.libraries import load, load_submodule
from ingot.benchmarks.suite.contenders import numbers

__all__ = [
    "compile_jax",
    "compile_lazy",
    "jax",
    "jax_forward",
    "lazy",
    "lazy_forward",
    "torch",
    "torch_forward",
]

BATCH, LENGTH, WIDTH, HEADS = 4, 256, 256, 4
RATE, DECAY, BETAS, EPSILON = 1e-3, 0.01, (0.9, 0.999), 1e-8


def _batch() -> tuple[Any, Any]:
    return numbers((BATCH, LENGTH, WIDTH)), numbers((BATCH, LENGTH, WIDTH), 1)


def _lazy_model(library: str, blocks: int) -> Any:
    nn = load_submodule(library, "nn")
    load(library).random.seed(0)
    return nn.Sequential(
        *(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, activation=nn.gelu, norm_first=True)
            for _ in range(blocks)
        )
    )


def lazy_forward(library: str) -> Callable[[], Any]:
    """For ingot and mlx: one block, without gradients."""
    mx = load(library)
    (block,) = _lazy_model(library, 1).layers
    x = mx.array(_batch()[0])
    mx.eval(block.parameters(), x)
    compiled = mx.compile(lambda x: block(x, None), inputs=block.state)
    return lambda: mx.eval(compiled(x))


def lazy(library: str, blocks: int) -> Callable[[], Any]:
    """For ingot and mlx: modules and optimizers, with their state captured."""
    return _lazy_step(library, blocks)[1]


def compile_lazy(blocks: int) -> Callable[[], float]:
    """Ingot's compile time."""
    compiled, run = _lazy_step("ingot", blocks)

    def seconds() -> float:
        run()
        return float(compiled.cache_info().seconds)

    return seconds


def _lazy_step(library: str, blocks: int) -> tuple[Any, Callable[[], Any]]:
    """The compiled function, and a call of it."""
    mx, nn = load(library), load_submodule(library, "nn")
    model = _lazy_model(library, blocks)
    optimizer = load_submodule(library, "optimizers").AdamW(
        RATE, betas=list(BETAS), weight_decay=DECAY
    )
    optimizer.init(model.trainable_parameters())
    x, y = map(mx.array, _batch())
    state = [model.state, optimizer.state]
    mx.eval(state, x, y)

    def loss(model: Any, x: Any, y: Any) -> Any:
        for layer in model.layers:
            x = layer(x, None)
        return mx.mean(mx.square(x - y))

    def step(x: Any, y: Any) -> Any:
        value, gradients = nn.value_and_grad(model, loss)(model, x, y)
        optimizer.update(model, gradients)
        return value

    compiled = mx.compile(step, inputs=state, outputs=state)
    return compiled, lambda: mx.eval(compiled(x, y), state)


def _jax_parameters(blocks: int) -> list[dict[str, Any]]:
    jnp = load("jax").numpy
    return [
        {
            name: jnp.asarray(numbers(shape, seed) / math.sqrt(shape[0]))
            for seed, (name, shape) in enumerate(_WEIGHTS.items())
        }
        | {name: jnp.zeros(size) for name, size in _BIASES.items()}
        | {name: jnp.ones(WIDTH) for name in ("scale1", "scale2")}
        for _ in range(blocks)
    ]


def jax_forward() -> Callable[[], Any]:
    """One block, without gradients."""
    module = load("jax")
    (parameters,) = _jax_parameters(1)
    x = module.numpy.asarray(_batch()[0])
    compiled = module.jit(partial(_jax_block, module))
    return lambda: compiled(parameters, x).block_until_ready()


def jax(blocks: int) -> Callable[[], Any]:
    """Functions of trees of parameters; JAX has neither layers nor optimizers of its own."""
    module = load("jax")
    step, state, x, y = _jax_arguments(module, blocks)

    def run() -> None:
        nonlocal state
        _, state = module.block_until_ready(step(state, x, y))

    return run


def compile_jax(blocks: int) -> Callable[[], float]:
    """JAX's time to trace and compile."""
    step, *arguments = _jax_arguments(load("jax"), blocks)

    def seconds() -> float:
        start = perf_counter()
        step.lower(*arguments).compile()
        return perf_counter() - start

    return seconds


def _jax_arguments(module: Any, blocks: int) -> tuple[Any, ...]:
    """The function, and what it is called with."""
    jnp = module.numpy
    parameters = _jax_parameters(blocks)
    zeros = module.tree.map(jnp.zeros_like, parameters)
    step = module.jit(partial(_jax_step, module))
    return step, (parameters, zeros, zeros), *map(jnp.asarray, _batch())


_WEIGHTS = dict.fromkeys(("query", "key", "value", "out"), (WIDTH, WIDTH)) | {
    "up": (WIDTH, 4 * WIDTH),
    "down": (4 * WIDTH, WIDTH),
}
_BIASES = {"shift1": WIDTH, "shift2": WIDTH, "up_bias": 4 * WIDTH, "down_bias": WIDTH}


def _jax_block(module: Any, p: Any, x: Any) -> Any:
    nn, jnp = module.nn, module.numpy

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean = jnp.mean(x, -1, keepdims=True)
        return (x - mean) * module.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * scale + shift

    def heads(x: Any) -> Any:
        return x.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS)

    h = normalised(x, p["scale1"], p["shift1"])
    attended = nn.dot_product_attention(*(heads(h @ p[name]) for name in ("query", "key", "value")))
    x = x + attended.reshape(BATCH, LENGTH, WIDTH) @ p["out"]
    h = normalised(x, p["scale2"], p["shift2"])
    h = nn.gelu(h @ p["up"] + p["up_bias"], approximate=False)
    return x + h @ p["down"] + p["down_bias"]


def _jax_step(module: Any, state: Any, x: Any, y: Any) -> Any:
    jnp, tree = module.numpy, module.tree
    parameters, first, second = state

    def loss(parameters: Any) -> Any:
        h = x
        for block in parameters:
            h = _jax_block(module, block, h)
        return jnp.mean(jnp.square(h - y))

    value, gradients = module.value_and_grad(loss)(parameters)
    b1, b2 = BETAS
    first = tree.map(lambda m, g: b1 * m + (1 - b1) * g, first, gradients)
    second = tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, second, gradients)
    parameters = tree.map(
        lambda p, m, v: p * (1 - RATE * DECAY) - RATE * m / (jnp.sqrt(v) + EPSILON),
        parameters,
        first,
        second,
    )
    return value, (parameters, first, second)


def _torch_model(blocks: int) -> Any:
    module = load("torch")
    module.manual_seed(0)
    module.compiler.reset()
    return module.nn.Sequential(
        *(
            module.nn.TransformerEncoderLayer(
                WIDTH,
                HEADS,
                4 * WIDTH,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(blocks)
        )
    )


def torch_forward() -> Callable[[], Any]:
    """One block, without gradients and compiled."""
    module = load("torch")
    (block,) = _torch_model(1).eval()
    x = module.from_numpy(_batch()[0])
    forward = module.compile(block)

    def run() -> None:
        with module.no_grad():
            forward(x)

    return run


def torch(blocks: int) -> Callable[[], Any]:
    """Modules; the model and the optimizer's step are compiled, as its documentation advises."""
    module = load("torch")
    model = _torch_model(blocks)
    optimizer = module.optim.AdamW(model.parameters(), RATE, BETAS, weight_decay=DECAY)
    x, y = map(module.from_numpy, _batch())
    forward = module.compile(lambda x, y: (model(x) - y).square().mean())
    update = module.compile(optimizer.step)

    def run() -> None:
        optimizer.zero_grad()
        forward(x, y).backward()
        update()

    return run
