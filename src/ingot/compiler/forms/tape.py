"""The tape: a traced function as a list of steps in topological order; its printer and verifier.

A `Step` mirrors a graph node but holds no arrays, so that a tape can be stored, rewritten and
printed. Each pass over tapes builds a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, Node, array, placeholder
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op, parameters
from ingot.graph.outputs import Output
from ingot.graph.reporting.source import Source
from ingot.graph.roles import Composite

__all__ = [
    "LengthStep",
    "Step",
    "Tape",
    "add_steps",
    "only_carries_rules",
    "passed_input",
    "program_lines",
    "tape_of",
]

_INDENT = "    "


class Step:
    """One value of a tape: an input, a constant (it has a `value`), or an op over earlier steps."""

    __slots__ = ("dtype", "expanded_from", "inputs", "op", "shape", "source", "stream", "value")

    def __init__(
        self,
        op: Op | None,
        inputs: Sequence[Step],
        shape: Any,
        dtype: Any,
        stream: Any = None,
        source: Source | int | None = None,
        value: np.ndarray | None = None,
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.shape = shape
        self.dtype = dtype
        self.stream = stream
        # the user's line; in untraced graphs, the position of the node
        self.source = source
        self.value = value
        self.expanded_from: Step | None = None  # the step of the user's program that it replaces

    @property
    def is_constant(self) -> bool:
        """Whether the value is known before any call."""
        return self.value is not None

    @property
    def is_input(self) -> bool:
        """Whether the value is an argument of the call."""
        return self.op is None and self.value is None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the value in bytes; the total for an op with several outputs."""
        if isinstance(self.dtype, Dtype):
            return _bytes(self.shape, self.dtype)
        return sum(map(_bytes, self.shape, self.dtype))

    def with_inputs(self, inputs: Sequence[Step]) -> Step:
        """The same step with other inputs; itself if they are the same."""
        inputs = tuple(inputs)
        if inputs == self.inputs:  # steps are equal to themselves only
            return self
        made = Step(self.op, inputs, self.shape, self.dtype, self.stream, self.source, self.value)
        made.expanded_from = self.expanded_from
        return made


class LengthStep(Step):
    """A length as an array, computed for each shape. `number` is that of the trace's dimension."""

    __slots__ = ("number",)

    def __init__(self, number: int, dtype: Dtype, stream: Any, source: Source | int | None) -> None:
        super().__init__(None, (), (), dtype, stream, source)
        self.number = number


def _bytes(shape: Iterable[int], dtype: Dtype) -> int:
    size = dtype.size
    for length in shape:
        size *= length
    return size


@dataclass
class Tape:
    """Inputs, outputs, and all steps in an order in which each follows its inputs. A tape does not
    change once it is made.
    """

    inputs: list[Step]
    outputs: list[Step]
    steps: list[Step]
    names: dict[Step, str] = field(default_factory=dict)  # names of the inputs in the user's terms

    @cached_property
    def users(self) -> dict[Step, list[Step]]:
        """For each step, its users in order; twice if they use it twice."""
        found: dict[Step, list[Step]] = {step: [] for step in self.steps}
        for step in self.steps:
            for source in step.inputs:
                found[source].append(step)
        return found

    @cached_property
    def kinds(self) -> set[Any]:
        """The classes of the ops on the tape."""
        return {type(step.op) for step in self.steps if step.op is not None}

    def numbers(self) -> dict[Step, int]:
        """The number of each step in texts: its position."""
        return {step: position for position, step in enumerate(self.steps)}

    def with_steps(self, steps: Sequence[Step], outputs: list[Step]) -> Tape:
        """A tape of other steps and outputs, without the steps that no output depends on."""
        needed = {*outputs, *self.inputs}
        for step in reversed(steps):
            if step in needed:
                needed.update(step.inputs)
        return Tape(self.inputs, outputs, [step for step in steps if step in needed], self.names)

    def verify(self) -> None:
        """AssertionError unless the order, the inputs, the shapes and the dtypes are consistent."""
        seen: set[Step] = set()
        for step in self.steps:
            assert step not in seen, f"{step.op} stands on the tape twice"
            for source in step.inputs:
                assert source in seen, f"{step.op} precedes its input {source.op}"
            if step.op is not None and not step.op.several_outputs:
                inferred = step.op.infer(*step.inputs)
                assert inferred == (step.shape, step.dtype), (
                    f"{step.op} has {(step.shape, step.dtype)} but infers {inferred}"
                )
            seen.add(step)
        for step in (*self.inputs, *self.outputs):
            assert step in seen, "an input or output is not on the tape"

    def text(self) -> str:
        """One line for each step."""
        numbers = self.numbers()
        lines = []
        for step in self.steps:
            lines.append(self.line(step, numbers))
            lines += program_lines(step.op, lambda program: program.traced.text())
        lines.append("return " + ", ".join(f"%{numbers[step]}" for step in self.outputs))
        return "\n".join(lines)

    def line(self, step: Step, numbers: dict[Step, int]) -> str:
        """A step as text: `%2 = Add(%0, %1) : float32[3]`."""
        if step.is_constant:
            what = f"constant {_value_text(step.value)}"
        elif isinstance(step, LengthStep):
            what = f"length {step.number}"
        elif step.op is None:
            what = f"input {self.names.get(step, '')}".rstrip()
        else:
            what = _op_text(step.op, [f"%{numbers[source]}" for source in step.inputs])
        return f"%{numbers[step]} = {what} : {_type_text(step)}"


def program_lines(op: Op | None, text: Callable[[Any], str]) -> list[str]:
    """The programs that an op runs as `text` has them, indented below the line of the op."""
    lines: list[str] = []
    for title, program in () if op is None else op.programs():
        lines.append(f"{_INDENT}{title}:")
        lines += [_INDENT + _INDENT + line for line in text(program).splitlines()]
    return lines


def _type_text(step: Step) -> str:
    if isinstance(step.dtype, Dtype):
        return f"{step.dtype.name}{list(step.shape)}"
    return ", ".join(
        f"{dtype.name}{list(shape)}" for shape, dtype in zip(step.shape, step.dtype, strict=True)
    )


def _value_text(value: Any) -> str:
    if value.ndim == 0:
        return str(value[()])
    return f"of {value.size} elements"


def _op_text(op: Op, inputs: list[str]) -> str:
    named = [f"{name}={_parameter_text(value)}" for name, value in parameters(op).items()]
    return f"{type(op).__name__}({', '.join([*inputs, *named])})"


def _parameter_text(value: Any) -> str:
    return value.name if isinstance(value, Dtype) else repr(value)


def tape_of(
    inputs: Sequence[Node],
    outputs: Sequence[array],
    nodes: Sequence[Node],
    names: Sequence[str] = (),
) -> Tape:
    """The tape of the graph between placeholders and outputs; `nodes` are all that the outputs
    depend on, in topological order.

    Arrays that the function closed over, made before the trace, become constants: they are
    evaluated now. Ops that only carry rules for transforms, which are done by now, are left out.
    """
    made: dict[Node, Step] = {}
    tape_inputs = []
    for node in inputs:
        step = made[node] = Step(None, (), node.shape, node.dtype)
        tape_inputs.append(step)
    steps = list(tape_inputs)
    for node in _between(inputs, outputs, nodes):
        op: Any = node.op
        if op is None or node.source is None or node.evaluated:  # `_is_constant`, without a call
            step = Step(None, (), node.shape, node.dtype, value=node.data)
        elif op.several_outputs and only_carries_rules(node):
            continue
        elif type(op) is Output and (passed := passed_input(node)) is not None:
            made[node] = made[passed]
            continue
        else:
            sources = tuple(map(made.__getitem__, node.inputs))
            step = Step(op, sources, node.shape, node.dtype, node.stream, node.source)
        made[node] = step
        steps.append(step)
    return Tape(
        tape_inputs,
        [made[output._node] for output in outputs],
        steps,
        dict(zip(tape_inputs, names, strict=False)),
    )


def add_steps(
    made: dict[Node, Step], nodes: Sequence[Node], step_of: Callable[[int, Node], Step]
) -> None:
    """Adds the steps of nodes in topological order; `step_of` gets the position of a node. Custom
    functions have none: their outputs are the steps that they pass through.
    """
    for position, node in enumerate(nodes):
        passed = passed_input(node)
        if passed is not None:
            made[node] = made[passed]
        elif not only_carries_rules(node):
            made[node] = step_of(position, node)


def add_graph(made: dict[Node, Step], result: array, source: Any = None) -> None:
    """Adds the steps of the nodes behind a result that have none; values without an op are
    constants.
    """
    for node in _native.topological([result]):
        if node in made:
            continue
        if node.op is None:
            made[node] = Step(None, (), node.shape, node.dtype, value=node.data)
        else:
            sources = [made[each] for each in node.inputs]
            made[node] = Step(node.op, sources, node.shape, node.dtype, node.stream, source)


def composed_step(made: dict[Node, Step], op: Composite, sources: Sequence[Step], at: int) -> Step:
    """The result of a composition as the steps that it is composed of, which are added; `at` is the
    position of its node.
    """
    inputs = [placeholder(step.shape, step.dtype) for step in sources]
    with _native.tracing:
        result = op.compose(*inputs)
    made.update(zip([x._node for x in inputs], sources, strict=True))
    add_graph(made, result, at)  # compositions may share constants
    return made[result._node]


def only_carries_rules(node: Node) -> bool:
    """Whether the node is a custom function, which passes inputs through."""
    return node.op is not None and node.op.only_carries_rules


def passed_input(node: Node) -> Node | None:
    """The node that an output of a custom function stands for."""
    if type(node.op) is not Output or not only_carries_rules(node.inputs[0]):
        return None
    whole = node.inputs[0]
    found: Node = whole.inputs[whole.op.passed_input(node.op.index)]
    return found


def _is_constant(node: Node) -> bool:
    return node.op is None or node.evaluated or node.source is None


def _between(inputs: Sequence[Node], outputs: Sequence[array], nodes: Sequence[Node]) -> list[Node]:
    """The nodes that outputs depend on, in topological order, up to the inputs and constants."""
    ends = set(inputs)
    leaves = [node for node in nodes if node.op is None or node.source is None or node.evaluated]
    if not any(node.inputs for node in leaves):
        return [node for node in nodes if node not in ends]
    needed = {output._node for output in outputs}
    for node in reversed(nodes):
        if node in needed and node not in ends and not _is_constant(node):
            needed.update(node.inputs)
    return [node for node in nodes if node in needed and node not in ends]
