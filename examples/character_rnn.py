"""A recurrent network that learns to write like Shakespeare's sonnets, one character at a time.

In the compiled step `nn.GRU` is a native loop, not a graph of 64 steps. So is the sampling: one
call of `mx.scan` draws one character after another and carries the network's state.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import show
from character_transformer import BATCH, CHARACTERS, CONTEXT, NUMBERS, encoded, entropies, loss_fn
from matplotlib import pyplot

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim


class Writer(nn.Module):
    """A gated recurrent unit over embedded characters, and a linear layer to scores."""

    def __init__(self, width: int = 128):
        super().__init__()
        self.embedding = nn.Embedding(len(CHARACTERS), width)
        self.gru = nn.GRU(width, width)
        self.out = nn.Linear(width, len(CHARACTERS))

    def __call__(self, x: mx.array) -> mx.array:
        return self.out(self.gru(self.embedding(x)))

    def step(self, state: mx.array, character: mx.array) -> tuple[mx.array, mx.array]:
        """The next state, and the scores of the character that follows."""
        states = self.gru(self.embedding(character)[None], state)
        return states[-1], self.out(states[-1])


def train(steps: int, seed: int = 0) -> tuple[Writer, list[float]]:
    """A trained model and the loss of each step."""
    mx.random.seed(seed)
    text, _ = encoded()
    model = Writer()
    optimizer = optim.Adam(learning_rate=optim.cosine_decay(6e-3, steps, 3e-4))
    state = [model.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(text: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, text)
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        optimizer.update(model, gradients)
        return loss

    losses: list[float] = []
    for _ in show.rounds("step", steps, losses):
        starts = mx.random.randint(0, len(text) - CONTEXT, (BATCH, 1))
        loss = step(text[starts + mx.arange(CONTEXT + 1)])
        mx.eval(loss, state)
        losses.append(loss.item())
    return model, losses


def write(model: Writer, length: int, temperature: float = 0.8) -> str:
    """Text sampled from the model, starting from an empty line."""

    def draw(
        carry: tuple[mx.array, mx.array], _: None
    ) -> tuple[tuple[mx.array, mx.array], mx.array]:
        state, character = carry
        state, scores = model.step(state, character)
        character = mx.random.categorical(scores / temperature)
        return (state, character), character

    # One native loop: the body is traced once, however long the text is.
    start = (mx.zeros(model.gru.hidden_size), mx.array(NUMBERS["\n"], mx.uint32))
    _, written = mx.scan(draw, start, length=length)
    return "".join(CHARACTERS[number] for number in written.tolist()).strip("\n")


def held_back_loss(model: nn.Module) -> float:
    """The loss on held-out text."""
    _, text = encoded()
    rows = len(text) // (CONTEXT + 1)
    return float(loss_fn(model, text[: rows * (CONTEXT + 1)].reshape(rows, -1)))


def main(arguments: Sequence[str] | None = None) -> int:
    options = show.options(arguments, __file__, __doc__, steps=(500, 25))
    model, losses = train(options.rounds, options.seed)
    show.print_curve(losses)
    for line in write(model, 400 if options.full else 100).splitlines():
        show.say(f"  | {line}")

    singles, pairs = entropies()
    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    axes.plot(losses)
    axes.axhline(singles, color="gray", linestyle=":", label="frequencies of characters")
    axes.axhline(pairs, color="gray", linestyle="--", label="frequencies of pairs")
    axes.set(title="a recurrent network", xlabel="step", ylabel="nats a character")
    axes.legend()
    show.save(figure, options.picture)

    loss = held_back_loss(model)
    show.say(
        f"test loss {loss:.3f} nats a character; pairs have {pairs:.3f}, singles {singles:.3f}"
    )
    return show.verdict("under the entropy of pairs", loss < pairs, options.full)


if __name__ == "__main__":
    sys.exit(main())
