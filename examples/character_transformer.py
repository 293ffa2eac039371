"""A small transformer that learns to write like Shakespeare's sonnets, one character at a time.

Its loss is compared with two entropies: that of single characters, which a model that knows only
their frequencies can reach, and that of pairs, for a model that sees one preceding character.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import show
from matplotlib import pyplot

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

# All 154 sonnets (1609; public domain). The last tenth is held out for testing.
TEXT = Path(__file__).with_name("sonnets.txt").read_text()
CHARACTERS = sorted(set(TEXT))
NUMBERS = {character: number for number, character in enumerate(CHARACTERS)}

CONTEXT = 64
BATCH = 16


class Block(nn.Module):
    """Causal self-attention, then a position-wise MLP."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.rope = nn.RoPE(width // heads)
        self.network_norm = nn.RMSNorm(width)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def attend(self, x: mx.array) -> mx.array:
        # (batch, length, width) -> (batch, heads, length, width of a head)
        query, key, value = (
            mx.unflatten(layer(x), -1, (self.heads, -1)).transpose(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        x = mx.fast.scaled_dot_product_attention(
            self.rope(query), self.rope(key), value, scale=query.shape[-1] ** -0.5, mask="causal"
        )
        return self.out(x.transpose(0, 2, 1, 3).flatten(-2))

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.attend(self.attention_norm(x))
        x += self.network(self.network_norm(x))
        return x


class Transformer(nn.Module):
    def __init__(self, width: int = 128, heads: int = 4, layers: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(len(CHARACTERS), width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm = nn.RMSNorm(width)
        self.out = nn.Linear(width, len(CHARACTERS), bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def loss_fn(model: nn.Module, text: mx.array) -> mx.array:
    """The cross entropy of each character given those before it, in nats per character."""
    return nn.losses.cross_entropy(model(text[:, :-1]), text[:, 1:], reduction="mean")


def encoded() -> tuple[mx.array, mx.array]:
    """The text as integers, split into training and test data."""
    numbers = mx.array([NUMBERS[character] for character in TEXT])
    cut = len(numbers) * 9 // 10
    return numbers[:cut], numbers[cut:]


def train(steps: int, seed: int = 0) -> tuple[Transformer, list[float]]:
    """A trained model and the loss of each step."""
    mx.random.seed(seed)
    text, _ = encoded()
    model = Transformer()
    warmup = min(50, steps)
    schedule = optim.join_schedules(
        [optim.linear_schedule(1e-4, 3e-3, warmup), optim.cosine_decay(3e-3, steps, 1e-4)], [warmup]
    )
    optimizer = optim.AdamW(learning_rate=schedule, weight_decay=0.1)
    # Everything a step reads and changes besides its arguments.
    state = [model.state, optimizer.state]

    # Forward, backward and the update of all parameters become one native program.
    @partial(mx.compile, inputs=state, outputs=state)
    def step(text: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, text)
        optimizer.update(model, gradients)
        return loss

    losses: list[float] = []
    for _ in show.rounds("step", steps, losses):
        starts = mx.random.randint(0, len(text) - CONTEXT, (BATCH, 1))
        loss = step(text[starts + mx.arange(CONTEXT + 1)])
        mx.eval(loss, state)
        losses.append(loss.item())
    return model, losses


def test_loss(model: nn.Module) -> float:
    _, text = encoded()
    rows = len(text) // (CONTEXT + 1)
    return float(loss_fn(model, text[: rows * (CONTEXT + 1)].reshape(rows, -1)))


def write(model: nn.Module, length: int, temperature: float = 0.8) -> str:
    """Text sampled from the model, starting from an empty line."""

    # `window` always has the same shape, so this is compiled once.
    @partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
    def next_character(window: mx.array) -> mx.array:
        return mx.random.categorical(model(window)[:, -1] / temperature)

    window = mx.full((1, CONTEXT), NUMBERS["\n"])
    written = []
    for _ in range(length):
        number = next_character(window)
        window = mx.concatenate([window[:, 1:], number[None]], axis=1)
        written.append(CHARACTERS[number.item()])
    return "".join(written).strip("\n")


def entropies() -> tuple[float, float]:
    """The entropy of single characters, and of characters given the one before, in nats."""
    text = np.array([NUMBERS[character] for character in TEXT])
    pairs = np.zeros((len(CHARACTERS), len(CHARACTERS)))
    np.add.at(pairs, (text[:-1], text[1:]), 1 / (len(text) - 1))

    def entropy(p: np.ndarray) -> float:
        return float(-np.sum(p[p > 0] * np.log(p[p > 0])))

    singles = entropy(pairs.sum(axis=0))
    return singles, entropy(pairs) - entropy(pairs.sum(axis=1))


def main(arguments: Sequence[str] | None = None) -> int:
    options = show.options(arguments, __file__, __doc__, steps=(600, 20))
    model, losses = train(options.rounds, options.seed)
    loss = test_loss(model)
    singles, pairs = entropies()

    show.print_curve(losses)
    show.say("written by the model:\n")
    for line in write(model, length=400 if options.full else 100).splitlines():
        show.say(f"  | {line}")
    show.say()

    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    axes.plot(losses, linewidth=0.8, label="training loss")
    axes.axhline(singles, color="gray", linestyle=":", label="entropy of single characters")
    axes.axhline(pairs, color="gray", linestyle="--", label="entropy of pairs")
    axes.axhline(loss, color="tab:red", label="loss of the last sonnets, not trained with")
    axes.set(title="A transformer learns the sonnets", xlabel="step", ylabel="nats a character")
    axes.legend()
    show.save(figure, options.picture)

    show.say(
        f"test loss {loss:.3f} nats a character; entropy of single characters {singles:.3f}, "
        f"of pairs {pairs:.3f}"
    )
    return show.verdict("a test loss under the entropy of pairs", loss < pairs, options.full)


if __name__ == "__main__":
    sys.exit(main())
