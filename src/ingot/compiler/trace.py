"""Trace: a function run once on placeholders, and what it did, as a tape."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from ingot import _native
from ingot._native import Node, array, placeholder, topological
from ingot.compiler.capture import Recipe, Snapshot
from ingot.compiler.tape import Source, Step, Tape, tape_of
from ingot.graph.dimension import Dimension, Guards, resolve, symbolic_shape
from ingot.graph.state import State, implicit_states, replaced_states
from ingot.graph.tree import arrays_in, tree_map

__all__ = ["Trace", "trace", "user_source"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_sources: dict[tuple[CodeType, int], Source] = {}


def user_source() -> Source | None:
    """The line of the user's program that is running: the innermost one outside of this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    key = (frame.f_code, frame.f_lineno)
    found = _sources.get(key)
    if found is None:
        found = Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        _sources[key] = found
    return found


class _Leaf:
    """Marks the place of an array in a tree that must not keep the array alive."""


_LEAF = _Leaf()


@dataclass
class Trace:
    """A traced function: its tape, how to build its result, and what it does to captured state."""

    tape: Tape
    result: Any  # the tree that the function returned, with marks where arrays go
    result_count: (
        int  # how many outputs of the tape belong to the result; the rest is captured state
    )
    recipe: Recipe | None
    followed: list[
        tuple[State, int]
    ]  # the implicit states, and places in them, that are inputs after the others
    updates: list[tuple[State, int, int]]  # which implicit states get which outputs
    aliases: list[tuple[int, int]]  # pairs of inputs that were the same array
    guards: Guards

    @property
    def returns_array(self) -> bool:
        """Whether the function returns one array and nothing else."""
        return self.result is _LEAF

    def build_result(self, outputs: Sequence[array]) -> Any:
        """What the function returns, from the outputs of its tape."""
        if self.result is _LEAF:
            return outputs[0]
        remaining = iter(outputs)
        return tree_map(lambda leaf: next(remaining) if leaf is _LEAF else leaf, self.result)

    def for_shapes(self, shapes: Sequence[Sequence[int]]) -> Tape:
        """The tape with every symbolic dimension replaced by its length for inputs of these shapes."""
        made: dict[Step, Step] = {}
        for step in self.tape.steps:
            op = step.op
            if op is not None and _is_symbolic(op):
                fields = op.__dataclass_fields__  # type: ignore[attr-defined]
                op = replace(op, **{name: resolve(getattr(op, name), shapes) for name in fields})  # type: ignore[type-var]
            made[step] = Step(
                op,
                [made[source] for source in step.inputs],
                resolve(step.shape, shapes),
                step.dtype,
                step.stream,
                step.source,
                step.value,
            )
        return Tape(
            [made[step] for step in self.tape.inputs],
            [made[step] for step in self.tape.outputs],
            list(made.values()),
            {made[step]: name for step, name in self.tape.names.items()},
        )


def _is_symbolic(op: Any) -> bool:
    return any(_holds_dimension(getattr(op, name)) for name in op.__dataclass_fields__)


def _holds_dimension(value: Any) -> bool:
    if type(value) is tuple:
        return any(map(_holds_dimension, value))
    return type(value) is Dimension


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    captured_inputs: Any,
    captured_outputs: Any,
    names: Sequence[str],
    shapeless: bool,
) -> Trace:
    """Runs `function` on placeholders for the arrays in its arguments and captured inputs."""
    guards = Guards()
    arguments = arrays_in((args, kwargs))
    captured = arrays_in(captured_inputs)
    snapshot = Snapshot([captured_inputs, captured_outputs])
    placeholders = [
        _stand_in(position, value, names, guards if shapeless else None)
        for position, value in enumerate([*arguments, *captured])
    ]
    stand_ins = iter(placeholders)
    args, kwargs = tree_map(
        lambda leaf: next(stand_ins) if isinstance(leaf, array) else leaf, (args, kwargs)
    )
    states = [state for state in implicit_states() if snapshot.place_of(state) is None]
    state_stand_ins = {
        id(state): [placeholder(x.shape, x.dtype) for x in state] for state in states
    }
    state_placeholders = [x for state in states for x in state_stand_ins[id(state)]]
    state_nodes = [x._node for x in state_placeholders]
    _native.begin_tracing()
    recorder = _native.set_source_recorder(user_source)
    try:
        pointed, aliases = _point(captured, placeholders[len(arguments) :], len(arguments))
        with replaced_states(state_stand_ins):
            result = function(*args, **kwargs)
        outputs = arrays_in(result)
        result_count = len(outputs)
        recipe = Recipe(snapshot, pointed, outputs)
    finally:
        _native.set_source_recorder(recorder)
        snapshot.restore()
        _native.end_tracing()
    updates: list[tuple[State, int, int]] = []
    places = [(state, place) for state in states for place in range(len(state))]
    for (state, place), node in zip(places, state_nodes, strict=True):
        updated = state_stand_ins[id(state)][place]
        if updated._node is not node:
            updates.append((state, place, len(outputs)))
            outputs.append(updated)
    _refuse_uncaptured(outputs, [*arguments, *captured], names)
    used = set(topological(outputs))
    followed = [place for place, node in zip(places, state_nodes, strict=True) if node in used]
    tape = tape_of(
        [*placeholders, *(_native.wrap(node) for node in state_nodes if node in used)],
        outputs,
        [*names, *("random state" for _ in followed)],
    )
    return Trace(
        tape,
        tree_map(lambda leaf: _LEAF if isinstance(leaf, array) else leaf, result),
        result_count,
        recipe if recipe.changes else None,
        followed,
        updates,
        aliases,
        guards,
    )


def _stand_in(position: int, value: array, names: Sequence[str], guards: Guards | None) -> array:
    shape: Any = value.shape if guards is None else symbolic_shape(position, value.shape, guards)
    made = placeholder(shape, value.dtype)
    made._node.source = names[position] if position < len(names) else None
    return made


def _point(
    handles: list[array], stand_ins: list[array], offset: int
) -> tuple[dict[int, Node], list[tuple[int, int]]]:
    """Points each handle at its placeholder; a handle that is there twice keeps the first, and is reported."""
    pointed: dict[int, Node] = {}
    first: dict[int, int] = {}
    aliases: list[tuple[int, int]] = []
    for position, (handle, made) in enumerate(zip(handles, stand_ins, strict=True), offset):
        if id(handle) in first:
            aliases.append((first[id(handle)], position))
            continue
        first[id(handle)] = position
        pointed[id(handle)] = made._node
        handle._node = made._node
    return pointed, aliases


def _refuse_uncaptured(outputs: list[array], inputs: list[array], names: Sequence[str]) -> None:
    """ValueError if the graph reaches an input not through its placeholder but by itself."""
    position_of = {value._node: position for position, value in enumerate(inputs)}
    for node in topological(outputs):
        position = position_of.get(node)
        if position is not None:
            name = names[position] if position < len(names) else f"input {position}"
            raise ValueError(
                f"[compile] {name} is passed to the function and also used inside it under another "
                "name, so it would be an input and a constant at once. Use the parameter inside the "
                "function, or capture the array with inputs=."
            )
