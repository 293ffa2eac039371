"""Grows random programs: statement by statement, each tried out at once on real arrays.

Two things keep comparisons meaningful. Values stay small, and steps that amplify rounding errors
are tamed (no division by numbers near 0, no roots of them). And steps that are not continuous
(comparisons, rounding, positions of extremes) only take values that are exact, that is, computed
without rounding, so that they cannot differ between engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.fuzz.program import Input, Program

import ingot.core as mx

__all__ = ["grow"]

FLOATS = ("float32", "float32", "float32", "float16", "bfloat16")
INTEGERS = ("int32", "int8", "int16", "int64", "uint8", "uint32")
MAX_ELEMENTS = 2_000
MAX_ELEMENTS_OF_LARGE_PROGRAMS = 300_000
LARGEST = 200.0


@dataclass
class Variable:
    """A name of the program and what is known of it."""

    name: str
    value: Any
    is_exact: bool

    @property
    def is_float(self) -> bool:
        return mx.issubdtype(self.value.dtype, mx.floating)

    @property
    def is_integer(self) -> bool:
        return mx.issubdtype(self.value.dtype, mx.integer)

    @property
    def is_wide(self) -> bool:
        return self.value.dtype == mx.float32

    @property
    def ndim(self) -> int:
        return self.value.ndim


CONTINUOUS = [
    "mx.sin({})", "mx.cos({})", "mx.tanh({})", "mx.sigmoid({})", "mx.square({})", "-{}",
    "mx.abs({})", "mx.erf({})", "mx.exp(mx.minimum({}, 2))", "mx.sqrt(mx.abs({}) + 1)",
    "mx.rsqrt(mx.square({}) + 1)", "mx.log1p(mx.abs({}))", "mx.reciprocal(mx.abs({}) + 1)",
    "mx.expm1(mx.minimum({}, 1))", "mx.arctan({})", "mx.log(mx.abs({}) + 0.5)", "{} * 0.5",
    "{} + 1", "3 - {}", "{} / 4", "{} * k", "mx.maximum({}, 0)", "mx.clip({}, -1.0, 1.5)",
    "mx.sinh(mx.clip({}, -2, 2))", "{} ** 2", "mx.stop_gradient({})", "mx.logaddexp({}, 0.5)",
]  # fmt: skip
# Every engine must give the same bits for these, in every dtype.
ARITHMETIC = [
    "-{}", "mx.abs({})", "mx.square({})", "{} * 0.3", "{} + 1", "3 - {}", "{} / 3", "{} * k",
    "mx.maximum({}, 0.1)", "mx.clip({}, -1.0, 1.5)", "({0} * 1.1 + 0.3) * {0}",
    "(({0} * 1.1 + 0.3) * {0} - 0.7) * {0} + 2.3", "{0} - {0} * 0.7",
]  # fmt: skip
ARITHMETIC_PAIRS = [
    "{} + {}", "{} - {}", "{} * {}", "{} / (mx.abs({}) + 1)", "mx.maximum({}, {})",
    "mx.minimum({}, {})", "mx.where({} > 100, 0, {})", "{0} * {1} + {0}", "{0} * {0} - {1} * {1}",
]  # fmt: skip
PAIRS = [
    "{} + {}", "{} - {}", "{} * {}", "{} / (mx.abs({}) + 1)", "mx.maximum({}, {})",
    "mx.minimum({}, {})", "mx.logaddexp({}, {})", "mx.arctan2({}, mx.abs({}) + 1)",
    "mx.where({} > 100, 0, {})", "mx.cos({0} - {1}) * mx.sin({1} - {0})",
    "{0} / (mx.abs({1}) + 1) - {1} / (mx.abs({0}) + 1)",
]  # fmt: skip
EXACT_PAIRS = ["{} > {}", "{} <= {}", "{} == {}", "mx.where({} > 0, {}, 1)", "mx.maximum({}, {})"]
INTEGER_PAIRS = ["{} + {}", "{} * {}", "{} & {}", "{} | {}", "{} ^ {}", "{} // (mx.abs({}) + 1)"]
INTEGER_PAIRS += ["{} % (mx.abs({}) + 2)", "mx.maximum({}, {})", "{} < {}"]
REDUCTIONS = ["sum", "mean", "max", "min", "var", "logsumexp"]
INNER = [
    "mx.sin({0}) * 0.5 + {0}", "mx.tanh({0}) * {0}", "({0} * {0} + 1).sum() * 0.1",
    "mx.exp(-mx.abs({0})) * 2", "{0} - {0}.mean()", "mx.softmax({0} * 0.5)",
]  # fmt: skip


class Grower:
    """A program while it grows."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.program = Program(seed)
        self.variables: list[Variable] = []
        self.count = 0

    def choose(self, items: Any) -> Any:
        return items[int(self.random.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    # The frame: inputs, state, calls

    def grow(self) -> Program:
        self.program.shapeless = self.chance(0.3)
        self.program.captures = self.chance(0.3)
        self.program.has_exact_bits = self.chance(0.2)
        self.is_large = self.chance(0.08)  # enough for several threads, and for rows in parts
        self.large_axis = self.choose("nmp")
        self.large_length = int(self.choose([65, 257, 1031, 40_000]))
        lengths = self.new_lengths()
        self.program.calls = [lengths, dict(lengths)]
        if self.program.shapeless:
            self.program.calls += [self.new_lengths(), self.new_lengths(), dict(lengths)]
        same = float(self.choose([2.0, 0.5, 1.0]))
        self.program.constants = [same] * len(self.program.calls)
        if self.chance(0.3):
            self.program.constants[-1] = 3.0
        for number in range(int(self.random.integers(1, 4))):
            self.program.inputs.append(self.new_input(f"x{number}"))
        if self.program.captures:
            for number in range(int(self.random.integers(1, 3))):
                self.program.state.append(self.new_input(f"s{number}", "float32"))
        self.state = self.program.make_state(mx)
        self.names: dict[str, Any] = {"mx": mx, "k": same, "state": self.state}
        for given, value in zip(
            self.program.inputs, self.program.arguments(mx, 0)[:-1], strict=True
        ):
            self.names[given.name] = value
            self.variables.append(Variable(given.name, value, True))
        for part in self.program.state:  # exact in the first call only
            self.variables.append(Variable(f'state["{part.name}"]', self.state[part.name], False))
        wanted = int(self.random.integers(4, 16))
        for _ in range(4 * wanted):
            if len(self.program.lines) >= wanted:
                break
            self.add_statement()
        self.add_result()
        return self.program

    def new_lengths(self) -> dict[str, int]:
        lengths = {axis: int(self.random.integers(1, 9)) for axis in "nmp"}
        if self.is_large:
            lengths[self.large_axis] = self.large_length - int(self.random.integers(3))
        return lengths

    def new_input(self, name: str, dtype: str | None = None) -> Input:
        count = int(self.random.integers(0, 4))
        axes = tuple(self.random.choice(list("nmp"), count, replace=not self.is_large).tolist())
        if dtype is None:
            dtype = self.choose(FLOATS if self.chance(0.8) else [*INTEGERS, "bool_"])
        return Input(name, axes, dtype)

    # Statements

    def add_statement(self) -> None:
        kinds: list[tuple[float, Callable[[], tuple[str, bool] | None]]] = [
            (5, self.elementwise),
            (4, self.pair),
            (3, self.reduction),
            (4, self.movement),
            (1, self.join),
            (1, self.product),
            (1, self.discrete),
            (1, self.cast),
            (4 if self.program.shapeless else 1, self.symbolic),
            (1, self.again),
            (1, self.indexing),
            (1.5, self.nested),
            (0.5, self.random_numbers),
        ]
        if self.program.captures and self.chance(0.2):
            self.update_state()
            return
        if self.program.has_exact_bits:
            inexact = (self.product, self.symbolic, self.nested, self.random_numbers)
            kinds = [(weight, make) for weight, make in kinds if make not in inexact]
        weights = np.array([weight for weight, _ in kinds])
        position = int(self.random.choice(len(kinds), p=weights / weights.sum()))
        found = kinds[position][1]()
        if found is not None:
            self.add_variable(*found)

    def add_variable(self, code: str, is_exact: bool) -> None:
        """Adds `v = code` if that works and its values are harmless."""
        value = self.tried(code)
        if value is None:
            return
        name = f"v{self.count}"
        self.count += 1
        self.program.lines.append(f"{name} = {code}")
        self.names[name] = value
        self.variables.append(Variable(name, value, is_exact))

    def tried(self, code: str) -> Any:
        """The value of an expression; None if it fails or is too large."""
        most = MAX_ELEMENTS_OF_LARGE_PROGRAMS if self.is_large else MAX_ELEMENTS
        try:
            value = eval(code, dict(self.names))
            if not isinstance(value, mx.array) or value.size > most or value.ndim > 5:
                return None
            mx.eval(value)
        except (ValueError, TypeError, IndexError, RuntimeError, ZeroDivisionError):
            return None
        numbers = np.array(value.astype(mx.float32))
        if not np.isfinite(numbers).all() or np.abs(numbers).max(initial=0) > LARGEST:
            return None
        return value

    def pick(self, wanted: Callable[[Variable], bool] = lambda _: True) -> Variable | None:
        found = [variable for variable in self.variables if wanted(variable)]
        if not found:
            return None
        late = found[-6:] if self.chance(0.7) else found
        return self.choose(late)

    def elementwise(self) -> tuple[str, bool] | None:
        x = self.pick(lambda v: v.is_float)
        choices = ARITHMETIC if self.program.has_exact_bits else CONTINUOUS
        return None if x is None else (self.choose(choices).format(x.name), False)

    def pair(self) -> tuple[str, bool] | None:
        if self.chance(0.2):
            x, y = self.pick(lambda v: v.is_integer), self.pick(lambda v: v.is_integer)
            if x is not None and y is not None:
                return self.choose(INTEGER_PAIRS).format(x.name, y.name), x.is_exact and y.is_exact
        x, y = self.pick(lambda v: v.is_float), self.pick(lambda v: v.is_float)
        if x is None or y is None:
            return None
        choices = ARITHMETIC_PAIRS if self.program.has_exact_bits else PAIRS
        return self.choose(choices).format(x.name, y.name), False

    def axis(self, x: Variable) -> str:
        if x.ndim == 0 or self.chance(0.2):
            return "None"
        if x.ndim > 1 and self.chance(0.2):
            return "(0, -1)"
        return str(int(self.random.integers(-x.ndim, x.ndim)))

    def reduction(self) -> tuple[str, bool] | None:
        x = self.pick(lambda v: v.is_float)
        if x is None:
            return None
        axis, keep = self.axis(x), self.chance(0.4)
        kind = self.choose([*REDUCTIONS, "softmax", "cumsum"])
        if self.program.has_exact_bits:
            kind = self.choose(["max", "min"])
        if kind == "softmax":
            return f"mx.softmax({x.name}, axis={axis})", False
        if kind == "cumsum":
            return (f"mx.cumsum({x.name}, axis={axis})", False) if "(" not in axis else None
        exact = x.is_exact and kind in ("max", "min")
        return f"{x.name}.{kind}(axis={axis}, keepdims={keep})", exact

    def movement(self) -> tuple[str, bool] | None:
        x = self.pick()
        if x is None:
            return None
        name, last = x.name, max(x.ndim - 1, 0)
        axis = int(self.random.integers(0, max(x.ndim, 1)))
        choices = [
            f"{name}.reshape(-1)",
            f"mx.expand_dims({name}, {axis})",
            f"mx.broadcast_to({name}[None], (2, *{name}.shape))",
            f"{name}.T",
        ]
        if x.ndim > 0:
            before = ":, " * axis
            choices += [
                f"{name}[{before}::-1]",
                f"{name}[{before}1:]",
                f"{name}[{before}:-1]",
                f"{name}[{before}::2]",
                f"{name}[{before}0]",
                f"{name}[{before}-1]",
                f"{name}[..., : {name}.shape[-1] // 2 + 1]",
                f"mx.roll({name}, 1, axis={axis})",
                f"mx.repeat({name}, 2, axis={axis})",
                f"mx.pad({name}, 1)",
                f"mx.split({name}, [1], axis={axis})[0]",
            ]
        if x.ndim > 1:
            choices += [
                f"mx.swapaxes({name}, 0, {last})",
                f"mx.moveaxis({name}, {axis}, 0)",
                f"{name}.flatten(0, 1)",
                f"{name}.reshape({name}.shape[0] * {name}.shape[1], -1)",
                f"{name}.reshape(-1, {name}.shape[0])",
                f"{name}.transpose(*range({x.ndim})[::-1])",
                f"mx.tril({name})",
                f"mx.triu({name}, 1)",
                f"mx.diagonal({name})",
            ]
        return self.choose(choices), x.is_exact

    def join(self) -> tuple[str, bool] | None:
        x = self.pick()
        if x is None:
            return None
        y = self.pick(lambda v: v.value.shape == x.value.shape and v.value.dtype == x.value.dtype)
        assert y is not None
        axis = int(self.random.integers(0, max(x.ndim, 1)))
        join = self.choose(["concatenate", "stack"])
        return f"mx.{join}([{x.name}, {y.name}], axis={axis})", x.is_exact and y.is_exact

    def product(self) -> tuple[str, bool] | None:
        x = self.pick(lambda v: v.is_wide and v.ndim >= 2)
        if x is None:
            return None
        if self.chance(0.5):
            return f"({x.name} @ {x.name}.swapaxes(-1, -2)) * 0.1", False
        if self.chance(0.3):
            return f'mx.einsum("...ij,...ij->...i", {x.name}, {x.name}) * 0.1', False
        y = self.pick(lambda v: v.is_wide and v.ndim == 2)
        return None if y is None else (f"({x.name} @ {y.name}) * 0.1", False)

    def discrete(self) -> tuple[str, bool] | None:
        x, y = self.pick(lambda v: v.is_exact), self.pick(lambda v: v.is_exact)
        if x is None or y is None:
            return None
        choices = [pair.format(x.name, y.name) for pair in EXACT_PAIRS]
        choices += [f"mx.floor({x.name})", f"mx.sign({x.name})", f"({x.name} > 0).sum()"]
        if x.ndim > 0:
            choices += [f"mx.sort({x.name}, axis=-1)", f"mx.argmax({x.name}, axis=0)"]
            choices += [f"mx.topk({x.name}, 1, axis=-1)", f"mx.cummax({x.name}, axis=-1)"]
            choices += [f"mx.cummin({x.name}, axis=0, reverse=True)"]
            choices += [f"mx.any({x.name} > 0, axis=0)", f"mx.all({x.name} > 0)"]
        return self.choose(choices), True

    def cast(self) -> tuple[str, bool] | None:
        x = self.pick()
        if x is None:
            return None
        if x.is_float and not x.is_exact:
            return f"{x.name}.astype(mx.{self.choose(FLOATS)})", False
        target = (
            self.choose([*FLOATS, "int32"]) if x.is_float else self.choose([*FLOATS, *INTEGERS])
        )
        keeps = not x.is_float or target in ("float32", "int32")
        return f"{x.name}.astype(mx.{target})", x.is_exact and keeps

    def symbolic(self) -> tuple[str, bool] | None:
        x = self.pick(lambda v: v.is_float and v.ndim > 0)
        if x is None:
            return None
        name = x.name
        return self.choose(
            [
                f"{name} / {name}.size",
                f"{name} * {name}.shape[0]",
                f"{name} + mx.arange({name}.shape[-1]) / {name}.shape[-1]",
                f"{name} + mx.zeros({name}.shape)",
                f"{name}.sum() / ({name}.shape[0] + 1)",
                f"{name} * 2 if {name}.shape[0] > 3 else {name} * 3",
                f"mx.full(({name}.shape[0], 2), 0.5) * {name}.mean()",
                f"sum((row.sum() for row in {name}), mx.array(0.0)) * 0.1",
                f"{name} * len({name}) * 0.5",
                f"{name} * mx.array({name}.shape).sum() * 0.1",
            ]
        ), False

    def again(self) -> tuple[str, bool] | None:
        """An expression that is there already: a common subexpression."""
        x = self.pick(lambda v: v.name.startswith("v"))
        if x is None:
            return None
        line = next(line for line in self.program.lines if line.startswith(f"{x.name} = "))
        return f"{line.partition(' = ')[2]}", x.is_exact

    def indexing(self) -> tuple[str, bool] | None:
        x = self.pick(lambda v: v.ndim > 0 and v.value.shape[0] > 0)
        if x is None:
            return None
        return self.choose(
            [
                f"mx.take({x.name}, mx.array([0, 0]), axis=0)",
                f"{x.name}[mx.array([0])]",
                f"{x.name}.at[0].add(1)",
                f"{x.name}[mx.array([[0], [0]])]",
                f"mx.where({x.name} == {x.name}, {x.name}, 0)",
            ]
        ), False

    def nested(self) -> tuple[str, bool] | None:
        x = self.pick(lambda v: v.is_wide)
        if x is None:
            return None
        inner = self.choose(INNER).format("a")
        whole = f"({inner}).sum()"
        choices = [
            f"mx.compile(lambda a: {inner})({x.name})",
            f"mx.grad(lambda a: {whole})({x.name})",
            f"mx.value_and_grad(lambda a: {whole})({x.name})[1]",
            f"mx.grad(mx.compile(lambda a: {whole}))({x.name})",
            f"mx.compile(mx.grad(lambda a: {whole}))({x.name})",
            f"mx.checkpoint(lambda a: {inner})({x.name})",
            f"mx.grad(mx.checkpoint(lambda a: {whole}))({x.name})",
            f"mx.vjp(lambda a: {whole}, [{x.name}], [mx.array(0.5)])[1][0]",
            f"mx.jvp(lambda a: {inner}, [{x.name}], [{x.name} * 0.5])[1][0]",
        ]
        if x.ndim > 0:
            choices += [
                f"mx.vmap(lambda a: {inner})({x.name})",
                f"mx.vmap(mx.grad(lambda a: {whole}))({x.name})",
                f"mx.compile(mx.vmap(mx.compile(lambda a: {inner})))({x.name})",
                f"mx.grad(lambda b: mx.vmap(lambda a: {inner})(b).sum())({x.name})",
            ]
        return self.choose(choices), False

    def random_numbers(self) -> tuple[str, bool] | None:
        x = self.pick(lambda v: v.is_wide)
        if x is None:
            return None
        key = "" if self.chance(0.3) else ", key=mx.random.key(3)"
        self.program.draws_numbers |= not key
        kind = self.choose(["uniform(shape=", "normal(", "bernoulli(0.5, "])
        return f"{x.name} * mx.random.{kind}{x.name}.shape{key})", False

    # State and results

    def update_state(self) -> None:
        part = self.choose(self.program.state)
        place = f'state["{part.name}"]'
        old = self.state[part.name]
        x = self.pick(lambda v: v.is_wide and v.ndim == 0)
        code = f"{place} * 0.5 + {'0.25' if x is None else x.name}"
        value = self.tried(code)
        if value is None or value.shape != old.shape:
            return
        if self.chance(0.7):
            self.program.lines.append(f"{place} = {code}")
            self.state[part.name] = value
        else:
            self.program.lines.append(f"{place} += 0.125")
            self.state[part.name] = self.tried(f"{place} + 0.125")
        if self.chance(0.2) and not self.program.shapeless:
            self.program.lines.append(f'state["list"] = state["list"][-1:] + [{place} * 2]')
        for variable in self.variables:  # what the name stands for from now on
            if variable.name == place:
                variable.value = self.state[part.name]

    def add_result(self) -> None:
        made = [variable.name for variable in self.variables if variable.name.startswith("v")]
        if not made:
            made = [self.program.inputs[0].name]
        count = min(len(made), int(self.random.integers(1, 4)))
        chosen = [made[-1], *(self.choose(made) for _ in range(count - 1))]
        forms = {
            1: ["{0}", "[{0}]", '{{"a": {0}, "k": k}}'],
            2: ["({0}, {1})", "[{0}, ({1}, None)]", '{{"b": {0}, "a": [{1}, 3]}}'],
            3: ["({0}, {1}, {2})", '[{0}, {{"x": {1}, "y": ({2},)}}]'],
        }
        self.program.result = self.choose(forms[count]).format(*chosen)


def grow(seed: int) -> Program:
    """The program that belongs to a seed."""
    return Grower(seed).grow()
