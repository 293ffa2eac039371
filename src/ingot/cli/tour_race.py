"""The tour's race: one function, run by ingot in three ways and by other libraries, next to a copy.

It is a benchmark like those of `ingot bench`: each library runs in a process of its own, so that it
cannot disturb the tour, and all of them alternate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rich.markup import escape

import ingot.core as mx
from ingot.benchmarks.benchmark import Benchmark, Contenders, enter
from ingot.benchmarks.libraries import load_submodule
from ingot.benchmarks.machine import BusyMeter, busy_line
from ingot.benchmarks.result import Result
from ingot.benchmarks.run import QUICK, Effort, run
from ingot.benchmarks.suite.contenders import Input, jax, lazy, memcpy, numpy, torch
from ingot.benchmarks.suite.functions import gelu
from ingot.cli.run import command
from ingot.cli.tour_screen import Bar, Screen

__all__ = ["best_times", "op_by_op", "run_race"]

SHAPE = (2, 1000, 4096)
QUICK_SHAPE = (2, 10, 4096)
# A contender gets no more rounds after this many seconds, including its import, so that the tour
# takes no longer than a minute.
EFFORT = Effort(
    rounds=20, round_seconds=0.0, new_processes=1, contender_seconds=1.5, limit_seconds=60.0
)

# The names and colours of the contenders.
NAMES = {
    "ingot": ("ingot, compiled", "bold green"),
    "ingot uncompiled": ("ingot, uncompiled", "cyan"),
    "ingot op by op": ("ingot, op by op", "blue"),
    "numpy memcpy": ("copying the array", "magenta"),
    "scipy": ("NumPy and SciPy", "grey58"),
    "mlx compile": ("MLX, compiled", "grey58"),
    "jax jit": ("JAX, jit", "grey58"),
    "torch": ("PyTorch, eager", "grey58"),
}


def contenders(shape: tuple[int, ...]) -> Contenders:
    """The contenders, without torch.compile, which takes up to a minute to compile."""
    of = Input(shape)
    return {
        "ingot": partial(lazy, "ingot", gelu, of, True),
        "ingot uncompiled": partial(lazy, "ingot", gelu, of, False),
        "ingot op by op": lambda: op_by_op(lazy("ingot", gelu, of, False)),
        "numpy memcpy": partial(memcpy, shape),
        "scipy": partial(_numpy_and_scipy, of),
        "mlx compile": partial(lazy, "mlx", gelu, of, True),
        "jax jit": partial(jax, gelu, of, True),
        "torch": partial(torch, gelu, of, False),
    }


def _numpy_and_scipy(of: Input) -> Callable[[], Any]:
    erf = load_submodule("scipy", "special").erf
    return numpy(lambda _, x: x * (1 + erf(x / math.sqrt(2))) / 2, of)


def op_by_op(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function with every operation computed on its own, as other libraries do by default."""

    def run() -> Any:
        mx.set_eager_fusion(False)
        try:
            return function()
        finally:
            mx.set_eager_fusion(True)

    return run


RACE = Benchmark("tour", "gelu", partial(contenders, SHAPE), __name__)
QUICK_RACE = Benchmark("tour_quick", "gelu", partial(contenders, QUICK_SHAPE), __name__)
enter(RACE)
enter(QUICK_RACE)


def run_race(screen: Screen, quick: bool) -> None:
    """Measures all contenders and draws the results."""
    shape = QUICK_SHAPE if quick else SHAPE
    screen.say(
        f"The same function on {' x '.join(map(str, shape))} random numbers "
        f"({math.prod(shape) * 4 / 1e6:.2g} MB). Every time is the best of those measured just "
        "now, on this machine."
    )
    screen.blank()
    meter = BusyMeter()
    with screen.working("measuring") as said:
        race, effort = (QUICK_RACE, QUICK) if quick else (RACE, EFFORT)
        (result,) = run([race], effort, said, lambda _: None, meter)
    show_result(screen, result)
    warning = busy_line(meter.share)
    if warning is not None:
        screen.say(f"[dim]{warning}")


def show_result(screen: Screen, result: Result) -> None:
    """Draws the bars, lists who is missing and why, and interprets the results."""
    times = {name: 1000 * min(rounds) for name, rounds in result.rounds.items()}
    ours = times["ingot"]
    screen.bars([Bar(*_bar(name, time), f"{time / ours:.3g}x") for name, time in times.items()])
    screen.blank()
    absent = [NAMES[name][0] for name, why in result.missing.items() if why == "not installed"]
    failed = {name: why for name, why in result.missing.items() if why != "not installed"}
    for name, why in failed.items():
        screen.say(f"[dim]{NAMES[name][0]}: {escape(why)}")
    if absent:
        screen.say(f"[dim]Not installed: {'; '.join(absent)}.")
        screen.say(f"[dim]To add them: {command('pip')} install 'ingot-ml\\[bench]'.")
    ratio = ours / times["numpy memcpy"]
    what_it_shows = (
        "its arithmetic is hidden behind memory." if ratio < 1.1 else "the rest is arithmetic."
    )
    screen.say(
        "[bold]Copying[/bold] moves the same bytes on the same CPUs: every number is read, and one "
        f"written for it. Compiled, gelu takes {ratio:.2f} times as long: {what_it_shows} "
        "[bold]Op by op[/bold] is what most libraries do with plain Python: every operation reads "
        "and writes all of memory. Uncompiled ingot need not, because it fuses large graphs when "
        "they are evaluated."
    )


def _bar(name: str, milliseconds: float) -> tuple[str, float, str]:
    label, style = NAMES[name]
    return label, milliseconds, style


def best_times(
    functions: Mapping[str, Callable[[], Any]], seconds: float, said: Callable[[str], None]
) -> dict[str, float]:
    """The best time of each in milliseconds, since slower runs were disturbed by something.

    They alternate, so that other load on the machine affects all alike.
    """
    for name, function in functions.items():
        said(f"warming up: {name}")
        function()
    best = dict.fromkeys(functions, math.inf)
    end = time.perf_counter() + seconds
    while True:
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            best[name] = min(best[name], 1000 * (time.perf_counter() - started))
        if time.perf_counter() >= end:
            return best
