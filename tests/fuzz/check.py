"""Checks of programs: compiled against eager, and against MLX, plain and compiled."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mlx.core as mlx
import numpy as np
from tests.fuzz.grow import grow
from tests.fuzz.program import Program

import ingot.core as mx
from ingot.compiler.pipeline import PASSES

__all__ = ["Difference", "Statistics", "check", "compare", "leaves_of", "run"]

TOLERANCE = {"float16": 3e-2, "bfloat16": 2e-1}
HALF = ("float16", "bfloat16")


class Difference(AssertionError):  # noqa: N818
    """A program whose results differ."""


@dataclass
class Statistics:
    """What a run of the fuzzer did."""

    programs: int = 0
    calls: int = 0
    shapeless: int = 0
    with_state: int = 0
    nested: int = 0
    compared_bits: int = 0
    refused: int = 0  # calls that raised, compiled as uncompiled
    compared_with_mlx: int = 0
    compared_with_mlx_compile: int = 0
    stories: Counter[str] = field(default_factory=Counter)  # by kind
    shown: int = 0  # values that stories showed
    warned: int = 0  # stories with undeclared state that were told with a warning
    refused_objects: int = 0  # stories that ended with the refusal of an object
    stories_told_to_mlx: int = 0

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.calls} calls "
            f"({self.refused} raised, compiled as eager): {self.shapeless} shapeless, "
            f"{self.with_state} with captured state, {self.compared_bits} compared bit by bit, "
            f"{self.nested} with transforms or compiled "
            f"functions inside; {self.compared_with_mlx} compared with MLX, "
            f"{self.compared_with_mlx_compile} with its compile. {self._about_stories()}"
        )

    def _about_stories(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.stories.items()))
        return (
            f"{self.stories.total()} stories with {self.shown} values ({kinds}): {self.warned} "
            f"warned of undeclared state, {self.refused_objects} refused an object, "
            f"{self.stories_told_to_mlx} told to MLX"
        )


def leaves_of(tree: Any) -> list[Any]:
    """The types of the containers, the keys, and the leaves, arrays as dtypes and values."""
    if isinstance(tree, dict):
        return [leaf for key, item in tree.items() for leaf in (key, *leaves_of(item))]
    if isinstance(tree, (list, tuple)):
        return [type(tree).__name__, *(leaf for item in tree for leaf in leaves_of(item))]
    if isinstance(tree, (mx.array, mlx.array)):
        dtype = str(tree.dtype).rsplit(".", 1)[-1]
        plain = tree.astype((mx if isinstance(tree, mx.array) else mlx).float32)
        return [(dtype, np.array(plain))]
    return [tree]


def without_overflows(theirs: list[Any], ours: list[Any]) -> list[Any]:
    """The leaves of MLX with ours where they overflowed: its `var` and `std` of float16 add squares
    in that type, and have none of 200,000 elements that are not small.
    """
    return [
        (x[0], np.where(np.isinf(x[1]) & np.isfinite(y[1]), y[1], x[1]))
        if isinstance(x, tuple) and x[0] == y[0] == "float16" and x[1].shape == y[1].shape
        else x
        for x, y in zip(theirs, ours, strict=False)
    ] + theirs[len(ours) :]


def compare(
    what: str,
    one: list[Any],
    other: list[Any],
    uses_half: bool,
    exactly: bool = False,
    slack: float = 0,
) -> None:
    """Difference unless the leaves are equal, up to rounding or, but for signs of 0, exactly.
    `slack` is what rounding may add to the usual tolerance.
    """
    if len(one) != len(other):
        raise Difference(f"{what}: {len(one)} leaves instead of {len(other)}")
    for x, y in zip(one, other, strict=True):
        if not isinstance(x, tuple):
            if x != y:
                raise Difference(f"{what}: {x!r} instead of {y!r}")
            continue
        if x[0] != y[0] or x[1].shape != y[1].shape:
            raise Difference(f"{what}: {x[0]}{x[1].shape} instead of {y[0]}{y[1].shape}")
        tolerance = slack + (TOLERANCE["bfloat16"] if uses_half else TOLERANCE.get(x[0], 2e-4))
        scale = 1 + np.abs(y[1][np.isfinite(y[1])]).max(initial=0)
        if exactly or x[0].startswith(("int", "uint", "bool")):
            tolerance = 0
        if not np.allclose(x[1], y[1], rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            worst = np.abs(x[1] - y[1]).max()
            raise Difference(f"{what}: off by {worst:.4g} at a scale of {scale:.4g} ({x[0]})")


def _call(function: Any, arguments: list[Any], evaluate: Any, state: Any) -> tuple[Any, Any]:
    """The result of a call, or the exception that it raised. The arguments are given away."""
    mx.random.seed(1)
    mlx.random.seed(1)
    try:
        result = function(*arguments)
        arguments.clear()
        evaluate(result, state)
    except (ValueError, TypeError, IndexError, RuntimeError, ZeroDivisionError) as error:
        return None, error
    return result, None


def check(program: Program, statistics: Statistics, with_mlx_compile: bool = False) -> None:
    """Difference, with the program's source in it, unless all ways to run it agree."""
    try:
        _check(program, statistics, with_mlx_compile)
    except Exception as error:
        raise Difference(f"{type(error).__name__}: {error}\n\n{program.source()}") from error


def _check(program: Program, statistics: Statistics, with_mlx_compile: bool) -> None:
    text = program.function_source()
    statistics.programs += 1
    statistics.shapeless += program.shapeless
    statistics.with_state += program.captures
    statistics.nested += any(
        word in text
        for word in ("mx.compile", "mx.grad", "mx.vmap", "mx.vjp", "mx.jvp", "checkpoint")
    )
    types = {given.dtype for given in program.inputs}
    uses_half = any(name in text or name in types for name in HALF)
    agree = partial(compare, uses_half=uses_half, exactly=program.has_exact_bits)
    statistics.compared_bits += program.has_exact_bits
    states = [program.make_state(mx) for _ in range(2)]
    eager = program.make(mx, states[0])
    compiled = program.compile(mx, program.make(mx, states[1]), states[1])
    explained = compiled.explain(*program.arguments(mx, 0)).stages
    for name in ("trace", *(each.name for each in PASSES)):
        explained.form(name).verify()
    others = _others(program, with_mlx_compile)
    for call in range(len(program.calls)):
        statistics.calls += 1
        expected, error = _call(eager, program.arguments(mx, call), mx.eval, states[0])
        found, found_error = _call(compiled, program.arguments(mx, call), mx.eval, states[1])
        if type(error) is not type(found_error):
            raise Difference(f"call {call}: eager raised {error!r}, compiled {found_error!r}")
        if error is not None:
            statistics.refused += 1
            return  # what a function did to its state before it raised is its own affair
        seen, seen_state = leaves_of(found), leaves_of(states[1])
        agree(f"call {call}", seen, leaves_of(expected))
        agree(f"state after call {call}", seen_state, leaves_of(states[0]))
        for name, function, state in others:
            result, error = _call(function, program.arguments(mlx, call), mlx.eval, state)
            if error is not None:
                others = [other for other in others if other[0] != name]
                continue
            theirs, their_state = leaves_of(result), leaves_of(state)
            # MLX adds float32 one after the other: 200,000 squares were wrong by 5e-4 of their sum
            sizes = [x.size for x in program.arguments(mx, call) if isinstance(x, mx.array)]
            agree_too = partial(agree, slack=max(sizes, default=0) * 2**-27)
            agree_too(f"call {call} against {name}", seen, without_overflows(theirs, seen))
            agree_too(
                f"state after call {call} against {name}",
                seen_state,
                without_overflows(their_state, seen_state),
            )
    for name, _, _ in others:
        statistics.compared_with_mlx += name == "MLX"
        statistics.compared_with_mlx_compile += name == "MLX's compile"


def _others(program: Program, with_mlx_compile: bool) -> list[tuple[str, Any, Any]]:
    """MLX's functions to compare with, and their states."""
    state = program.make_state(mlx)
    found = [("MLX", program.make(mlx, state), state)]
    # MLX's own shapeless functions may be wrong for new shapes, and its lists cannot grow.
    grows = "list" in "".join(program.lines)
    if with_mlx_compile and not (program.shapeless or grows or program.draws_numbers):
        state = program.make_state(mlx)
        function = program.compile(mlx, program.make(mlx, state), state)
        found.append(("MLX's compile", function, state))
    return found


def run(seeds: range, every: int) -> Statistics:
    """Checks the programs of these seeds, every so many of them against MLX's compile too."""
    statistics = Statistics()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.RecompilationWarning)
        for position, seed in enumerate(seeds):
            check(grow(seed), statistics, with_mlx_compile=every > 0 and position % every == 0)
    return statistics
