"""Tells stories: uncompiled, compiled and to MLX, and compares what they showed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import mlx.core as mlx
import mlx.nn as mlx_nn
import mlx.optimizers as mlx_optimizers
import mlx.utils as mlx_utils
import numpy as np
from tests.fuzz.check import Difference, Statistics, compare, leaves_of
from tests.fuzz.stories import Story

import ingot.core as mx
import ingot.nn as nn
from ingot import optimizers, utils
from ingot.runtime.compile_mode import set_check_captures

__all__ = ["check_story"]


class Pair(NamedTuple):
    """A named tuple."""

    a: Any
    b: Any


class Tagged(tuple[Any, ...]):
    """A tuple with an attribute."""

    tag: float = 1.0


class Listed(list[Any]):
    """A list of another type."""


@dataclass
class Thing:
    """A dataclass with an array and a number."""

    w: Any
    k: float


@dataclass(frozen=True)
class Frozen:
    """A constant."""

    k: float
    name: str


class Config:
    """An object that is equal to itself only."""

    def __init__(self, k: float) -> None:
        self.k = k


class Hashable(Config):
    """An object whose hash and equality say nothing about what is in it."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashable)


class Slots:
    """An object without a dict."""

    __slots__ = ("k",)

    def __init__(self, k: float) -> None:
        self.k = k


@dataclass
class Telling:
    """What came of telling a story."""

    shown: list[Any] = field(default_factory=list)
    raised: Exception | None = None
    warned_at: int | None = None  # how many values had been shown


def _plain(value: Any) -> Any:
    """The value with dicts in place of dataclasses, and what else it is in front of it."""
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {f.name: getattr(value, f.name) for f in fields(value)}]
    if isinstance(value, Tagged):
        return [*value, value.tag]
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value


def _names(core: Any, layers: Any, steps: Any, tree_tools: Any, compiled: bool) -> dict[str, Any]:
    """What a story sees."""
    generator = np.random.default_rng(3)

    def numbers(*shape: int) -> Any:
        return core.array(generator.uniform(-1, 1, shape).astype(np.float32))

    def seeded(module: Any) -> Any:
        flat = tree_tools.tree_flatten(module.parameters())
        module.update(tree_tools.tree_unflatten([(name, numbers(*x.shape)) for name, x in flat]))
        return module

    def untouched(function: Any, **_: Any) -> Any:
        return function

    own = (Pair, Tagged, Listed, Thing, Frozen, Config, Hashable, Slots)
    return {
        "mx": core,
        "nn": layers,
        "optimizers": steps,
        "compile": core.compile if compiled else untouched,
        "numbers": numbers,
        "seeded": seeded,
        **{kind.__name__: kind for kind in own},
    }


def _tell(story: Story, names: dict[str, Any]) -> Telling:
    telling = Telling()
    names["show"] = lambda value: telling.shown.append(leaves_of(_plain(value)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", mx.UndeclaredStateWarning)
        for line in (story.definitions, *story.lines):
            names["mx"].random.seed(1)
            try:
                exec(compile(line, f"<story {story.seed}>", "exec"), names)
            except Exception as error:
                telling.raised = error
                break
            finally:
                if caught and telling.warned_at is None:
                    # What the warning is about may be in what this line showed.
                    telling.warned_at = max(len(telling.shown) - 1, 0)
    return telling


def check_story(story: Story, statistics: Statistics, with_mlx: bool = True) -> None:
    """Difference, with the story in it, unless all tellings agree or say that they do not."""
    try:
        _check(story, statistics, with_mlx)
    except Exception as error:
        raise Difference(f"{type(error).__name__}: {error}\n\n{story.source()}") from error


def _check(story: Story, statistics: Statistics, with_mlx: bool) -> None:
    statistics.stories[story.kind] += 1
    set_check_captures(story.checks_captures)
    try:
        eager = _tell(story, _names(mx, nn, optimizers, utils, compiled=False))
        compiled = _tell(story, _names(mx, nn, optimizers, utils, compiled=True))
    finally:
        set_check_captures(False)
    statistics.shown += len(eager.shown)
    _compare_compiled(story, eager, compiled, statistics)
    if not (with_mlx and story.suits_mlx):
        return
    others = _tell(story, _names(mlx, mlx_nn, mlx_optimizers, mlx_utils, compiled=False))
    if others.raised is None and eager.raised is not None:
        raise Difference(f"ingot raised {eager.raised!r}, MLX nothing") from eager.raised
    for number, (found, expected) in enumerate(zip(eager.shown, others.shown, strict=False)):
        compare(f"value {number} against MLX", found, expected, False, slack=story.slack)
    statistics.stories_told_to_mlx += 1


def _compare_compiled(
    story: Story, eager: Telling, compiled: Telling, statistics: Statistics
) -> None:
    """Difference if the compiled telling differs in silence, or speaks without need."""
    warned_at = compiled.warned_at
    if warned_at is not None and not story.is_undeclared:
        raise Difference("warned of undeclared state, but all is declared")
    for number, expected in enumerate(eager.shown):
        if warned_at is not None and number >= warned_at:
            statistics.warned += 1
            return
        if number >= len(compiled.shown):
            break
        compare(f"value {number}", compiled.shown[number], expected, False)
    error = compiled.raised
    if story.is_opaque and isinstance(error, ValueError) and str(error).startswith("[compile]"):
        statistics.refused_objects += 1
    elif type(error) is not type(eager.raised) and warned_at is None:
        raise Difference(f"uncompiled raised {eager.raised!r}, compiled {error!r}") from error
