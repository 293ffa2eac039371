"""Trace: a function run once on placeholders, and what it did, as a tape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, Node, array, placeholder, topological
from ingot.compiler.capture import Recipe, Snapshot
from ingot.compiler.captures import Captures, constants_of
from ingot.compiler.tape import Step, Tape, parameters, tape_of
from ingot.compiler.template import Template
from ingot.graph.dimension import Dimension, Guards, resolve, symbolic_shape
from ingot.graph.source import SourceRecorder
from ingot.graph.state import State, followed_states
from ingot.graph.tree import arrays_in, tree_leaves, tree_map
from ingot.runtime.compile_mode import checks_captures

__all__ = ["Trace", "trace", "with_arrays"]


Layout = tuple[tuple[Any, Dtype], ...]  # shapes and dtypes


class _States:
    """The implicit states that a function reads while it is traced, and what stands for them."""

    def __init__(self, snapshot: Snapshot, recorder: SourceRecorder) -> None:
        self.snapshot = snapshot
        self.recorder = recorder
        self.found: dict[int, tuple[State, State, str]] = {}
        self.nodes: dict[int, list[Node]] = {}  # of the stand-ins, which may be re-pointed

    def __call__(self, state: State, name: str) -> State:
        """What stands for a state; a captured one is followed as such."""
        if self.snapshot.holds(state, 0):
            return state
        if id(state) not in self.found:
            stand_ins = [_placeholder(x.shape, x.dtype, name, self.recorder) for x in tuple(state)]
            self.found[id(state)] = state, stand_ins, name
            self.nodes[id(state)] = [x._node for x in stand_ins]
        return self.found[id(state)][1]

    def places(self) -> Iterator[tuple[State, int, Node, array, str]]:
        """Each place of each state: its placeholder, and what it holds after the trace."""
        for state, stand_ins, name in self.found.values():
            for place, node in enumerate(self.nodes[id(state)]):
                yield state, place, node, stand_ins[place], name

    def layouts(self) -> list[tuple[State, Layout]]:
        """The states as they were when they were first read."""
        return [
            (state, tuple((node.shape, node.dtype) for node in self.nodes[id(state)]))
            for state, _, _ in self.found.values()
        ]


@dataclass
class Trace:
    """A traced function: its tape, how to build its result, and what it does to captured state."""

    tape: Tape  # inputs: arrays in arguments and captured inputs, then places of implicit states
    result: Template
    result_count: int  # how many outputs of the tape belong to the result; the others are for state
    recipe: Recipe | None  # what happens to captured containers; None: nothing
    states: list[tuple[State, Layout]]  # the implicit states that the function reads
    followed: list[tuple[State, int]]  # the places of them that are inputs
    updates: list[tuple[State, int, int]]  # which places of them get which outputs
    guards: Guards
    returned: frozenset[int]  # the identities of the containers in what the function returned
    captures: Captures | None = None  # what calls check while INGOT_CHECK_CAPTURES is set

    @property
    def is_pure(self) -> bool:
        """Whether calls touch nothing but their arguments and results."""
        return self.recipe is None and not self.states

    def fits_states(self) -> bool:
        """Whether the implicit states still have the shapes and dtypes that were traced."""
        for state, layout in self.states:
            if len(state) != len(layout):
                return False
            for x, (shape, dtype) in zip(state, layout, strict=False):
                if x.shape != shape or x.dtype is not dtype:
                    return False
        return True

    def for_values(self, values: Sequence[Any]) -> Tape:
        """The tape with every dimension replaced by its number among `values`."""
        made: dict[Step, Step] = {}
        for step in self.tape.steps:
            op: Any = step.op
            value = step.value
            if op is not None and _is_symbolic(op):
                op = _resolved(op, values)
                if not step.inputs and step.shape == ():
                    op, value = None, op.evaluate()  # a length: it is a number now
            made[step] = Step(
                op,
                [made[source] for source in step.inputs],
                resolve(step.shape, values),
                step.dtype,
                step.stream,
                step.source,
                value,
            )
        return Tape(
            [made[step] for step in self.tape.inputs],
            [made[step] for step in self.tape.outputs],
            list(made.values()),
            {made[step]: name for step, name in self.tape.names.items()},
        )


def _is_symbolic(op: Any) -> bool:
    return any(map(_holds_dimension, parameters(op).values()))


def _resolved(op: Any, values: Sequence[Any]) -> Any:
    return replace(op, **{name: resolve(old, values) for name, old in parameters(op).items()})


def _holds_dimension(value: Any) -> bool:
    if type(value) is tuple:
        return any(map(_holds_dimension, value))
    return type(value) is Dimension


def with_arrays(tree: Any) -> Any:
    """The tree with NumPy's arrays replaced by ours: they are inputs as well."""
    if not any(isinstance(leaf, np.ndarray) for leaf in tree_leaves(tree)):
        return tree
    return tree_map(lambda leaf: array(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    captured_inputs: Any,
    captured_outputs: Any,
    names: Sequence[str],
    shapeless: bool,
    recorder: SourceRecorder | None = None,
) -> Trace | None:
    """Runs `function` on placeholders for the arrays in its arguments and captured inputs.

    None if it closes over something that another transform, which is running, follows: only the
    transform can see through it. Placeholders and the nodes that are made hold `recorder`.
    """
    recorder = recorder or SourceRecorder()
    guards = Guards(names)
    arguments = arrays_in((args, kwargs))
    captured = _captured_arrays(captured_inputs)
    snapshot = Snapshot([captured_inputs, captured_outputs])  # 0: the inputs, see below
    stand_ins = [
        _stand_in(position, value, names[position], guards if shapeless else None, recorder)
        for position, value in enumerate([*arguments, *captured])
    ]
    input_nodes = [x._node for x in stand_ins]  # the function may re-point the handles
    states = _States(snapshot, recorder)
    handle_of = {id(handle): handle for handle in captured}
    replacements = iter(stand_ins)

    def placed(leaf: Any) -> Any:
        if not isinstance(leaf, array):
            return leaf
        # An argument that is captured as well stays the captured handle: updates show in both.
        return handle_of.get(id(leaf), next(replacements))

    args, kwargs = tree_map(placed, (args, kwargs))
    _native.begin_tracing()
    recorder_before = _native.set_source_recorder(recorder)
    try:
        pointed = _point(captured, input_nodes[len(arguments) :])
        with followed_states(states):
            result = function(*args, **kwargs)
        outputs = arrays_in(result)
        returned = frozenset(map(id, _containers(result)))
        result_count = len(outputs)
        template = Template.of(result)
        recipe = Recipe(snapshot, pointed, outputs)
    finally:
        _native.set_source_recorder(recorder_before)
        snapshot.restore()
        _native.end_tracing()
        guards.close()
    updates: list[tuple[State, int, int]] = []
    for state, place, node, updated, _ in states.places():
        if updated._node is not node:
            updates.append((state, place, len(outputs)))
            outputs.append(updated)
    nodes = topological(outputs)
    if _native.in_tracing() and _reaches_outside(nodes):
        return None
    constants = constants_of(nodes, outputs, recorder)
    _refuse_uncaptured(constants, [*arguments, *captured], names)
    used = set(nodes)
    followed = [found for found in states.places() if found[2] in used]
    tape = tape_of(
        [*input_nodes, *(node for _, _, node, _, _ in followed)],
        outputs,
        [*names, *(name for *_, name in followed)],
    )
    return Trace(
        tape,
        template,
        result_count,
        recipe if recipe.changes else None,
        states.layouts(),
        [(state, place) for state, place, *_ in followed],
        updates,
        guards,
        returned,
        Captures(function, constants) if checks_captures() else None,
    )


def _containers(tree: Any) -> Iterator[Any]:
    """The lists, tuples and dicts of a tree."""
    if isinstance(tree, (list, tuple, dict)):
        yield tree
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _containers(item)


def _captured_arrays(captured: Any) -> list[array]:
    for leaf in tree_leaves(captured):
        if isinstance(leaf, np.ndarray):
            raise ValueError(
                f"[compile] inputs= holds a NumPy array of shape {leaf.shape}, whose changes would "
                "go unnoticed: make an array of it with mx.array(...)."
            )
    return arrays_in(captured)


def _stand_in(
    position: int, value: array, name: str, guards: Guards | None, recorder: SourceRecorder
) -> array:
    shape: Any = value.shape if guards is None else symbolic_shape(position, value.shape, guards)
    return _placeholder(shape, value.dtype, name, recorder)


def _placeholder(shape: Any, dtype: Dtype, name: str, recorder: SourceRecorder) -> array:
    made = placeholder(shape, dtype)
    made._node.source = name
    made._node.trace = recorder
    return made


def _point(handles: list[array], nodes: list[Node]) -> dict[int, Node]:
    """Points each handle at its placeholder; one that is there twice keeps the first."""
    pointed: dict[int, Node] = {}
    for handle, node in zip(handles, nodes, strict=True):
        if id(handle) not in pointed:
            pointed[id(handle)] = node
            handle._node = node
    return pointed


def _reaches_outside(nodes: list[Node]) -> bool:
    """Whether some node belongs to a transform around this trace: followed, but not made here."""
    return any(node.tracer and node.source is None for node in nodes)


def _refuse_uncaptured(constants: set[Node], inputs: list[array], names: Sequence[str]) -> None:
    """ValueError if the function used an input not through its placeholder but by itself."""
    for position, value in enumerate(inputs):
        if value._node in constants:
            raise ValueError(
                f"[compile] {names[position]} is passed to the function and also used inside it "
                "under another name, so it would be an input and a constant at once. Use the "
                "parameter inside the function, or capture the array with inputs=."
            )
