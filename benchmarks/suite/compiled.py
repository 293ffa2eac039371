"""Compiled functions, as ratios to the peers' compilers and to the limits of the machine."""

from __future__ import annotations

import concurrent.futures
import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks.benchmark import Contenders, Setup, benchmark
from benchmarks.libraries import load

Shape = tuple[int, ...]
Function = Callable[..., Any]


def _numbers(shape: Shape, seed: int = 0) -> Any:
    np = load("numpy")
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# The functions, in the words of each library: `m` is its module of array functions.


def gelu(m: Any, x: Any) -> Any:
    erf = m.erf if hasattr(m, "erf") else load("jax").scipy.special.erf
    return x * (1 + erf(x / math.sqrt(2))) / 2


def softmax(m: Any, x: Any) -> Any:
    if m.__name__ == "torch":
        e = m.exp(x - m.max(x, dim=-1, keepdim=True).values)
        return e / m.sum(e, dim=-1, keepdim=True)
    e = m.exp(x - m.max(x, axis=-1, keepdims=True))
    return e / m.sum(e, axis=-1, keepdims=True)


def layer_norm(m: Any, x: Any) -> Any:
    if m.__name__ == "torch":
        centred = x - m.mean(x, dim=-1, keepdim=True)
        return centred / m.sqrt(m.mean(centred * centred, dim=-1, keepdim=True) + 1e-5)
    centred = x - m.mean(x, axis=-1, keepdims=True)
    return centred / m.sqrt(m.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def product(m: Any, x: Any) -> Any:
    return x @ x


def reduction(name: str, axis: int | None) -> Function:
    def reduce(m: Any, x: Any) -> Any:
        if axis is None:
            return getattr(m, name)(x)
        if m.__name__ == "torch":
            found = getattr(m, name)(x, dim=axis)
            return found.values if name == "max" else found
        return getattr(m, name)(x, axis=axis)

    return reduce


# The contenders.


def _lazy(library: str, function: Function, shape: Shape, compiled: bool) -> Callable[[], Any]:
    mx = load(library)
    x = mx.array(_numbers(shape))
    mx.eval(x)
    run = mx.compile(partial(function, mx)) if compiled else partial(function, mx)
    return lambda: mx.eval(run(x))


def _jax(function: Function, shape: Shape, compiled: bool) -> Callable[[], Any]:
    jax = load("jax")
    x = jax.numpy.asarray(_numbers(shape))
    run = partial(function, jax.numpy)
    if compiled:
        run = jax.jit(run)
    return lambda: run(x).block_until_ready()


def _torch(function: Function, shape: Shape, compiled: bool) -> Callable[[], Any]:
    torch = load("torch")
    x = torch.from_numpy(_numbers(shape))
    run = partial(function, torch)
    if compiled:
        run = torch.compile(run)
    return lambda: run(x)


def _numpy(function: Function, shape: Shape) -> Callable[[], Any]:
    np = load("numpy")
    x = _numbers(shape)
    return lambda: function(np, x)


def _memcpy(shape: Shape) -> Callable[[], Any]:
    """memcpy by two threads into memory that was seen before: the limit."""
    np = load("numpy")
    source, target = _numbers(shape).reshape(-1), np.zeros(math.prod(shape), np.float32)
    halves = [
        (source[a:b], target[a:b]) for a, b in ((0, len(source) // 2), (len(source) // 2, None))
    ]
    pool = concurrent.futures.ThreadPoolExecutor(2)

    def copy() -> None:
        for done in [pool.submit(np.copyto, to, of) for of, to in halves]:
            done.result()

    return copy


def _compilers(function: Function, shape: Shape, *peers: str) -> dict[str, Setup]:
    setups: dict[str, Setup] = {
        "ingot": partial(_lazy, "ingot", function, shape, True),
        "mlx compile": partial(_lazy, "mlx", function, shape, True),
        "jax jit": partial(_jax, function, shape, True),
        "torch compile": partial(_torch, function, shape, True),
    }
    return {name: setup for name, setup in setups.items() if name == "ingot" or name in peers}


ALL = ("mlx compile", "jax jit", "torch compile")
LARGE = (32, 1000, 4096)


@benchmark(
    "compiled gelu, 32 x 1000 x 4096",
    targets={"numpy memcpy": 1.25, "jax jit": 1 / 3, "torch compile": 1 / 3, "mlx compile": 1 / 30},
)
def gelu_large() -> Contenders:
    return {**_compilers(gelu, LARGE, *ALL), "numpy memcpy": partial(_memcpy, LARGE)}


@benchmark("compiled gelu, 64 x 1024", targets={"jax jit": 0.5})
def gelu_small() -> Contenders:
    return _compilers(gelu, (64, 1024), *ALL)


@benchmark("compiled gelu of a scalar", targets={"jax jit": 1 / 3, "mlx compile": 1 / 5})
def gelu_scalar() -> Contenders:
    return _compilers(gelu, (), *ALL)


@benchmark("gelu without compile, 32 x 1000 x 4096", targets={"jax": 1 / 3, "torch": 1 / 3})
def gelu_eager() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot", gelu, LARGE, False),
        "jax": partial(_jax, gelu, LARGE, False),
        "torch": partial(_torch, gelu, LARGE, False),
    }


@benchmark(
    "compiled softmax written out, 2048 x 4096", targets={"jax jit": 0.5, "torch compile": 0.5}
)
def softmax_rows() -> Contenders:
    return _compilers(softmax, (2048, 4096), *ALL)


@benchmark(
    "compiled layer norm written out, 2048 x 4096", targets={"jax jit": 0.5, "torch compile": 0.5}
)
def layer_norm_rows() -> Contenders:
    return _compilers(layer_norm, (2048, 4096), *ALL)


@benchmark("compiled a @ a, 1024", targets={"jax jit": 0.75})
def product_compiled() -> Contenders:
    return _compilers(product, (1024, 1024), "jax jit", "torch compile")


def _reduction(name: str, axis: int | None, shape: Shape = (4096, 4096)) -> Contenders:
    function = reduction(name, axis)
    return {
        "ingot": partial(_lazy, "ingot", function, shape, True),
        "numpy": partial(_numpy, function, shape),
        "jax jit": partial(_jax, function, shape, True),
        "torch": partial(_torch, function, shape, False),
    }


WITHIN = {"numpy": 1.3, "jax jit": 1.3, "torch": 1.3}


@benchmark("compiled sum over rows, 4096 x 4096", targets=WITHIN)
def sum_rows() -> Contenders:
    return _reduction("sum", 1)


@benchmark("compiled sum over columns, 4096 x 4096", targets=WITHIN)
def sum_columns() -> Contenders:
    return _reduction("sum", 0)


@benchmark("compiled sum of all, 4096 x 4096", targets=WITHIN)
def sum_all() -> Contenders:
    return _reduction("sum", None)


@benchmark("compiled max over rows, 4096 x 4096", targets=WITHIN)
def max_rows() -> Contenders:
    return _reduction("max", 1)


@benchmark("compiled max over columns, 4096 x 4096", targets=WITHIN)
def max_columns() -> Contenders:
    return _reduction("max", 0)


@benchmark("compiled max of all, 4096 x 4096", targets=WITHIN)
def max_all() -> Contenders:
    return _reduction("max", None)


# Odd sizes, so that nothing is tuned to one.


@benchmark("compiled gelu, 1023 x 4097", targets={"jax jit": 1.0})
def odd_gelu() -> Contenders:
    return _compilers(gelu, (1023, 4097), "jax jit", "torch compile")


@benchmark("compiled softmax, 4097 x 7", targets={"jax jit": 1.0})
def odd_softmax_narrow() -> Contenders:
    return _compilers(softmax, (4097, 7), "jax jit", "torch compile")


@benchmark("compiled softmax, 7 x 100003", targets={"jax jit": 1.0})
def odd_softmax_wide() -> Contenders:
    return _compilers(softmax, (7, 100_003), "jax jit", "torch compile")


@benchmark("compiled layer norm, 1023 x 1023", targets={"jax jit": 1.0})
def odd_layer_norm() -> Contenders:
    return _compilers(layer_norm, (1023, 1023), "jax jit", "torch compile")


LAYERS = (784, 512, 512, 10)


def _network() -> tuple[list[Any], Any, Any]:
    weights = [_numbers((a, b), i) * 0.05 for i, (a, b) in enumerate(pairwise(LAYERS))]
    np = load("numpy")
    biases = [np.zeros(b, np.float32) for b in LAYERS[1:]]
    return [*weights, *biases], _numbers((256, 784), 7), _numbers((256, 10), 8)


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


def _lazy_training(library: str) -> Callable[[], Any]:
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


def _jax_training() -> Callable[[], Any]:
    jax = load("jax")
    parameters, x, y = _network()
    state = [jax.numpy.asarray(p) for p in parameters]
    inputs, targets = jax.numpy.asarray(x), jax.numpy.asarray(y)
    step = jax.jit(_step(jax.numpy, jax.grad))

    def run() -> None:
        nonlocal state
        state = jax.block_until_ready(step(state, inputs, targets))

    return run


@benchmark("MLP 784-512-512-10, batch 256, SGD step, compiled", targets={"jax jit": 0.6})
def training_step() -> Contenders:
    return {
        "ingot": partial(_lazy_training, "ingot"),
        "mlx compile": partial(_lazy_training, "mlx"),
        "jax jit": _jax_training,
    }
