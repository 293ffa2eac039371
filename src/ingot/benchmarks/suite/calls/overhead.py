"""What an operation costs when the work is nothing: building nodes, evaluating them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers


def _chain(x: Any) -> Any:
    return ((x + 1.0) * 2.0 - 3.0) / 4.0 * x


def _lazy_chain(library: str) -> Callable[[], None]:
    mx = load(library)
    x = mx.array(1.5)
    return lambda: mx.eval(_chain(x))


def _numpy_chain() -> Callable[[], Any]:
    np = load("numpy")
    x = np.array(1.5, np.float32)
    return lambda: _chain(x)


def _jax_chain() -> Callable[[], Any]:
    x = load("jax").numpy.array(1.5)
    return lambda: _chain(x).block_until_ready()


def _torch_chain() -> Callable[[], Any]:
    x = load("torch").tensor(1.5)
    return lambda: _chain(x)


@benchmark("five chained operations on a scalar, then eval", targets={"mlx": 0.5})
def scalar_chain() -> Contenders:
    return {
        "ingot": lambda: _lazy_chain("ingot"),
        "mlx": lambda: _lazy_chain("mlx"),
        "numpy": _numpy_chain,
        "jax": _jax_chain,
        "torch": _torch_chain,
    }


def _long_chain(m: Any, x: Any) -> Any:
    return m.exp(-(x * 2.0 + 1.0) * x) / (1.0 + m.abs(x)) * x - 0.5


def _chains(length: int) -> Contenders:
    def lazy(library: str) -> Callable[[], None]:
        mx = load(library)
        x = mx.array(numbers((length,)))

        def run() -> None:
            mx.eval(_long_chain(mx, x))

        for _ in range(WARM_UP):
            run()
        return run

    def jax() -> Callable[[], Any]:
        jax = load("jax")
        x = jax.numpy.array(numbers((length,)))
        return lambda: _long_chain(jax.numpy, x).block_until_ready()

    def torch() -> Callable[[], Any]:
        torch = load("torch")
        x = torch.from_numpy(numbers((length,)))
        return lambda: _long_chain(torch, x)

    return {
        "ingot": lambda: lazy("ingot"),
        "mlx": lambda: lazy("mlx"),
        "jax": jax,
        "torch": torch,
    }


WARM_UP = 2100  # evaluations, after which small graphs have a program too
HALF = {"mlx": 0.5, "jax": 0.5, "torch": 0.5}


@benchmark("nine ops on 90,000 elements without compile", targets=HALF)
def middle_chain() -> Contenders:
    return _chains(90_000)


@benchmark("nine ops on 10 elements without compile, in a long loop", targets=HALF)
def small_chain() -> Contenders:
    return _chains(10)


MANY = 100


def _sums(arguments: Any) -> list[Any]:
    return [x + 1.0 for x in arguments]


def _lazy_call(library: str) -> Callable[[], None]:
    mx = load(library)
    arguments = [mx.array(float(number)) for number in range(MANY)]
    compiled = mx.compile(_sums)
    return lambda: mx.eval(compiled(arguments))


def _jax_call() -> Callable[[], Any]:
    jax = load("jax")
    arguments = [jax.numpy.array(float(number)) for number in range(MANY)]
    compiled = jax.jit(_sums)
    return lambda: jax.block_until_ready(compiled(arguments))


def _torch_call() -> Callable[[], Any]:
    torch = load("torch")
    arguments = [torch.tensor(float(number)) for number in range(MANY)]
    compiled = torch.compile(_sums)
    return lambda: compiled(arguments)


@benchmark(f"a compiled call with {MANY} scalars in a list", targets={"jax jit": 1 / 3})
def call_many() -> Contenders:
    return {
        "ingot": lambda: _lazy_call("ingot"),
        "mlx compile": lambda: _lazy_call("mlx"),
        "jax jit": _jax_call,
        "torch compile": _torch_call,
    }
