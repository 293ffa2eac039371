"""Random loops: the same program with `mx.scan` and its kin, and written out in Python.

A program is a loop with a random body: maps, products, reductions, inner loops and branches over a
tree of carries, slices and captured weights. Its values, first and second derivatives and its form
under `vmap`, compiled and not, must be those of the unrolled program; where the body is arithmetic
that every engine rounds alike, values are compared bit by bit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.fuzz.check import Difference, compare, leaves_of
from tests.transforms.control.unrolled import scanned

import ingot.core as mx

__all__ = ["LoopProgram", "LoopStatistics", "check_loop", "grow_loop"]

KINDS = ("scan", "reverse", "fori", "while")
SMOOTH = [
    "mx.sin({0})", "mx.tanh({0})", "mx.sigmoid({0})", "mx.cos({0}) * 0.7", "{0} * {0} * 0.3",
    "mx.sqrt({0} * {0} + 1)", "mx.exp(-{0} * {0})", "mx.erf({0})", "mx.softmax({0}, axis=-1)",
    "{0} - mx.mean({0})", "mx.sum({0} * {0}, axis=-1, keepdims=True) * 0.1 + {0}",
    "{0} @ w", "mx.tanh({0} @ w + b)", "mx.logaddexp({0}, b)", "{0}[::-1] * 0.9",
    "mx.concatenate([{0}[1:], {0}[:1]])", "mx.cumsum({0}) * 0.2", "mx.sort({0} * 1.0)",
]  # fmt: skip
SMOOTH_PAIRS = [
    "{0} * {1}", "{0} - {1}", "mx.sigmoid({0}) * {1}", "{0} / (1 + {1} * {1})",
    "mx.arctan2({0}, 1 + {1} * {1})", "{0} + 0.5 * {1}",
]  # fmt: skip
ARITHMETIC = [
    "{0} * 0.3", "3 - {0}", "{0} / 3", "-{0}", "mx.abs({0})", "({0} * 1.1 + 0.3) * {0}",
    "mx.maximum({0}, 0.1)", "{0} * b", "{0}[::-1] + 0.1",
]  # fmt: skip
ARITHMETIC_PAIRS = ["{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} * {0} - {1} * {1}"]
INNER = [
    "loops.fori_loop(0, {n}, lambda i, v: mx.clip(v * 0.7 + {1} * 0.2, -2, 2), {0})",
    "loops.scan(lambda v, u: (mx.clip(v * 0.5 + u, -2, 2), v), {0}, mx.stack([{1}, b]))[0]",
    "loops.cond(t % 2 == 0, lambda v: v * 0.5 + {1}, lambda v: {1} - v, {0})",
    "loops.switch(t % 3, [lambda v: v, lambda v: v * {1}, lambda v: -v], {0})",
]


class Unrolled:
    """The loops and branches as Python's own."""

    scan = staticmethod(scanned)

    @staticmethod
    def fori_loop(lower: int, upper: int, body: Any, init: Any) -> Any:
        for number in range(lower, upper):
            init = body(number, init)
        return init

    @staticmethod
    def while_loop(cond: Any, body: Any, init: Any, max_steps: int) -> Any:
        while cond(init):
            init = body(init)
        return init

    @staticmethod
    def cond(pred: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return yes(*operands) if pred else no(*operands)

    @staticmethod
    def switch(index: int, branches: Any, *operands: Any) -> Any:
        return branches[index](*operands)


@dataclass
class LoopProgram:
    """A loop: its kind, the number of steps, the length of its vectors and the body's lines."""

    seed: int
    kind: str
    steps: int
    length: int
    exact: bool
    lines: list[str] = field(default_factory=list)

    def source(self) -> str:
        """The function, made by `make(mx, loops)`; `loops` has scan and its kin."""
        body = "\n".join(f"            {line}" for line in self.lines)
        step = (
            "        def step(c, x):\n"
            "            h, (g, t) = c['h'], c['rest']\n"
            f"{body}\n"
            "            return {'h': h, 'rest': (g, t + 1)}, (g, v0)\n"
        )
        init = "{'h': h0, 'rest': (g0, 0)}"
        run = {
            "scan": f"        last, ys = loops.scan(step, {init}, xs)\n",
            "reverse": f"        last, ys = loops.scan(step, {init}, xs, reverse=True)\n",
            "fori": (
                f"        last = loops.fori_loop(0, {self.steps}, "
                f"lambda i, c: step(c, xs[0])[0], {init})\n        ys = (last['h'],)\n"
            ),
            "while": (
                f"        last = loops.while_loop(lambda c: c['rest'][1] < {self.steps}, "
                f"lambda c: step(c, xs[0])[0], {init}, max_steps={self.steps + 2})\n"
                "        ys = (last['h'],)\n"
            ),
        }[self.kind]
        return (
            "def make(mx, loops):\n    def function(h0, g0, xs, w, b):\n"
            f"{step}{run}        return last['h'], last['rest'][0], ys\n    return function\n"
        )

    def make(self, loops: Any) -> Any:
        """The function over loops, or over what stands for them."""
        names: dict[str, Any] = {}
        exec(compile(self.source(), f"<loop {self.seed}>", "exec"), names)
        return names["make"](mx, loops)

    def arguments(self, batch: int | None = None) -> list[mx.array]:
        """Random arguments, or a batch of them."""
        random = np.random.default_rng([self.seed, 1])
        n = self.length
        shapes = [(n,), (n,), (self.steps, n), (n, n), (n,)]
        lead = () if batch is None else (batch,)
        return [mx.array(random.uniform(-1, 1, lead + s).astype(np.float32)) for s in shapes]


def grow_loop(seed: int) -> LoopProgram:
    """The random loop of a seed."""
    random = np.random.default_rng(seed)

    def choose(items: Any) -> Any:
        return items[int(random.integers(len(items)))]

    exact = bool(random.random() < 0.3)
    program = LoopProgram(
        seed, choose(KINDS), int(random.integers(1, 6)), int(random.integers(1, 7)), exact
    )
    single, pairs = (ARITHMETIC, ARITHMETIC_PAIRS) if exact else (SMOOTH, SMOOTH_PAIRS)
    names = ["h", "g", "x", "b"]
    for number in range(int(random.integers(2, 6))):
        template = choose([single, pairs, pairs, single, INNER])
        operands = [choose(names), choose(names)]
        text = choose(template).replace("{n}", str(int(random.integers(0, 4))))
        program.lines.append(f"v{number} = {text.format(*operands)}")
        names.append(f"v{number}")
    bounded = "mx.clip({} * 0.7, -1.5, 1.5)" if exact else "mx.tanh({})"
    first, second = names[-1], choose(names)
    program.lines.append(f"h, g = {bounded.format(first)}, {bounded.format(f'({second} + h)')}")
    return program


@dataclass
class LoopStatistics:
    """What was compared."""

    programs: int = 0
    bits: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return f"{self.programs} loops ({kinds}), {self.bits} of them bit by bit"


def check_loop(program: LoopProgram, statistics: LoopStatistics) -> None:
    """Difference unless the loop does what the unrolled program does."""
    statistics.programs += 1
    statistics.bits += program.exact
    statistics.kinds[program.kind] += 1
    loop, unrolled = program.make(mx), program.make(Unrolled)
    arguments = program.arguments()
    try:
        expected = leaves_of(unrolled(*arguments))
        for what, run in (("values", loop), ("compiled", mx.compile(loop))):
            compare(what, leaves_of(run(*arguments)), expected, False, exactly=program.exact)
        if not program.exact:
            # machine code takes most of the time: that of one order a program
            order = "second derivative" if program.seed % 4 == 0 else "gradient"
            _check_derivatives(loop, unrolled, arguments, (order,))
        batch = program.arguments(3)
        batched = [mx.vmap(function)(*batch) for function in (loop, unrolled)]
        compare("vmap", *map(leaves_of, batched), False)
        in_axes = (0, None, 1, None, None)
        mixed = [batch[0], arguments[1], mx.moveaxis(batch[2], 0, 1), *arguments[3:]]
        found = [mx.vmap(function, in_axes)(*mixed) for function in (loop, unrolled)]
        compare("vmap of some", *map(leaves_of, found), False)
    except Difference as difference:
        raise Difference(f"loop {program.seed}: {difference}\n{program.source()}") from None


def _check_derivatives(
    loop: Any, unrolled: Any, arguments: list[mx.array], compiled: tuple[str, ...]
) -> None:
    everything = tuple(range(len(arguments)))

    def loss(function: Any) -> Any:
        def of_arguments(*inputs: Any) -> Any:
            h, g, ys = function(*inputs)
            return mx.sum(h * h) + mx.sum(mx.sin(g)) + sum(mx.mean(y * y) for y in ys)

        return of_arguments

    def second(function: Any) -> Any:
        gradient = mx.grad(loss(function), everything)
        return mx.grad(lambda *x: sum(mx.sum(mx.sin(d)) for d in gradient(*x)), everything)

    pairs = [(mx.grad(loss(f), everything), second(f)) for f in (loop, unrolled)]
    for what, one, other in zip(("gradient", "second derivative"), *pairs, strict=True):
        expected = leaves_of(other(*arguments))
        compare(what, leaves_of(one(*arguments)), expected, False, slack=2e-3)
        if what in compiled:
            found = leaves_of(mx.compile(one)(*arguments))
            compare(f"compiled {what}", found, expected, False, slack=2e-3)
