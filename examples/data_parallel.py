"""Data-parallel training: each rank trains on its share of every batch of handwritten digits.

`ingot launch -n 2 examples/data_parallel.py` runs two ranks; without `ingot launch` it is one. The
losses are those of one process with the whole batch, up to rounding.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import digits

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

GOAL = 0.95


def train(epochs: int) -> tuple[nn.Module, list[float], float]:
    """A trained model, the mean loss of each epoch over all ranks, and the seconds of a step."""
    group = mx.distributed.init()
    rank, size = group.rank(), group.size()
    # The same seed on all ranks: they begin with the same model and draw the same batches.
    mx.random.seed(0)
    x, y, _, _ = digits.load()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = optim.Adam(learning_rate=2e-3)
    state = [model.state, optimizer.state]

    def loss_fn(x: mx.array, y: mx.array) -> mx.array:
        return nn.losses.cross_entropy(model(x.flatten(1)), y, reduction="mean")

    # The communication is part of the compiled step.
    @partial(mx.compile, inputs=state, outputs=state)
    def step(x: mx.array, y: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(model, loss_fn)(x, y)
        optimizer.update(model, nn.average_gradients(gradients))
        return mx.distributed.all_sum(loss) / size

    losses, steps = [], 0
    start = time.perf_counter()
    for _ in range(epochs):
        of_this_epoch = []
        for batch_x, batch_y in digits.batches(x, y):
            # Every rank takes its share of the batch.
            of_this_epoch.append(step(batch_x[rank::size], batch_y[rank::size]))
            mx.eval(state)
            steps += 1
        losses.append(mx.mean(mx.stack(of_this_epoch)).item())
    return model, losses, (time.perf_counter() - start) / steps


def main(epochs: int) -> int:
    model, losses, seconds = train(epochs)
    _, _, x, y = digits.load()
    right = mx.mean(mx.argmax(model(x.flatten(1)), axis=1) == y).item()
    group = mx.distributed.init()
    if group.rank() == 0:
        print(
            f"{group.size()} ranks, {epochs} epochs: loss {losses[-1]:.3f}, {right:.1%} of unseen "
            f"digits right, {1e3 * seconds:.2f} ms per step"
        )
    return 0 if right > GOAL or epochs < 10 else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
