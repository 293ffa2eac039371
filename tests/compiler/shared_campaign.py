"""Threads that share graphs, handles, models and containers: no crash, no error, no wrong result.

`python -m tests.compiler.shared_campaign 60` runs for a minute and prints what it did; the suite
runs a second of it. What one thread at a time cannot break, with a GIL or without: nodes that
several evaluate at once, donated memory, handles that are re-pointed, containers that change while
they are read, first calls of one compiled function.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ingot.core as mx
from ingot import nn
from ingot.utils import tree_flatten, tree_map

THREADS = 8
LARGE = 100_003  # elements: enough for memory to be donated, and for kernels to release the GIL


@dataclass
class Shared:
    """What the threads of a round have in common. Its values are known, whoever computes them."""

    length: int
    x: np.ndarray
    arrays: list[Any] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    counter: Any = None
    changing: list[Any] = field(default_factory=list)
    model: Any = None
    compiled: Any = None

    @classmethod
    def made(cls, generator: np.random.Generator) -> Shared:
        """A graph that nobody has evaluated, and what else a round is about."""
        length = int(generator.choice([1, 7, 64, 1000, LARGE]))
        x = generator.standard_normal(length).astype(np.float32)
        shared = cls(length, x)
        a = mx.array(x)
        for number in range(6):
            a, x = mx.sin(a) * 2 + number, np.sin(x) * 2 + np.float32(number)
            shared.arrays.append(a)
            shared.values.append(x)
        shared.counter = mx.zeros(3)
        shared.changing = [mx.array(1.0), [mx.array(2.0), 3], {"k": mx.array(4.0)}]
        shared.model = nn.Linear(4, 4, bias=False)
        shared.model.update({"weight": mx.ones((4, 4))})
        scale = float(generator.integers(1, 100))
        shared.compiled = mx.compile(lambda x: mx.exp(-x * x).sum() * scale + shared.arrays[1][:1])
        shared.scale = scale  # type: ignore[attr-defined]
        return shared


def close(found: Any, expected: Any) -> None:
    """Both are the same, but for rounding."""
    np.testing.assert_allclose(np.array(found), expected, rtol=2e-3, atol=2e-3)


def evaluate(shared: Shared, generator: np.random.Generator) -> None:
    """Some node of the graph, which others may be evaluating."""
    number = int(generator.integers(len(shared.arrays)))
    if generator.random() < 0.3:
        mx.async_eval(shared.arrays[number])
    close(shared.arrays[number], shared.values[number])


def extend(shared: Shared, generator: np.random.Generator) -> None:
    """A graph of one's own on top of it, whose intermediate results may be donated."""
    number = int(generator.integers(len(shared.arrays)))
    a = shared.arrays[number]
    for _ in range(5):
        a = a + 1
        mx.eval(a)
    close(a, shared.values[number] + 5)


def differentiate(shared: Shared, generator: np.random.Generator) -> None:
    """A gradient that reads the shared graph."""
    weights = shared.arrays[int(generator.integers(3))]
    found = mx.grad(lambda x: (mx.sin(x) * weights).sum())(mx.array(shared.x))
    close(found, np.cos(shared.x) * np.array(weights))


def call(shared: Shared, generator: np.random.Generator) -> None:
    """A compiled function that all threads call, perhaps for the first time."""
    x = generator.standard_normal(int(generator.integers(1, 5))).astype(np.float32)
    close(
        shared.compiled(mx.array(x)),
        np.exp(-x * x).sum() * shared.scale + shared.values[1][:1],  # type: ignore[attr-defined]
    )


def compile_own(shared: Shared, generator: np.random.Generator) -> None:
    """A compiled function of one's own, with a gradient in it."""
    factor = float(generator.integers(1, 4))
    function = mx.compile(mx.grad(lambda x: (x * x * factor).sum()))
    close(function(mx.array(shared.x)), 2 * factor * shared.x)


def count(shared: Shared, generator: np.random.Generator) -> None:
    """A handle that all threads re-point: increments may be lost, but values stay whole."""
    if generator.random() < 0.5:
        shared.counter += 1
    else:
        shared.counter[int(generator.integers(3))] = 5
    found = np.array(shared.counter)
    assert (found == np.round(found)).all(), found
    assert shared.counter.shape == (3,)


def change(shared: Shared, generator: np.random.Generator) -> None:
    """Containers that grow and shrink while others read them."""
    action = generator.integers(5)
    if action == 0:
        shared.changing.append(mx.array(float(len(shared.changing) % 7)))
    elif action == 1:
        del shared.changing[3:]
    elif action == 2:
        shared.changing[2][f"k{generator.integers(40)}"] = mx.array(1.0)
    elif action == 3:
        mx.eval(shared.changing)
    else:
        leaves = tree_flatten(tree_map(lambda leaf: leaf, shared.changing))
        assert len(leaves) >= 3, leaves


def use_model(shared: Shared, generator: np.random.Generator) -> None:
    """A model whose weights are replaced: each call sees some version of them, and only one."""
    version = float(generator.integers(1, 9))
    if generator.random() < 0.3:
        shared.model.update({"weight": mx.full((4, 4), version)})
    else:
        found = np.array(shared.model(mx.ones((2, 4))))
        assert (found == found[0, 0]).all(), found
        assert found[0, 0] % 4 == 0, found


def draw(shared: Shared, generator: np.random.Generator) -> None:
    """Random numbers, of which no two are the same."""
    del shared
    if generator.random() < 0.5:
        found = np.array(mx.random.uniform(shape=(5,)))
    else:
        found = np.array(mx.compile(lambda: mx.random.uniform(shape=(5,)))())
    assert ((found >= 0) & (found < 1)).all(), found


ACTIONS: list[Callable[[Shared, np.random.Generator], None]] = [
    evaluate,
    extend,
    differentiate,
    call,
    compile_own,
    count,
    change,
    use_model,
    draw,
]


@dataclass
class Campaign:
    """Rounds, each with new things to share."""

    seconds: float
    seed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def work(self, number: int, seed: int, shared: Shared, start: threading.Barrier) -> None:
        """One thread of a round."""
        generator = np.random.default_rng([seed, number])
        mine: Counter[str] = Counter()
        start.wait()
        for _ in range(12):
            action = ACTIONS[generator.integers(len(ACTIONS))]
            try:
                action(shared, generator)
            except Exception as error:  # whatever goes wrong is a finding
                text = f"round {seed}: {action.__name__}: {type(error).__name__}: {error}"
                self.problems.append(text)
                return
            mine[action.__name__] += 1
        self.done.update(mine)

    def run(self) -> int:
        """The number of rounds; AssertionError if anything went wrong."""
        end = time.monotonic() + self.seconds
        rounds = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while time.monotonic() < end or rounds == 0:
                seed = self.seed + rounds
                shared = Shared.made(np.random.default_rng(seed))
                start = threading.Barrier(THREADS)
                threads = [
                    threading.Thread(target=self.work, args=(number, seed, shared, start))
                    for number in range(THREADS)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert not self.problems, self.problems[0]
                rounds += 1
        return rounds


def main(seconds: float, seed: int = 0) -> None:
    """A campaign, and what it did."""
    campaign = Campaign(seconds, seed)
    rounds = campaign.run()
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(
        f"{sum(campaign.done.values())} actions by {THREADS} threads in {rounds} rounds and "
        f"{seconds:.0f} s, {'with' if has_gil else 'without'} a GIL: no error, no wrong result"
    )


if __name__ == "__main__":
    main(*(kind(value) for kind, value in zip((float, int), sys.argv[1:] or ["60"], strict=False)))
