"""First steps with ingot, in the terminal: `make demo`.

Everything below is MLX's API. With `import mlx.core as mx` the same program runs on MLX.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import ingot.core as mx

BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


def title(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}")


def show(code: str, value: Any) -> None:
    """A line of code and what it gives."""
    lines = str(value).splitlines()
    print(f"  {code:<42} {lines[0]}")
    for line in lines[1:]:
        print(f"  {'':<42} {line}")


def milliseconds(functions: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The best time of each function: the slower runs were disturbed by something.

    They take turns, so that whatever else the machine does at the time disturbs all alike.
    """
    best = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while True:
        for i, function in enumerate(functions):
            started = time.perf_counter()
            function()
            best[i] = min(best[i], (time.perf_counter() - started) * 1e3)
        if time.perf_counter() >= end:
            return best


def race(
    what: str, ours: Callable[[], mx.array], numpys: Callable[[], Any], seconds: float
) -> None:
    """Times ingot and NumPy on the same work, after checking that they agree."""
    mine, theirs = np.array(ours()), np.asarray(numpys())
    difference = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
    assert difference < 1e-4, f"{what}: ingot and NumPy differ by {difference:.1e}"
    our_time, numpy_time = milliseconds([lambda: mx.eval(ours()), numpys], seconds)
    print(f"  {what:<42} ingot {our_time:8.2f} ms   NumPy {numpy_time:8.2f} ms")


def processor_seconds() -> tuple[float, float]:
    """What the whole machine and what this program have computed so far (on Linux)."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    own = os.times()
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK"), own.user + own.system


@contextmanager
def say_if_disturbed() -> Iterator[None]:
    """Says so if other programs had the processor during the measurements inside.

    Threads that wait for a core wait for milliseconds at a time: with one of two cores taken, a
    product of 12 ms takes 32, in NumPy as in ingot, and the comparison says nothing.
    """
    machine, own, started = *processor_seconds(), time.perf_counter()
    yield
    machine_now, own_now, now = *processor_seconds(), time.perf_counter()
    others = ((machine_now - machine) - (own_now - own)) / (now - started)
    if now - started > 0.5 and others > 0.2:
        print(
            f"  {DIM}Other programs kept {others:.1f} cores busy meanwhile: these times are ",
            end="",
        )
        print(f"too long, and no fair comparison. Try again on a quiet machine.{PLAIN}")


def lazy_arrays(size: int) -> None:
    title("Arrays are lazy: operations are noted down, and computed when a value is needed")
    x = mx.ones((size, size))
    started = time.perf_counter()
    y = mx.sqrt(x * 2 + x @ x).sum()
    noted = time.perf_counter()
    mx.eval(y)
    computed = time.perf_counter()
    show("y = mx.sqrt(x * 2 + x @ x).sum()", f"noted in {(noted - started) * 1e6:.0f} µs")
    show("mx.eval(y)", f"computed in {(computed - noted) * 1e3:.1f} ms")
    show("y", y)


def operators_and_indexing() -> None:
    title("Operators and indexing are those of NumPy and MLX")
    x = mx.arange(12).reshape(3, 4)
    show("x = mx.arange(12).reshape(3, 4)", x)
    show("x[1]", x[1])
    show("x[:, ::-2]", x[:, ::-2])
    show("x[mx.array([2, 0]), 1:3]", x[mx.array([2, 0]), 1:3])
    show("(x - x.mean(axis=0)) / 4", (x - x.mean(axis=0)) / 4)
    y = x
    x[0, 1:3] = 100
    show("x[0, 1:3] = 100; x[0]", x[0])
    show("y is x", y is x)
    show("mx.array([1, 2]) + 0.5", mx.array([1, 2]) + 0.5)


def contractions(size: int, seconds: float) -> None:
    title("Matrix products and einsum, with NumPy beside them")
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    a, b = mx.array(left), mx.array(right)
    mx.eval(a, b)
    race(f"a @ b, {size} x {size}", lambda: a @ b, lambda: left @ right, seconds)
    race(
        "mx.einsum('ij,kj->ik', a, b)",
        lambda: mx.einsum("ij,kj->ik", a, b),
        lambda: np.einsum("ij,kj->ik", left, right, optimize=True),
        seconds,
    )

    def softmax(library: Any, x: Any) -> Any:
        exponentials = library.exp(x - x.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    race("softmax(a @ b)", lambda: softmax(mx, a @ b), lambda: softmax(np, left @ right), seconds)


def gradients(steps: int) -> None:
    title("Functions have gradients: fitting a line to points, from nothing")
    x = mx.linspace(-1, 1, 100)
    y = 3 * x + 0.5

    def loss(line: mx.array) -> mx.array:
        return mx.square(line[0] * x + line[1] - y).mean()

    line = mx.zeros(2)
    slope = mx.grad(loss)
    show("mx.grad(loss)(line)", slope(line))
    for _ in range(steps):
        line = line - 0.5 * slope(line)
    show(f"line, after {steps} steps", line)
    show("mx.vmap(loss)(mx.stack([line, -line]))", mx.vmap(loss)(mx.stack([line, -line])))


def compilation(size: int, seconds: float) -> None:
    title("Compiled functions: traced once, fused, and run as machine code")

    def gelu(library: Any, x: Any) -> Any:
        cubic = 0.7978845608 * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + library.tanh(cubic))

    numbers = np.random.default_rng(0).standard_normal((size, 4 * size), dtype=np.float32)
    x = mx.array(numbers)
    mx.eval(x)
    compiled = mx.compile(lambda x: gelu(mx, x))
    race(f"gelu of {size} x {4 * size}", lambda: compiled(x), lambda: gelu(np, numbers), seconds)
    report = compiled.explain(x)
    kernels, before, after = len(report.kernels), report.bytes_before, report.bytes_after
    show("kernels", kernels)
    show("bytes read and written, op by op", f"{before:,}")
    show("bytes read and written, compiled", f"{after:,}")
    compiled(x[:1])
    show("compiled.cache_info()", compiled.cache_info())


def mandelbrot(library: Any, real: Any, imaginary: Any, steps: int) -> Any:
    """How many steps each point stays near the origin: one program for both libraries."""
    x, y = library.zeros_like(real), library.zeros_like(real)
    count = library.zeros_like(real)
    for _ in range(steps):
        inside = x * x + y * y < 4
        x, y = (
            library.where(inside, x * x - y * y + real, x),
            library.where(inside, 2 * x * y + imaginary, y),
        )
        count = count + inside
    return count


def picture(width: int, height: int, steps: int) -> None:
    title("And a whole program: 40 steps of ten operations, computed when it is drawn")
    real = mx.broadcast_to(mx.linspace(-2.2, 0.8, width), (height, width))
    imaginary = mx.broadcast_to(mx.linspace(-1.2, 1.2, height)[:, None], (height, width))
    started = time.perf_counter()
    count = mandelbrot(mx, real, imaginary, steps)
    rows = count.astype(mx.int32).tolist()
    elapsed = time.perf_counter() - started
    shades = " .:-=+*#%@"
    for row in rows:
        print("  " + "".join(shades[min(step * len(shades) // (steps + 1), 9)] for step in row))
    print(f"  {DIM}{width} x {height} points in {elapsed * 1e3:.1f} ms{PLAIN}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A first look at ingot.")
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs")
    quick = parser.parse_args().quick
    size, seconds = (64, 0.0) if quick else (1024, 1.0)
    print(f"{BOLD}ingot{PLAIN}: array programs with MLX's API, on the CPU you have")
    lazy_arrays(size)
    operators_and_indexing()
    with say_if_disturbed():
        contractions(size, seconds)
        compilation(size, seconds)
    gradients(steps=40)
    picture(*((40, 12) if quick else (78, 24)), steps=40)
    print("\nNext: examples/first_steps.py is this program; README.md says what else there is.")


if __name__ == "__main__":
    main()
