"""A solver of differential equations, and a pendulum fitted to observations.

A pendulum was filmed for ten seconds. Its length and friction are fitted by gradient descent
through a Runge-Kutta solver of 1,000 steps, which `mx.scan` runs as one native loop. A second
solver chooses its own step sizes; the number of steps is not known beforehand, so it uses
`mx.while_loop`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import show
from matplotlib import pyplot

import ingot.core as mx
import ingot.optimizers as optim

SECONDS, STEPS, FRAMES = 10.0, 1000, 50
LENGTH, FRICTION = 1.7, 0.15  # the unknowns
GRAVITY = 9.81
START = [2.0, 0.0]  # angle and speed

Slope = Callable[[mx.array], mx.array]


def slope(y: mx.array, length: mx.array | float, friction: mx.array | float) -> mx.array:
    """The derivatives of a pendulum's angle and speed."""
    return mx.stack([y[1], -GRAVITY / length * mx.sin(y[0]) - friction * y[1]])


def runge_kutta(f: Slope, start: mx.array, h: float, steps: int) -> mx.array:
    """The solution of y' = f(y) after each step of length h, by the classical method."""

    def step(y: mx.array, _: None) -> tuple[mx.array, mx.array]:
        a = f(y)
        b = f(y + h / 2 * a)
        c = f(y + h / 2 * b)
        d = f(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    _, states = mx.scan(step, start, length=steps)
    return mx.array(states)


def adaptive(f: Slope, start: mx.array, end: float, tolerance: float) -> tuple[mx.array, mx.array]:
    """The solution at the end, by Bogacki and Shampine's method, and the number of steps that it
    took: each is as long as the estimate of its error allows.
    """

    def step(carry: tuple[mx.array, ...]) -> tuple[mx.array, ...]:
        y, time, h, count = carry
        h = mx.minimum(h, end - time)
        a = f(y)
        b = f(y + h / 2 * a)
        c = f(y + 3 / 4 * h * b)
        third = y + h * (2 / 9 * a + 1 / 3 * b + 4 / 9 * c)
        second = y + h * (7 / 24 * a + b / 4 + c / 3 + f(third) / 8)
        error = mx.max(mx.abs(third - second)) / tolerance
        accepted = error <= 1
        growth = mx.clip(0.9 * mx.maximum(error, 1e-6) ** (-1 / 3), 0.2, 5.0)
        return (
            mx.where(accepted, third, y),
            mx.where(accepted, time + h, time),
            h * growth,
            count + 1,
        )

    carry = (start, mx.array(0.0), mx.array(0.01), mx.array(0))
    y, _, _, count = mx.while_loop(lambda carry: carry[1] < end - 1e-5, step, carry)
    return y, count


def angles(parameters: mx.array) -> mx.array:
    """The angle in each frame, given the logarithms of length and friction."""
    length, friction = mx.exp(parameters)
    f = partial(slope, length=length, friction=friction)
    solution = runge_kutta(f, mx.array(START), SECONDS / STEPS, STEPS)
    return solution[STEPS // FRAMES - 1 :: STEPS // FRAMES, 0]


def film(seed: int = 0) -> mx.array:
    """The observed angles, with an error of a degree or two."""
    noise = np.random.default_rng(seed).normal(0, 0.03, FRAMES)
    return angles(mx.log(mx.array([LENGTH, FRICTION]))) + mx.array(noise.astype(np.float32))


def train(steps: int, seed: int = 0) -> tuple[mx.array, list[float]]:
    """The fitted logarithms of length and friction, and the losses."""
    watched = film(seed)
    parameters = {"logarithms": mx.log(mx.array([1.5, 0.3]))}
    optimizer = optim.Adam(learning_rate=0.02)
    state = [parameters, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step() -> mx.array:
        def loss(parameters: dict[str, mx.array]) -> mx.array:
            return mx.mean(mx.square(angles(parameters["logarithms"]) - watched))

        value, gradients = mx.value_and_grad(loss)(parameters)
        parameters.update(optimizer.apply_gradients(gradients, parameters))
        return value

    losses: list[float] = []
    for _ in show.rounds("step", steps, losses):
        loss = step()
        mx.eval(loss, state)
        losses.append(loss.item())
    return parameters["logarithms"], losses


def main(arguments: Sequence[str] | None = None) -> int:
    options = show.options(arguments, __file__, __doc__, steps=(200, 20))
    found, losses = train(options.rounds, options.seed)
    show.print_curve(losses)
    length, friction = mx.exp(found).tolist()

    f = partial(slope, length=length, friction=friction)
    end, count = mx.compile(partial(adaptive, f, end=SECONDS, tolerance=1e-5))(mx.array(START))
    fixed = angles(found)[-1].item()
    show.say(
        f"angle at the end {end[0].item():.4f} in {count.item()} steps, {fixed:.4f} in {STEPS}"
    )

    figure, axes = pyplot.subplots(figsize=(9, 3), layout="constrained")
    times = (np.arange(FRAMES) + 1) * SECONDS / FRAMES
    axes.plot(times, np.array(film(options.seed)), ".", label="watched")
    axes.plot(times, np.array(angles(found)), label="explained")
    axes.set(xlabel="seconds", ylabel="angle")
    axes.legend()
    show.save(figure, options.picture)

    show.say(f"length {length:.3f} m (is {LENGTH}), friction {friction:.3f} (is {FRICTION})")
    reached = abs(length / LENGTH - 1) < 0.01 and abs(friction / FRICTION - 1) < 0.1
    return show.verdict("length within 1%, friction within 10%", reached, options.full)


if __name__ == "__main__":
    sys.exit(main())
