"""A Kalman filter that learns its noise levels.

An object moves, and its position is observed every tenth of a second with an error. The filter
tracks position and speed. The standard deviations of its accelerations and of the observations are
unknown; they are fitted by gradient descent on the likelihood, which is a loop over all
observations (`mx.scan`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
import show
from matplotlib import pyplot

import ingot.core as mx
import ingot.optimizers as optim

STEP = 0.1  # seconds between observations
PUSH, BLUR = 0.5, 0.3  # the unknowns: standard deviations of accelerations and observations
MOVE = mx.array([[1.0, STEP], [0.0, 1.0]])  # position and speed after a step
EFFECT = mx.array([STEP * STEP / 2, STEP])  # of an acceleration on both


def simulated(count: int, seed: int = 0) -> tuple[np.ndarray, mx.array]:
    """The true positions, and the observed ones."""
    random = np.random.default_rng(seed)
    state = np.zeros(2)
    where = np.empty(count)
    for number in range(count):
        state = np.array(MOVE) @ state + np.array(EFFECT) * random.normal(0, PUSH)
        where[number] = state[0]
    return where, mx.array((where + random.normal(0, BLUR, count)).astype(np.float32))


def filtered(deviations: mx.array, seen: mx.array) -> tuple[mx.array, mx.array]:
    """The log-likelihood of the observations, and the estimated position at each time.
    `deviations` are the logarithms of the two standard deviations.
    """
    push, blur = mx.exp(2 * deviations)
    noise = push * mx.outer(EFFECT, EFFECT)

    def step(
        carry: tuple[mx.array, ...], position: mx.array
    ) -> tuple[tuple[mx.array, ...], mx.array]:
        mean, spread, likelihood = carry
        mean, spread = MOVE @ mean, MOVE @ spread @ MOVE.T + noise
        surprise, variance = position - mean[0], spread[0, 0] + blur
        gain = spread[:, 0] / variance
        mean = mean + gain * surprise
        spread = spread - mx.outer(gain, spread[0])
        likelihood = likelihood - (surprise**2 / variance + mx.log(2 * mx.pi * variance)) / 2
        return (mean, spread, likelihood), mean[0]

    start = (mx.zeros(2), 1e-4 * mx.eye(2), mx.array(0.0))
    (_, _, likelihood), positions = mx.scan(step, start, seen)
    return likelihood, positions


def train(steps: int, seed: int = 0) -> tuple[mx.array, list[float]]:
    """The maximum-likelihood estimates of the deviations, as logarithms, and the losses."""
    _, seen = simulated(1000, seed)
    parameters = {"deviations": mx.zeros(2)}
    optimizer = optim.Adam(learning_rate=0.05)
    state = [parameters, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step() -> mx.array:
        def loss(parameters: dict[str, mx.array]) -> mx.array:
            return -filtered(parameters["deviations"], seen)[0] / len(seen)

        value, gradients = mx.value_and_grad(loss)(parameters)
        parameters.update(optimizer.apply_gradients(gradients, parameters))
        return value

    losses: list[float] = []
    for _ in show.rounds("step", steps, losses):
        loss = step()
        mx.eval(loss, state)
        losses.append(loss.item())
    return parameters["deviations"], losses


def main(arguments: Sequence[str] | None = None) -> int:
    options = show.options(arguments, __file__, __doc__, steps=(150, 20))
    deviations, losses = train(options.rounds, options.seed)
    show.print_curve(losses)
    where, seen = simulated(1000, options.seed)
    _, followed = filtered(deviations, seen)
    push, blur = mx.exp(deviations).tolist()
    errors = [float(np.abs(np.array(x) - where).mean()) for x in (seen, followed)]

    figure, axes = pyplot.subplots(figsize=(9, 3), layout="constrained")
    times = np.arange(200) * STEP
    axes.plot(times, np.array(seen)[:200], ".", color="gray", markersize=3, label="seen")
    axes.plot(times, where[:200], label="where it was")
    axes.plot(times, np.array(followed)[:200], label="filtered")
    axes.set(xlabel="seconds", ylabel="position")
    axes.legend()
    show.save(figure, options.picture)

    show.say(f"mean error {errors[0]:.3f} as seen, {errors[1]:.3f} as filtered")
    show.say(f"push {push:.3f} (is {PUSH}), blur {blur:.3f} (is {BLUR})")
    reached = abs(push / PUSH - 1) < 0.25 and abs(blur / BLUR - 1) < 0.1 and errors[1] < errors[0]
    return show.verdict("the push within a quarter, the blur within a tenth", reached, options.full)


if __name__ == "__main__":
    sys.exit(main())
