"""Random programs as Python source that runs with ingot and with MLX alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Input", "Program"]


@dataclass(frozen=True)
class Input:
    """An argument or a part of the state: names of its axes' lengths, and the dtype."""

    name: str
    axes: tuple[str, ...]
    dtype: str

    def value(self, mx: Any, lengths: dict[str, int], seed: int) -> Any:
        """An array of random numbers, none of them close to a whole number or large."""
        generator = np.random.default_rng([seed, *self.name.encode()])
        shape = tuple(lengths[axis] for axis in self.axes)
        numbers = generator.uniform(-2, 2, shape)
        if self.dtype == "bool_":
            return mx.array(numbers > 0)
        if self.dtype.startswith(("int", "uint")):
            low = 0 if self.dtype.startswith("uint") else -5
            return mx.array(generator.integers(low, 7, shape)).astype(getattr(mx, self.dtype))
        return mx.array(numbers.astype(np.float32)).astype(getattr(mx, self.dtype))


@dataclass
class Program:
    """A function, the state that it may read and update, and the calls that are made of it."""

    seed: int
    inputs: list[Input] = field(default_factory=list)
    state: list[Input] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    result: str = "None"
    shapeless: bool = False
    captures: bool = False
    has_exact_bits: bool = False  # made of ops whose results have the same bits everywhere
    draws_numbers: bool = False  # from the random state, which MLX's compile does not follow
    calls: list[dict[str, int]] = field(default_factory=list)  # the lengths of the axes
    constants: list[float] = field(default_factory=list)  # the value of `k` in each call

    def function_source(self) -> str:
        """The function, made by `make(mx, state)`."""
        names = ", ".join([*(given.name for given in self.inputs), "k"])
        body = "\n".join(f"        {line}" for line in [*self.lines, f"return {self.result}"])
        return f"def make(mx, state):\n    def function({names}):\n{body}\n    return function\n"

    def make(self, mx: Any, state: Any) -> Any:
        """The function for a module like `mlx.core` and a state."""
        names: dict[str, Any] = {}
        exec(compile(self.function_source(), f"<program {self.seed}>", "exec"), names)
        return names["make"](mx, state)

    def make_state(self, mx: Any) -> dict[str, Any]:
        """The state before the first call."""
        lengths = self.calls[0]
        made: dict[str, Any] = {
            part.name: part.value(mx, lengths, self.seed) for part in self.state
        }
        made["list"] = []
        return made

    def arguments(self, mx: Any, call: int) -> list[Any]:
        """The arguments of a call: other numbers each time."""
        given = [x.value(mx, self.calls[call], self.seed * 100 + call) for x in self.inputs]
        return [*given, self.constants[call]]

    def compile(self, mx: Any, function: Any, state: Any, **options: Any) -> Any:
        """The compiled function."""
        if self.captures:
            options.update(inputs=state, outputs=state)
        return mx.compile(function, shapeless=self.shapeless, **options)

    def source(self) -> str:
        """A script that shows the program's results with and without compile."""
        options = ["shapeless=True"] * self.shapeless
        options += ["inputs=state, outputs=state"] * self.captures
        calls = "\n".join(
            f"show(program.arguments(mx, {call}))  # {self.calls[call]}, k={self.constants[call]}"
            for call in range(len(self.calls))
        )
        return f"""\
# Program {self.seed}. Run this file from the root of the repository.
import ingot.core as mx
from tests.fuzz.grow import grow

{self.function_source()}
program = grow({self.seed})
eager_state, state = program.make_state(mx), program.make_state(mx)
eager = make(mx, eager_state)
compiled = mx.compile({", ".join(["make(mx, state)", *options])})

def show(arguments):
    mx.random.seed(1)
    print("eager:   ", eager(*arguments), eager_state)
    mx.random.seed(1)
    print("compiled:", compiled(*arguments), state)

{calls}
"""
