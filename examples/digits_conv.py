"""A small convolutional network that classifies over 97% of unseen handwritten digits correctly.

Its picture shows the first layer's response to a digit, filter by filter.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import digits
import numpy as np
import show
from matplotlib import pyplot

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

GOAL = 0.97


class ConvolutionalNetwork(nn.Module):
    """Two convolutions, each followed by max pooling: 8 by 8 pixels become 4 by 4, then 2 by 2."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 24, kernel_size=3, padding=1)
        self.second = nn.Conv2d(24, 48, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.classify = nn.Linear(2 * 2 * 48, 10)
        self.dropout = nn.Dropout(0.5)

    def features(self, x: mx.array) -> mx.array:
        return nn.relu(self.first(x))

    def __call__(self, x: mx.array) -> mx.array:
        x = self.pool(self.features(x))
        x = self.pool(nn.relu(self.second(x)))
        return self.classify(self.dropout(x.flatten(1)))


def loss_fn(model: nn.Module, x: mx.array, y: mx.array) -> mx.array:
    return nn.losses.cross_entropy(model(x), y, label_smoothing=0.1, reduction="mean")


def train(epochs: int, seed: int = 0) -> tuple[ConvolutionalNetwork, list[float]]:
    """A trained model and the mean loss of each epoch."""
    mx.random.seed(seed)
    x, y, _, _ = digits.load()
    model = ConvolutionalNetwork()
    steps = epochs * (len(x) // digits.BATCH)
    optimizer = optim.AdamW(learning_rate=optim.cosine_decay(5e-3, steps), weight_decay=0.01)
    # Everything a step reads and changes besides its arguments. Dropout draws random numbers.
    state = [model.state, optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x: mx.array, y: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, x, y)
        optimizer.update(model, gradients)
        return loss

    losses: list[float] = []
    for _ in show.rounds("epoch", epochs, losses):
        of_this_epoch = []
        for batch in digits.batches(x, y):
            of_this_epoch.append(step(*batch))
            mx.eval(state)
        losses.append(mx.mean(mx.stack(of_this_epoch)).item())
    return model, losses


def main(arguments: Sequence[str] | None = None) -> int:
    options = show.options(arguments, __file__, __doc__, epochs=(20, 2))
    model, losses = train(options.rounds, options.seed)
    _, _, x, y = digits.load()
    model.eval()  # no dropout from here on
    accuracy = mx.mean(mx.argmax(model(x), axis=1) == y).item()

    show.print_curve(losses)
    digit = np.array(x[0, :, :, 0])
    filtered = np.array(model.features(x[:1])[0]).transpose(2, 0, 1)  # (filters, 8, 8)
    filtered /= filtered.max()
    strongest = np.argsort(-filtered.sum(axis=(1, 2)))
    show.print_images(
        np.stack([digit, *filtered[strongest[:4]]]),
        [f"a {y[0].item()}", *(f"filter {i}" for i in strongest[:4])],
    )

    figure, axes = pyplot.subplots(3, 9, figsize=(13, 5), layout="constrained")
    figure.suptitle(f"{accuracy:.1%} right: a digit, and what each filter of layer one sees in it")
    axes[0, 0].imshow(digit, cmap="gray_r")
    axes[1, 0].plot(losses)
    axes[1, 0].set(title="loss")
    axes[2, 0].set_axis_off()
    for place, image in zip(axes[:, 1:].flat, filtered[strongest], strict=True):
        place.imshow(image, cmap="magma", vmin=0, vmax=1)
    for place in (axes[0, 0], *axes[:, 1:].flat):
        place.set(xticks=[], yticks=[])
    show.save(figure, options.picture)

    show.say(f"test accuracy {accuracy:.2%} of {len(x)} digits that were not trained with")
    return show.verdict(f"over {GOAL:.0%}", accuracy > GOAL, options.full)


if __name__ == "__main__":
    sys.exit(main())
