"""Tracing: runs a function once on placeholders, and records what it did as a tape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, Node, array, placeholder, topological, wrap
from ingot.compiler.forms.tape import Step, Tape, tape_of
from ingot.compiler.trace.attributes import AttributeGuards, AttributeReads
from ingot.compiler.trace.call import Call
from ingot.compiler.trace.capture import Recipe, Snapshot, is_plain
from ingot.compiler.trace.captures import Captures, constants_of
from ingot.compiler.trace.structure import STRUCTURAL, Contents, children, copied, kind
from ingot.compiler.trace.template import Template
from ingot.compiler.trace.variables import Variables
from ingot.graph.dimension import Guards, holds_dimensions, resolve, symbolic_shape
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import parameters
from ingot.graph.reporting.source import SourceRecorder
from ingot.graph.state import State, followed_states
from ingot.graph.tree import arrays_in, tree_leaves
from ingot.runtime.compile_mode import checks_captures
from ingot.runtime.uninterrupted import uninterrupted
from ingot.runtime.watched import observed_attributes

__all__ = ["SIZES_CHANGED", "Axes", "Trace", "sharing", "tape_for_values", "trace"]

SIZES_CHANGED = "the function depends on sizes that changed: "  # prefix of such reasons


Axes = frozenset[tuple[int, int]]  # pairs of an input and an axis of it
Layout = tuple[tuple[Any, Dtype], ...]  # shapes and dtypes


class _States:
    """The implicit states that a function reads during tracing, and their placeholders."""

    def __init__(self, snapshot: Snapshot, recorder: SourceRecorder) -> None:
        self.snapshot = snapshot
        self.recorder = recorder
        self.found: dict[int, tuple[State, State, str]] = {}
        self.nodes: dict[
            int, list[Node]
        ] = {}  # of the placeholders, whose handles the function may reassign

    def __call__(self, state: State, name: str) -> State:
        """The placeholders of a state; captured states are traced as containers."""
        if self.snapshot.holds(state, 0):
            return state
        if id(state) not in self.found:
            placeholders = [
                _placeholder(x.shape, x.dtype, name, self.recorder) for x in tuple(state)
            ]
            self.found[id(state)] = state, placeholders, name
            self.nodes[id(state)] = [x._node for x in placeholders]
        return self.found[id(state)][1]

    def elements(self) -> Iterator[tuple[State, int, Node, array, str]]:
        """Each element of each state: its placeholder, and what it holds after the trace."""
        for state, placeholders, name in self.found.values():
            for index, node in enumerate(self.nodes[id(state)]):
                yield state, index, node, placeholders[index], name

    def layouts(self) -> list[tuple[State, Layout]]:
        """The states as they were when they were first read."""
        return [
            (state, tuple((node.shape, node.dtype) for node in self.nodes[id(state)]))
            for state, _, _ in self.found.values()
        ]


@dataclass
class Trace:
    """A traced function: its tape, how to build its result, and what it does to captured state."""

    tape: Tape  # inputs: arrays in arguments and captured inputs, then elements of implicit states
    result: Template | None  # None if the recipe builds it
    result_count: int  # the number of outputs that belong to the result; the others are state
    recipe: Recipe | None  # changes to containers and objects, or None
    states: list[tuple[State, Layout]]  # the implicit states that the function reads
    followed: list[tuple[State, int]]  # the elements of states that are inputs
    updates: list[tuple[State, int, int]]  # which elements of states get which outputs
    guards: Guards
    attributes: AttributeGuards  # guards on what the function read of objects
    sharing: tuple[int, ...] | None  # which arrays have to be the same, if that matters
    returned: frozenset[int]  # the ids of the containers in the result
    captures: Captures | None = None  # checked by calls if INGOT_CHECK_CAPTURES is set

    @property
    def is_pure(self) -> bool:
        """Whether calls have no effects besides their results."""
        return self.recipe is None and not self.states

    def fits(self, arrays: list[array], objects: list[Any]) -> bool:
        """Whether attributes, implicit states and shared arrays match the trace."""
        if self.sharing is not None and self.sharing != sharing(arrays):
            return False
        return self.attributes.hold(objects) and self.fits_states()

    def problem(self, arrays: list[array], objects: list[Any]) -> str | None:
        """Why the trace does not fit, as text; None if it does."""
        if self.sharing is not None and self.sharing != sharing(arrays):
            return "arrays among the arguments are shared in another way"
        if not self.fits_states():
            return f"{SIZES_CHANGED}those of a state that it reads"
        return self.attributes.broken(objects) or None

    @property
    def depends_on_sharing(self) -> bool:
        """Whether arrays that were distinct in the trace are the same, and the function changes
        some.
        """
        return self.sharing is not None and self.sharing != tuple(range(len(self.sharing)))

    def fits_states(self) -> bool:
        """Whether the implicit states still have the traced shapes and dtypes."""
        for state, layout in self.states:
            if len(state) != len(layout):
                return False
            for x, (shape, dtype) in zip(state, layout, strict=False):
                if x.shape != shape or x.dtype is not dtype:
                    return False
        return True

    def states_for_calls(self) -> tuple[Any, ...] | None:
        """The states in the format of the native fast path; None if there are none."""
        if not self.states:
            return None
        return tuple(self.states), tuple(self.followed), tuple(self.updates), self.result_count

    def for_values(self, values: Sequence[Any]) -> Tape:
        """The tape with every dimension replaced by its value in `values`."""
        return tape_for_values(self.tape, values)


def tape_for_values(tape: Tape, values: Sequence[Any]) -> Tape:
    """A tape with every dimension replaced by its value in `values`."""
    made: dict[Step, Step] = {}
    for step in tape.steps:
        op: Any = step.op
        value = step.value
        if op is not None and any(map(holds_dimensions, parameters(op).values())):
            op = _resolved(op, values)
            if not step.inputs and step.shape == ():
                op, value = None, op.evaluate()  # a length, which is a number now
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
        [made[step] for step in tape.inputs],
        [made[step] for step in tape.outputs],
        list(made.values()),
        {made[step]: name for step, name in tape.names.items()},
    )


def _resolved(op: Any, values: Sequence[Any]) -> Any:
    return replace(op, **{name: resolve(old, values) for name, old in parameters(op).items()})


def trace(
    call: Call,
    contents: Contents,
    axes: Axes,
    shared: bool = False,
    recorder: SourceRecorder | None = None,
) -> Trace | None:
    """Runs a function on placeholders for the arrays in its arguments and captured inputs.

    None if it closes over an array that belongs to an enclosing transform, which has to trace the
    function itself.

    Args:
        call: The function and its arguments, without NumPy's arrays.
        contents: What is in them.
        axes: The axes of inputs whose lengths stay symbolic. If there are any, the other lengths
            are guarded; if there is none, the trace is for the shapes that the inputs have.
        shared: Whether an array that occurs several times gets one placeholder. Functions that
            change arguments need that; the trace then serves only calls that share arrays likewise.
        recorder: What placeholders and new nodes refer to.
    """
    _refuse_numpy(call.inputs)
    with uninterrupted() as ctrl_c:  # placeholders are in the user's objects during the trace
        tracer = _Tracer(call, contents, axes, shared, recorder or SourceRecorder())
        tracer.run(ctrl_c)
        return tracer.finished()


class _Tracer:
    """One trace: the placeholders that a function is called with, and what it did to them."""

    def __init__(
        self, call: Call, contents: Contents, axes: Axes, shared: bool, recorder: SourceRecorder
    ) -> None:
        self.call, self.recorder = call, recorder
        self.contents = contents
        self.names = [str(name) for name, _, _ in contents.arrays]
        self.values = [value for _, value, _ in contents.arrays]
        self.guards = Guards(self.names)
        shapes = _shapes(self.values, axes, self.guards)
        inputs = [
            _placeholder(shape, value.dtype, name, recorder)
            for shape, value, name in zip(shapes, self.values, self.names, strict=True)
        ]
        self.input_nodes = [x._node for x in inputs]  # the function may reassign the handles
        self.inside = {
            id(handle): (handle, node)
            for (_, handle, is_inside), node in zip(contents.arrays, self.input_nodes, strict=True)
            if is_inside
        }
        self.args, self.kwargs = _with_placeholders(call, contents, inputs, shared)
        # 0: the captured inputs, which `_States` leaves alone
        self.snapshot = Snapshot([*call.roots[:3], self.args, self.kwargs], values=(3, 4))
        self.states = _States(self.snapshot, recorder)
        self.reads = AttributeReads(contents.objects)
        self.variables = Variables(self.reads, contents.kept.values())

    def run(self, ctrl_c: uninterrupted) -> None:
        """Calls the function, records its results and its changes, and restores what it changed."""
        recorder_before = _native.set_source_recorder(self.recorder)
        try:
            for handle, node in self.inside.values():
                handle._node = node
            result = self._called(ctrl_c)
            self.result = result  # alive until `finished` has counted references
            self.returned = frozenset(_holders(result, set()))
            plain = is_plain(result, self.snapshot)
            # The handles themselves are about to be restored.
            self.outputs = [wrap(x) for x in arrays_in(result)] if plain else []
            self.result_count = len(self.outputs)
            self.template = Template.of(result) if plain else None
            placeholders = {identity: node for identity, (_, node) in self.inside.items()}
            self.recipe = Recipe(
                self.snapshot, placeholders, self.outputs, None if plain else result
            )
        finally:
            _native.set_source_recorder(recorder_before)
            self.snapshot.restore()
            self.guards.close()

    def _called(self, ctrl_c: uninterrupted) -> Any:
        """What the function returns."""
        reads, objects = self.reads, self.contents.objects
        with _native.tracing, followed_states(self.states), observed_attributes(reads) as watch:
            reads.watch = watch
            reads.watch_classes(objects)
            self.variables.follow([self.call.function, *(type(item) for _, item in objects)])
            return ctrl_c.let_through(self.call.function, *self.args, **self.kwargs)

    def finished(self) -> Trace | None:
        """The trace; None if the function closes over arrays of a transform that is running."""
        updates: list[tuple[State, int, int]] = []
        for state, index, node, updated, _ in self.states.elements():
            if updated._node is not node:
                updates.append((state, index, len(self.outputs)))
                self.outputs.append(updated)
        nodes = topological(self.outputs)
        if _native.in_tracing() and _reaches_outside(nodes):
            return None
        constants = constants_of(nodes, self.outputs, self.recorder)
        _refuse_uncaptured(constants, self.values, self.names)
        states = list(self.states.elements())
        used = set(nodes) if states else set()
        followed = [found for found in states if found[2] in used]
        tape = tape_of(
            [*self.input_nodes, *(node for _, _, node, _, _ in followed)],
            self.outputs,
            nodes,
            [*self.names, *(name for *_, name in followed)],
        )
        changes = bool(self.recipe.changes)
        return Trace(
            tape,
            self.template,
            self.result_count,
            self.recipe if changes or self.template is None else None,
            self.states.layouts(),
            [(state, index) for state, index, *_ in followed],
            updates,
            self.guards,
            self.reads.guards().and_also(self.variables.guards()),
            sharing(self.values) if changes else None,
            self.returned,
            Captures(self.call.function, constants) if checks_captures() else None,
        )


def _holders(tree: Any, found: set[int]) -> set[int]:
    """The ids of the containers and objects of a tree."""
    if id(tree) not in found and kind(tree) in STRUCTURAL and not isinstance(tree, array):
        found.add(id(tree))
        for _, child in children(tree):
            _holders(child, found)
    return found


def sharing(arrays: Sequence[array]) -> tuple[int, ...]:
    """Which arrays are the same: for each the position of its first occurrence."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(value), position) for position, value in enumerate(arrays))


def _with_placeholders(
    call: Call, contents: Contents, placeholders: list[array], shared: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with placeholders for arrays; objects and their contents stay."""
    inside = {id(handle): handle for _, handle, is_inside in contents.arrays if is_inside}
    outside = iter(
        x
        for x, (_, handle, _) in zip(placeholders, contents.arrays, strict=True)
        if id(handle) not in inside
    )
    known: dict[int, array] = {}

    def placed(leaf: Any) -> Any:
        # An argument that is also in an object stays the same array, so that updates are visible in
        # both.
        if id(leaf) in inside:
            return inside[id(leaf)]
        found = next(outside)
        return known.setdefault(id(leaf), found) if shared else found

    args, kwargs = copied((call.args, call.kwargs), placed, dict(contents.kept))
    return args, kwargs


def _refuse_numpy(captured: Any) -> None:
    for leaf in tree_leaves(captured):
        if isinstance(leaf, np.ndarray):
            raise ValueError(
                f"[compile] inputs= holds a NumPy array of shape {leaf.shape}, whose changes would "
                "go unnoticed: make an array of it with mx.array(...)."
            )


def _shapes(values: list[array], axes: Axes, guards: Guards) -> list[Any]:
    """The shapes of the inputs with dimensions for these axes, and guards for the others."""
    if not axes:
        return [value.shape for value in values]
    return [
        tuple(
            dimension if (position, axis) in axes else dimension.plain()
            for axis, dimension in enumerate(symbolic_shape(position, value.shape, guards))
        )
        for position, value in enumerate(values)
    ]


def _placeholder(shape: Any, dtype: Dtype, name: str, recorder: SourceRecorder) -> array:
    made = placeholder(shape, dtype)
    made._node.source = name
    made._node.trace = recorder
    return made


def _reaches_outside(nodes: list[Node]) -> bool:
    """Whether some node belongs to an enclosing transform: traced, but not created here."""
    return any(node.tracer and node.source is None for node in nodes)


def _refuse_uncaptured(constants: set[Node], inputs: list[array], names: Sequence[str]) -> None:
    """ValueError if the function used an input directly instead of its placeholder."""
    for position, value in enumerate(inputs):
        if value._node in constants:
            raise ValueError(
                f"[compile] {names[position]} is passed to the function and also used inside it "
                "under another name, so it would be an input and a constant at once. Use the "
                "parameter inside the function, or capture the array with inputs=."
            )
