"""Loops inside compiled functions: `mx.scan` and the other loops against `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from ingot.benchmarks.benchmark import Contenders, Measure, Setup, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers

# A function of the array module, its loops (scan, fori_loop, while_loop) and arrays.
Loop = Callable[..., Any]


class _Loops:
    """JAX's loops under ingot's names."""

    def __init__(self, lax: Any) -> None:
        self.scan = lax.scan
        self.fori_loop = lax.fori_loop
        self.cond = lax.cond

    def while_loop(self, cond: Any, body: Any, init: Any, max_steps: int | None) -> Any:
        return load("jax").lax.while_loop(cond, body, init)


def _of_ingot(
    function: Loop,
    arrays: Callable[[], list[Any]],
    differentiated: bool,
    compiling: bool = False,
) -> Any:
    """A call, or with `compiling` its compile time."""
    mx = load("ingot")
    values = [mx.array(x) for x in arrays()]
    mx.eval(values)
    of_values = partial(function, mx, mx)
    run = mx.compile(mx.grad(of_values, tuple(range(len(values)))) if differentiated else of_values)
    if not compiling:
        return lambda: mx.eval(run(*values))

    def seconds() -> float:
        mx.eval(run(*values))
        return float(run.cache_info().seconds)

    return seconds


def _of_jax(
    function: Loop,
    arrays: Callable[[], list[Any]],
    differentiated: bool,
    compiling: bool = False,
) -> Any:
    jax = load("jax")
    values = [jax.numpy.asarray(x) for x in arrays()]
    of_values = partial(function, jax.numpy, _Loops(jax.lax))
    run = jax.jit(jax.grad(of_values, tuple(range(len(values)))) if differentiated else of_values)
    if not compiling:
        return lambda: jax.block_until_ready(run(*values))

    def seconds() -> float:
        start = perf_counter()
        run.lower(*values).compile()
        return perf_counter() - start

    return seconds


def _both(
    function: Loop,
    arrays: Callable[[], list[Any]],
    differentiated: bool = False,
    compiling: bool = False,
) -> Contenders:
    return {
        "ingot": partial(_of_ingot, function, arrays, differentiated, compiling),
        "jax jit": partial(_of_jax, function, arrays, differentiated, compiling),
    }


def _sigmoid(m: Any, x: Any) -> Any:
    return 1 / (1 + m.exp(-x))


def _lstm(m: Any, loops: Any, xs: Any, by_input: Any, by_state: Any, bias: Any) -> Any:
    projected = xs @ by_input + bias
    start = m.zeros(projected.shape[1:-1] + (by_state.shape[0],))

    def step(carry: Any, total: Any) -> Any:
        state, cell = carry
        enter, keep, new, leave = m.split(total + state @ by_state, 4, -1)
        cell = _sigmoid(m, keep) * cell + _sigmoid(m, enter) * m.tanh(new)
        state = _sigmoid(m, leave) * m.tanh(cell)
        return (state, cell), state

    _, states = loops.scan(step, (start, start), projected)
    return m.mean(m.square(states))


def _lstm_arrays(steps: int, batch: int, width: int) -> list[Any]:
    weights = [numbers((width, 4 * width), seed) * 0.03 for seed in (1, 2)]
    return [numbers((steps, batch, width)), *weights, numbers((4 * width,), 3)]


@benchmark("LSTM of 512, 300 steps of 16 rows, gradients, by scan", targets={"jax jit": 0.6})
def loop_lstm() -> Contenders:
    return _both(_lstm, partial(_lstm_arrays, 300, 16, 512), True)


class _Unrolled:
    """`scan` as a Python loop, which is unrolled."""

    def __init__(self, m: Any) -> None:
        self.m = m

    def scan(self, body: Any, carry: Any, xs: Any) -> Any:
        found = []
        for number in range(xs.shape[0]):
            carry, result = body(carry, xs[number])
            found.append(result)
        return carry, self.m.stack(found)


def _unrolled_lstm(m: Any, loops: Any, *arrays: Any) -> Any:
    return _lstm(m, _Unrolled(m), *arrays)


@benchmark(
    "compiling the gradients of an LSTM of 512, 300 steps in a Python loop, cold cache",
    targets={"jax jit": 0.2},
    measure=Measure.COMPILE_COLD,
)
def compile_unrolled_lstm() -> Contenders:
    return _both(_unrolled_lstm, partial(_lstm_arrays, 300, 4, 512), True, True)


@benchmark("LSTM of 100, 77 steps of 3 rows, gradients, by scan", targets={"jax jit": 0.6})
def loop_lstm_small() -> Contenders:
    return _both(_lstm, partial(_lstm_arrays, 77, 3, 100), True)


@benchmark("a scalar recurrence of 1,000,000 steps", targets={"jax jit": 1.0})
def loop_recurrence() -> Contenders:
    def recurrence(m: Any, loops: Any, x: Any) -> Any:
        return loops.fori_loop(0, 1_000_000, lambda i, value: value * 0.999 + x, x)

    return _both(recurrence, lambda: [numbers((1,))[0]])


@benchmark(
    "10,000 steps, each with a loop of 3, a branch and a while loop", targets={"jax jit": 1.0}
)
def loop_nested() -> Contenders:
    def nested(m: Any, loops: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = loops.fori_loop(0, 3, lambda i, v: v * 0.5 + x, c)
            c = loops.cond(x > 0, lambda v: v * 2, lambda v: v + 1, c)
            return loops.while_loop(lambda v: v > 1, lambda v: v * 0.5, c, None), c

        return loops.scan(step, xs[0], xs)[1]

    return _both(nested, lambda: [numbers((10_000,))])


@benchmark("Kalman filter of 4 states, 1,000 observations of 2", targets={"jax jit": 0.5})
def loop_kalman() -> Contenders:
    def filtered(m: Any, loops: Any, observations: Any, move: Any, look: Any) -> Any:
        noise, seen = 0.01 * m.eye(4), 0.1 * m.eye(2)

        def step(carry: Any, observation: Any) -> Any:
            mean, spread = carry
            mean, spread = move @ mean, move @ spread @ move.T + noise
            inner = look @ spread @ look.T + seen
            (a, b), (c, d) = (inner[0, 0], inner[0, 1]), (inner[1, 0], inner[1, 1])
            inverse = m.stack([m.stack([d, -b]), m.stack([-c, a])]) / (a * d - b * c)
            gain = spread @ look.T @ inverse
            mean = mean + gain @ (observation - look @ mean)
            return (mean, spread - gain @ look @ spread), mean

        return loops.scan(step, (m.zeros((4,)), m.eye(4)), observations)[1]

    def arrays() -> list[Any]:
        np = load("numpy")
        return [numbers((1000, 2)), np.eye(4, dtype=np.float32) * 0.95, numbers((2, 4), 1)]

    return _both(filtered, arrays)


def _solved(steps: int, m: Any, loops: Any, angle: Any, speed: Any) -> Any:
    """The angles of pendulums after each step, and the last."""

    def slope(y: Any) -> Any:
        return y[1], -m.sin(y[0])

    def moved(y: Any, k: Any, h: float) -> Any:
        return y[0] + h * k[0], y[1] + h * k[1]

    def step(y: Any, _: Any) -> Any:
        a = slope(y)
        b = slope(moved(y, a, 0.005))
        c = slope(moved(y, b, 0.005))
        d = slope(moved(y, c, 0.01))
        new = tuple(y[n] + 0.01 / 6 * (a[n] + 2 * b[n] + 2 * c[n] + d[n]) for n in range(2))
        return new, new[0]

    last, angles = loops.scan(step, (angle, speed), None, length=steps)
    return angles, last[0]


def _starts() -> list[Any]:
    return [numbers((64,)), numbers((64,), 1)]


@benchmark("RK4 of a pendulum, 1,000 steps of 64 starts", targets={"jax jit": 0.5})
def loop_runge_kutta() -> Contenders:
    return _both(lambda *given: _solved(1000, *given)[0], _starts)


def _folded(steps: int, m: Any, loops: Any, first: Any, second: Any) -> Any:
    """A loop whose gradient saves as much as that of `_solved`, with other kernels."""

    def step(y: Any, _: Any) -> Any:
        for _ in range(8):
            y = m.tanh(y[0] * y[1]), y[0]
        return y, y[0]

    return m.sum(loops.scan(step, (first, second), None, length=steps)[0][0])


def _first_call_less_next(setup: Setup, other: Setup) -> Callable[[], float]:
    """What the first of two calls takes longer: bodies are compiled when a loop first runs. Another
    loop, of the same size but with other kernels, runs before it, so that both calls find memory.
    """
    run, run_other = setup(), other()

    def seconds() -> float:
        run_other()
        times = [perf_counter()]
        for _ in range(2):
            run()
            times.append(perf_counter())
        return 2 * times[1] - times[0] - times[2]

    return seconds


@benchmark(
    "compiling the gradient of RK4 of 10,000 steps, cold cache",
    targets={"ingot 10 steps": 1.05},
    measure=Measure.COMPILE_COLD,
)
def compile_long_loop() -> Contenders:
    def solved(steps: int, m: Any, *given: Any) -> Any:
        return m.sum(_solved(steps, m, *given)[1])

    def setup(of_library: Callable[..., Any], steps: int) -> Setup:
        made = [partial(of_library, partial(x, steps), _starts, True) for x in (solved, _folded)]
        return partial(_first_call_less_next, *made)

    return {
        "ingot": setup(_of_ingot, 10_000),
        "ingot 10 steps": setup(_of_ingot, 10),
        "jax jit": setup(_of_jax, 10_000),
    }


@benchmark("Mandelbrot set of 200 x 300 by while_loop, 100 steps", targets={"jax jit": 0.5})
def loop_mandelbrot() -> Contenders:
    def counts(m: Any, loops: Any, re: Any, im: Any) -> Any:
        def body(state: Any) -> Any:
            x, y, count, number = state
            new_x, new_y = x * x - y * y + re, 2 * x * y + im
            inside = new_x * new_x + new_y * new_y <= 4
            return m.where(inside, new_x, x), m.where(inside, new_y, y), count + inside, number + 1

        start = (re * 0, im * 0, m.zeros(re.shape, m.int32), m.array(0))
        return loops.while_loop(lambda state: state[3] < 100, body, start, max_steps=100)[2]

    def arrays() -> list[Any]:
        np = load("numpy")
        grid = np.meshgrid(np.linspace(-2, 1, 300), np.linspace(-1, 1, 200))
        return [x.astype(np.float32) for x in grid]

    return _both(counts, arrays)


@benchmark("Metropolis sampler of 1,000 chains, 1,000 steps", targets={"jax jit": 0.5})
def loop_metropolis() -> Contenders:
    def sampled(m: Any, loops: Any, start: Any, steps: Any, chances: Any) -> Any:
        def step(x: Any, drawn: Any) -> Any:
            move, chance = drawn
            new = x + move
            accepted = m.log(chance) < (x * x - new * new) / 2
            x = m.where(accepted, new, x)
            return x, m.mean(x)

        return loops.scan(step, start, (steps, chances))

    def arrays() -> list[Any]:
        np = load("numpy")
        chances = np.random.default_rng(2).uniform(size=(1000, 1000)).astype(np.float32)
        return [numbers((1000,)), numbers((1000, 1000), 1), chances]

    return _both(sampled, arrays)
