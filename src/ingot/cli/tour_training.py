"""The tour's last chapter: a training step before and after compilation, and the result."""

from __future__ import annotations

import math

import numpy as np

import ingot.core as mx
import ingot.optimizers as optim
from ingot.cli.tour_programs import Network, loss_fn, training_steps
from ingot.cli.tour_race import best_times, op_by_op
from ingot.cli.tour_screen import Bar, Screen

__all__ = ["train"]

POINTS = 256
PICTURE = (76, 40)  # columns, rows


def spirals() -> tuple[mx.array, mx.array]:
    """Points of two intertwined spirals, and the spiral of each."""
    along = mx.sqrt(mx.random.uniform(shape=(POINTS,))) * 3 * math.pi
    which = mx.arange(POINTS) % 2
    angle = along + math.pi * which
    points = mx.stack([mx.cos(angle), mx.sin(angle)], axis=1) * along[:, None] / (3 * math.pi)
    return points + 0.01 * mx.random.normal(points.shape), which


class _Training:
    """A model, its optimizer and one way to run a step. All start from the same parameters."""

    def __init__(self, *, compiled: bool) -> None:
        mx.random.seed(1)
        self.model = Network()
        self.optimizer = optim.Adam(learning_rate=5e-3)
        self.optimizer.init(self.model.trainable_parameters())
        self.state = [self.model.state, self.optimizer.state]
        plain_step, compiled_step = training_steps(self.model, self.optimizer)
        self.step = compiled_step if compiled else plain_step
        self.steps = 0

    def run(self, x: mx.array, y: mx.array) -> float:
        self.steps += 1
        loss = self.step(x, y)
        mx.eval(loss, self.state)
        value: float = loss.item()
        return value


def train(screen: Screen, quick: bool) -> None:
    """Compares a step in three forms, then trains and shows the result."""
    mx.random.seed(0)
    x, y = spirals()
    screen.say("Gradients, the optimizer and all parameters: a whole step is one function.")
    screen.blank()
    screen.code(loss_fn)
    screen.code(training_steps)
    plainly = _Training(compiled=False)
    one_by_one = _Training(compiled=False)
    compiled = _Training(compiled=True)
    with screen.working("measuring training steps") as said:
        before = [plainly.run(x, y) for _ in range(5)]
        after = [compiled.run(x, y) for _ in range(5)]
        times = best_times(
            {
                "op by op": op_by_op(lambda: one_by_one.run(x, y)),
                "uncompiled": lambda: plainly.run(x, y),
                "compiled": lambda: compiled.run(x, y),
            },
            0.1 if quick else 2.0,
            said,
        )
    ours = times["compiled"]
    styles = {"op by op": "blue", "uncompiled": "cyan", "compiled": "bold green"}
    screen.bars(
        [Bar(name, time, styles[name], f"{time / ours:.3g}x") for name, time in times.items()]
    )
    screen.blank()
    difference = max(abs(a - b) / abs(a) for a, b in zip(before, after, strict=True))
    screen.say(
        "The first five losses are the same uncompiled and compiled: "
        + ", ".join(f"{loss:.5f}" for loss in after)
        + f" (they differ by {difference:.0e} of their size)."
    )
    _learn(screen, compiled, x, y, 30 if quick else 1500)


def _learn(screen: Screen, training: _Training, x: mx.array, y: mx.array, steps: int) -> None:
    with screen.working("training") as said:
        for number in range(steps):
            loss = training.run(x, y)
            if number % 50 == 0:
                said(f"training: step {number} of {steps}, loss {loss:.3f}")
    model = training.model
    columns, rows = min(PICTURE[0], screen.console.width - 4), PICTURE[1]
    across, down = np.meshgrid(np.linspace(-1.1, 1.1, columns), np.linspace(1.1, -1.1, rows))
    points = mx.array(np.stack([across, down], axis=-1).astype(np.float32))
    right = mx.mean((model(x) > 0) == (y == 1)).item()
    screen.say(
        f"After {training.steps} compiled steps the loss is {loss:.4f}, and {right:.0%} of the "
        f"{POINTS} points of two spirals are told apart. What the network predicts at every point:"
    )
    screen.blank()
    screen.picture(mx.sigmoid(model(points)).tolist())
