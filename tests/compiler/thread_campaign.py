"""Threads that call compiled functions with changing shapes: no error, no wrong result, no growth.

`python -m tests.compiler.thread_campaign 60` runs for a minute and prints what it did; the suite
runs a few seconds of it.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import ingot.core as mx
from ingot.runtime.per_owner_cache import per_owner_cache

THREADS = 8
FUNCTIONS = 20
LENGTHS = (1, 2, 3, 5, 8, 13)


def make_functions() -> list[tuple[Any, Any]]:
    """Compiled functions, each beside one that computes the same with NumPy."""
    weight = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
    weights = mx.array(weight)
    made: list[tuple[Any, Any]] = []
    for number in range(FUNCTIONS // 5):
        factor = float(number + 1)
        shapeless = number % 2 == 1
        made += [
            (
                mx.compile(lambda x, k=factor: mx.exp(-x) * k + 1, shapeless=shapeless),
                lambda x, k=factor: np.exp(-x) * k + 1,
            ),
            (
                mx.compile(lambda x, k=factor: mx.softmax(x * k, axis=-1), shapeless=shapeless),
                lambda x, k=factor: _softmax(x * k),
            ),
            (
                mx.compile(lambda x, k=factor: (x @ weights) / k, shapeless=shapeless),
                lambda x, k=factor: (x @ weight) / k,
            ),
            (
                mx.compile(
                    mx.grad(lambda x, k=factor: (x * mx.sin(x)).mean() * k), shapeless=shapeless
                ),
                lambda x, k=factor: (np.sin(x) + x * np.cos(x)) / x.size * k,
            ),
            (_stateful(factor), None),
        ]
    return made


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _stateful(factor: float) -> Any:
    """Counts its calls in captured state: calls of all threads together must not be lost."""
    state = {"calls": mx.array(0), "history": [mx.array(0.0)]}

    @partial(mx.compile, inputs=state, outputs=state)
    def function(x: Any) -> Any:
        state["calls"] = state["calls"] + 1
        state["history"][0] = state["history"][0] * 0 + x.sum() * factor
        return x * factor

    function.state = state
    function.factor = factor
    return function


@dataclass
class Campaign:
    """The threads, what they share and what they found."""

    seconds: float
    functions: list[tuple[Any, Any]] = field(default_factory=make_functions)
    calls: list[int] = field(default_factory=lambda: [0] * THREADS)
    stateful_calls: list[int] = field(default_factory=lambda: [0] * (FUNCTIONS))
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, number: int) -> None:
        """One thread: calls functions chosen at random until time is up."""
        generator = np.random.default_rng(number)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and not self.problems:
            try:
                self.call_one(generator)
            except Exception as error:  # whatever goes wrong is a finding
                self.problems.append(f"thread {number}: {type(error).__name__}: {error}")
                return
            self.calls[number] += 1

    def call_one(self, generator: np.random.Generator) -> None:
        """Calls one function and compares."""
        position = int(generator.integers(len(self.functions)))
        compiled, reference = self.functions[position]
        length = LENGTHS[generator.integers(len(LENGTHS))]
        x = generator.standard_normal((length, 3)).astype(np.float32)
        found = compiled(mx.array(x))
        if reference is None:
            with self.lock:
                self.stateful_calls[position] += 1
            reference = lambda x: x * compiled.factor  # noqa: E731
        if not np.allclose(np.array(found), reference(x), rtol=1e-3, atol=1e-4):
            self.problems.append(f"function {position} is wrong for shape {x.shape}")

    def run(self) -> None:
        """Starts the threads and waits for them; AssertionError if anything went wrong."""
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(THREADS)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mx.RecompilationWarning)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not self.problems, self.problems[0]
        for position, (compiled, reference) in enumerate(self.functions):
            if reference is None:
                assert compiled.state["calls"].item() == self.stateful_calls[position]

    def warm_up(self) -> None:
        """Calls everything once, so that nothing is left to compile."""
        for compiled, _ in self.functions:
            for length in LENGTHS:
                mx.eval(compiled(mx.ones((length, 3))))
            if compiled in [
                function for function, reference in self.functions if reference is None
            ]:
                compiled.state["calls"] = mx.array(0)

    def entries(self) -> int:
        """How many programs all caches hold."""
        return sum(compiled.cache_info().entries for compiled, _ in self.functions)


def _objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def main(seconds: float) -> None:
    """A campaign with a look at growth."""
    campaign = Campaign(seconds / 2)
    campaign.warm_up()
    campaign.run()
    objects = _objects()
    kept, entries = len(per_owner_cache), campaign.entries()
    memory = mx.get_active_memory()
    campaign.run()
    grown = _objects() - objects
    assert len(per_owner_cache) <= kept
    assert campaign.entries() <= FUNCTIONS * len(LENGTHS)
    assert campaign.entries() == entries
    assert grown < 500, f"{grown} more objects than half way"
    assert mx.get_active_memory() <= memory + (1 << 20)
    misses = sum(compiled.cache_info().misses for compiled, _ in campaign.functions)
    print(
        f"{sum(campaign.calls)} calls of {FUNCTIONS} functions by {THREADS} threads in "
        f"{seconds:.0f} s: no error, no wrong result; {misses} traces, {entries} programs, "
        f"{grown} more objects in the second half"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
