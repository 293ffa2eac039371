"""A variational autoencoder that learns handwritten digits and generates new ones.

It encodes an image as twelve random numbers and decodes them to an image. Because training makes
these numbers normally distributed, normal random numbers decode to new digits.
"""

from __future__ import annotations

import math
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

# How much better than the mean image it must reconstruct unseen images, in nats per image.
GOAL = 15
LATENT = 12


class VAE(nn.Module):
    """An encoder to the mean and variance of each latent number, and a decoder to pixels."""

    def __init__(self, hidden: int = 256):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * LATENT)
        )
        self.decoder = nn.Sequential(nn.Linear(LATENT, hidden), nn.ReLU(), nn.Linear(hidden, 64))
        # The standard deviation of the pixels. It is learned, because it weighs the two parts
        # of the loss against each other.
        self.log_error = mx.array(0.0)

    def __call__(self, x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        mean, log_variance = mx.split(self.encoder(x), 2, axis=1)
        noise = mx.random.normal(mean.shape)
        return self.decoder(mean + mx.exp(log_variance / 2) * noise), mean, log_variance

    def draw(self, latent: mx.array) -> mx.array:
        return mx.clip(self.decoder(latent), 0, 1).reshape(-1, 8, 8)


def drawing_loss(drawn: mx.array, log_error: mx.array, x: mx.array) -> mx.array:
    """The negative log-likelihood of an image's pixels, in nats, with normal errors."""
    distance = (x - drawn) / mx.exp(log_error)
    return mx.mean((distance**2 / 2 + log_error + math.log(2 * math.pi) / 2).sum(axis=1))


def loss_fn(model: VAE, x: mx.array) -> mx.array:
    drawn, mean, log_variance = model(x)
    # The Kullback-Leibler divergence of the latent distribution from the standard normal one.
    telling = (mean**2 + mx.exp(log_variance) - log_variance - 1).sum(axis=1) / 2
    return drawing_loss(drawn, model.log_error, x) + mx.mean(telling)


def loss_of_the_mean(train_x: mx.array, test_x: mx.array) -> float:
    """The loss of a model that always predicts the mean image."""
    mean = train_x.mean(axis=0)
    log_error = mx.log(mx.sqrt(mx.mean((train_x - mean) ** 2)))
    return float(drawing_loss(mean, log_error, test_x))


def train(epochs: int, seed: int = 0) -> tuple[VAE, list[float]]:
    """A trained model and the mean loss of each epoch."""
    mx.random.seed(seed)
    x, y, _, _ = digits.load()
    model = VAE()
    steps = epochs * (len(x) // digits.BATCH)
    optimizer = optim.Adam(learning_rate=optim.cosine_decay(3e-3, steps))
    # Everything a step reads and changes besides its argument. The model draws random numbers.
    state = [model.state, optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, x)
        optimizer.update(model, gradients)
        return loss

    losses: list[float] = []
    for _ in show.rounds("epoch", epochs, losses):
        of_this_epoch = []
        for images, _ in digits.batches(x.flatten(1), y):
            of_this_epoch.append(step(images))
            mx.eval(state)
        losses.append(mx.mean(mx.stack(of_this_epoch)).item())
    return model, losses


def main(arguments: Sequence[str] | None = None) -> int:
    options = show.options(arguments, __file__, __doc__, epochs=(150, 5))
    model, losses = train(options.rounds, options.seed)
    train_x, _, test_x, _ = digits.load()
    test_x = test_x.flatten(1)
    loss = loss_fn(model, test_x).item()
    better = loss_of_the_mean(train_x.flatten(1), test_x) - loss

    show.print_curve(losses)
    samples = model.draw(mx.random.normal((40, LATENT)))
    show.say("digits drawn from random numbers:")
    show.print_images(np.array(samples[:6]))

    # Interpolate between two test images in the latent space.
    _, means, _ = model(test_x[:6])
    amounts = mx.linspace(0, 1, 10)[:, None]
    paths = [model.draw(a + amounts * (b - a)) for a, b in zip(means[:3], means[3:], strict=True)]
    figure, axes = pyplot.subplots(7, 10, figsize=(8, 6), layout="constrained")
    figure.suptitle("Four rows from random numbers; three on the way from one digit to another")
    for place, image in zip(axes.flat, mx.concatenate([samples, *paths]), strict=True):
        place.imshow(np.array(image), cmap="gray_r", vmin=0, vmax=1)
        place.set(xticks=[], yticks=[])
    show.save(figure, options.picture)

    show.say(f"test loss {loss:.2f} nats an image, {better:.2f} better than with the mean image")
    return show.verdict(f"over {GOAL} nats better", better > GOAL, options.full)


if __name__ == "__main__":
    sys.exit(main())
