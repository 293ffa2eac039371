"""How a function of one array becomes a contender in each library."""

from __future__ import annotations

import concurrent.futures
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from ingot.benchmarks.benchmark import Setup
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.functions import Function

__all__ = [
    "COMPILERS",
    "Input",
    "compilers",
    "jax",
    "lazy",
    "memcpy",
    "numbers",
    "numpy",
    "own_words",
    "torch",
]

Shape = tuple[int, ...]

COMPILERS = ("mlx compile", "jax jit", "torch compile")


def numbers(shape: Shape, seed: int = 0) -> Any:
    """Normally distributed float32 numbers, the same for every contender."""
    np = load("numpy")
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@dataclass(frozen=True)
class Input:
    """An array to compute with.

    Its layout is "contiguous", "transposed" (columns are contiguous) or "strided" (every other
    number of an array twice as wide).
    """

    shape: Shape
    dtype: str = "float32"
    layout: str = "contiguous"

    def numbers(self) -> Any:
        """The numbers in memory, as NumPy has them: float32, or int32 for integers."""
        np = load("numpy")
        shape = self.shape
        if self.layout == "transposed":
            shape = shape[::-1]
        elif self.layout == "strided":
            shape = (*shape[:-1], 2 * shape[-1])
        if self.dtype == "int32":
            return np.random.default_rng(0).integers(-1000, 1000, shape, np.int32)
        return numbers(shape)

    def view(self, x: Any) -> Any:
        """The input as a view of the array in memory."""
        if self.layout == "transposed":
            return x.T
        return x[..., ::2] if self.layout == "strided" else x


def lazy(library: str, function: Function, of: Input, compiled: bool) -> Callable[[], Any]:
    """For ingot and mlx."""
    mx = load(library)
    x = of.view(mx.array(of.numbers()).astype(getattr(mx, of.dtype)))
    mx.eval(x)
    run = mx.compile(partial(function, mx)) if compiled else partial(function, mx)
    return lambda: mx.eval(run(x))


def jax(function: Function, of: Input, compiled: bool) -> Callable[[], Any]:
    """JAX's arrays are always contiguous: views are taken in the function."""
    module = load("jax")
    x = module.numpy.asarray(of.numbers(), of.dtype)

    def run(x: Any) -> Any:
        return function(module.numpy, of.view(x))

    chosen = module.jit(run) if compiled else run
    return lambda: chosen(x).block_until_ready()


def torch(function: Function, of: Input, compiled: bool) -> Callable[[], Any]:
    module = load("torch")
    x = of.view(module.from_numpy(of.numbers()).to(getattr(module, of.dtype)))
    run = partial(function, module)
    if compiled:
        # After several shapes of one function it would compile for any shape, and then give up.
        module.compiler.reset()
        run = module.compile(run)
    return lambda: run(x)


def numpy(function: Function, of: Input) -> Callable[[], Any]:
    module = load("numpy")
    x = of.view(of.numbers().astype(of.dtype))
    return lambda: function(module, x)


def memcpy(shape: Shape) -> Callable[[], Any]:
    """memcpy of float32 by all CPUs into memory that was seen before: the limit."""
    np = load("numpy")
    size = math.prod(shape)
    source, target = numbers((size,)), np.zeros(size, np.float32)
    threads = len(os.sched_getaffinity(0))
    ends = [size * number // threads for number in range(threads + 1)]
    chunks = [(target[begin:end], source[begin:end]) for begin, end in pairwise(ends)]
    pool = concurrent.futures.ThreadPoolExecutor(threads)

    def copy() -> None:
        for done in [pool.submit(np.copyto, to, of) for to, of in chunks]:
            done.result()

    return copy


def compilers(function: Function, of: Input, *peers: str) -> dict[str, Setup]:
    """Ingot's compiled function, and those of some peers."""
    setups: dict[str, Setup] = {
        "ingot": partial(lazy, "ingot", function, of, True),
        "mlx compile": partial(lazy, "mlx", function, of, True),
        "jax jit": partial(jax, function, of, True),
        "torch compile": partial(torch, function, of, True),
    }
    return {name: setup for name, setup in setups.items() if name == "ingot" or name in peers}


def own_words(
    arrays: Callable[[], tuple[Any, ...]], ingot: Function, jax: Function, torch: Function
) -> dict[str, Setup]:
    """Contenders of work that each library has words of its own for: functions of its module and of
    some arrays. Those of ingot and JAX are compiled.
    """

    def of_ingot() -> Callable[[], Any]:
        mx = load("ingot")
        inputs = [mx.array(each) for each in arrays()]
        mx.eval(inputs)
        run = mx.compile(partial(ingot, mx))
        return lambda: mx.eval(run(*inputs))

    def of_jax() -> Callable[[], Any]:
        module = load("jax")
        inputs = [module.numpy.asarray(each) for each in arrays()]
        run = module.jit(partial(jax, module))
        return lambda: module.block_until_ready(run(*inputs))

    def of_torch() -> Callable[[], Any]:
        module = load("torch")
        inputs = [module.from_numpy(each) for each in arrays()]
        return lambda: torch(module, *inputs)

    return {"ingot": of_ingot, "jax jit": of_jax, "torch": of_torch}
