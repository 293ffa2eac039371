"""Calls of shapeless functions with shapes that they have not seen, evaluation included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

from ingot.benchmarks.benchmark import Benchmark, Contenders, Measure, enter
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers

CALLS = 20  # in a round, of which the median counts
WARM = 8  # calls with other shapes before anything is timed
LENGTHS = 64  # of each of two axes
HIDDEN = 64

Shapes = list[tuple[int, ...]]


def _chain(mx: Any, x: Any, y: Any) -> Any:
    return mx.tanh(x * y) + mx.exp(-x) / 2


def _softmax(mx: Any, x: Any) -> Any:
    return mx.softmax(x, axis=-1)


def _layer_norm(mx: Any, x: Any, weight: Any, bias: Any) -> Any:
    return mx.fast.layer_norm(x, weight, bias, 1e-5)


def _perceptron(mx: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    return mx.maximum(x @ a + b, 0) @ c


def _halves(mx: Any, x: Any) -> Any:
    return mx.split(mx.tanh(x), 2, axis=1)


def _dropout(mx: Any, x: Any) -> Any:
    return mx.where(mx.random.uniform(shape=x.shape) < 0.9, x / 0.9, 0)


def _sort(mx: Any, x: Any) -> Any:
    return mx.sort(x * 2, axis=-1) + x


def _gather(mx: Any, x: Any) -> Any:
    return x[mx.argmax(x, axis=0)] * 2


FUNCTIONS: dict[str, tuple[str, Callable[..., Any], Callable[[int, int], Shapes]]] = {
    "chain": ("an elementwise chain", _chain, lambda m, n: [(m, 2 * n), (m, 2 * n)]),
    "softmax": ("softmax", _softmax, lambda m, n: [(m, 4 * n)]),
    "layer_norm": ("layer norm", _layer_norm, lambda m, n: [(2 * m, 4 * n), (4 * n,), (4 * n,)]),
    "perceptron": (
        "two products with an activation",
        _perceptron,
        lambda m, n: [(m, 2 * n), (2 * n, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN)],
    ),
    "views": ("the halves of an array as two views", _halves, lambda m, n: [(m, 2 * n)]),
    "random": ("dropout, with random numbers", _dropout, lambda m, n: [(m, 2 * n)]),
    "host": ("a sort, which has no kernel", _sort, lambda m, n: [(m, 2 * n)]),
    "gather": ("rows at computed indices, which are checked", _gather, lambda m, n: [(m, 2 * n)]),
}

# MLX's shapeless functions cannot infer the shapes of these.
WITHOUT_MLX = ("views", "random", "gather")


def _calls(
    library: str, function: Callable[..., Any], shapes: Callable[[int, int], Shapes], known: bool
) -> Callable[[], float]:
    """The seconds of a call, each with other shapes than all before; or the second with them."""
    mx = load(library)
    compiled = mx.compile(partial(function, mx), shapeless=True)
    lengths = _lengths()

    def arguments() -> list[Any]:
        found = [mx.array(numbers(shape)) for shape in shapes(*next(lengths))]
        mx.eval(found)
        return found

    for _ in range(WARM):
        mx.eval(compiled(*arguments()))

    def timed() -> float:
        inputs = [arguments() for _ in range(CALLS)]
        if known:
            mx.eval([compiled(*each) for each in inputs])
        times = []
        for each in inputs:
            start = perf_counter()
            mx.eval(compiled(*each))
            times.append(perf_counter() - start)
        return median(times)

    return timed


def _lengths() -> Iterator[tuple[int, int]]:
    """Lengths that come again only after thousands of others."""
    while True:
        yield from product(range(LENGTHS, 2 * LENGTHS), repeat=2)


def _contenders(
    function: Callable[..., Any], shapes: Callable[[int, int], Shapes], with_mlx: bool
) -> Contenders:
    contenders = {
        "ingot": partial(_calls, "ingot", function, shapes, False),
        "ingot known shapes": partial(_calls, "ingot", function, shapes, True),
        "mlx compile": partial(_calls, "mlx", function, shapes, False),
    }
    return {name: run for name, run in contenders.items() if with_mlx or name != "mlx compile"}


for _name, (_title, _function, _shapes) in FUNCTIONS.items():
    enter(
        Benchmark(
            f"shapeless_new_shape_{_name}",
            f"{_title}, shapeless: a call with a new shape",
            partial(_contenders, _function, _shapes, _name not in WITHOUT_MLX),
            __name__,
            targets={"ingot known shapes": 2.0},
            limits={"limit 50 us": 50e-6},
            measure=Measure.SELF_TIMED,
        )
    )
