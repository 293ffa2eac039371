"""The emitter: collects the primitives of a trace, and emits a graph op by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, Node, array, placeholder, topological
from ingot.export.format import Constant, Entry, Primitive, Spec
from ingot.graph.dtype import int32
from ingot.graph.errors import operation_text
from ingot.graph.op import Op
from ingot.graph.outputs import Output
from ingot.graph.roles import View
from ingot.graph.shape import Shape

__all__ = ["Emit", "Emitter", "Value"]


class Value:
    """An array of the file: the number it has there, its shape and its dtype, and its elements if
    they are known, apart from repetitions.
    """

    __slots__ = ("dtype", "elements", "identity", "shape")

    def __init__(
        self, identity: int, shape: Shape, dtype: Dtype, elements: np.ndarray | None = None
    ) -> None:
        self.identity = identity
        self.shape = shape
        self.dtype = dtype
        self.elements = elements

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


# (emitter, op, *inputs) -> a value, or one for each output of the op
Emit = Callable[..., Any]


class Emitter:
    """The entries of a trace so far. `ops` says how each kind of op is emitted.

    The traces of a file are emitted by the same one, so that they share constants.
    """

    def __init__(self, ops: dict[type[Op], Emit]) -> None:
        self.ops = ops
        self.entries: list[Entry] = []
        self.last = 0
        self.constants: dict[Node, Value] = {}  # of all traces
        self.stored: dict[Node, Constant] = {}

    def begin(self) -> None:
        """Begin another trace."""
        self.entries = []

    def new(self, shape: Shape, dtype: Dtype) -> Value:
        """A value with a number of its own."""
        self.last += 1
        return Value(self.last, shape, dtype)

    def constant(self, value: np.ndarray, dtype: Dtype) -> Value:
        """An array that is stored in the file."""
        made = self.new(value.shape, dtype)
        made.elements = value
        self.entries.append(Constant(made.identity, value, dtype))
        return made

    def number(self, value: Any, dtype: Dtype) -> Value:
        """A number that is stored in the file."""
        return self.constant(np.array(value).astype(dtype.numpy), dtype)

    def several(
        self, name: str, inputs: Sequence[Value], state: Sequence[Any], outputs: Sequence[Spec]
    ) -> list[Value]:
        """The outputs of a primitive."""
        made = [self.new(spec.shape, spec.dtype) for spec in outputs]
        self.entries.append(
            Primitive(
                name,
                tuple(value.identity for value in inputs),
                tuple(state),
                tuple(value.identity for value in made),
                tuple(outputs),
            )
        )
        return made

    def primitive(
        self, name: str, inputs: Sequence[Value], state: Sequence[Any], shape: Shape, dtype: Dtype
    ) -> Value:
        """The output of a primitive that has one."""
        return self.several(name, inputs, state, [Spec(tuple(shape), dtype)])[0]

    # What several ops are emitted with

    def cast(self, x: Value, dtype: Dtype) -> Value:
        """An array in a dtype."""
        if x.dtype is dtype:
            return x
        return self.primitive("AsType", [x], [dtype], x.shape, dtype)

    def reshape(self, x: Value, shape: Shape) -> Value:
        """An array in a shape of as many elements."""
        if tuple(x.shape) == tuple(shape):
            return x
        return self.primitive("Reshape", [x], [tuple(shape)], shape, x.dtype)

    def broadcast(self, x: Value, shape: Shape) -> Value:
        """An array repeated to a shape."""
        if tuple(x.shape) == tuple(shape):
            return x
        made = self.primitive("Broadcast", [x], [tuple(shape)], shape, x.dtype)
        made.elements = x.elements
        return made

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """An array with its axes in another order."""
        if tuple(axes) == tuple(range(x.ndim)):
            return x
        shape = tuple(x.shape[axis] for axis in axes)
        return self.primitive("Transpose", [x], [tuple(axes)], shape, x.dtype)

    def filled(self, value: Any, like: Value) -> Value:
        """A number repeated to the shape of an array, in its dtype."""
        return self.broadcast(self.number(value, like.dtype), like.shape)

    def composed(self, function: Callable[..., Any], *inputs: Value) -> list[Value]:
        """What a function of arrays builds from values."""
        leaves = [placeholder(value.shape, value.dtype) for value in inputs]
        known = {leaf._node: value for leaf, value in zip(leaves, inputs, strict=True)}
        with _native.tracing:
            result = function(*leaves)
        return self.graph([result] if isinstance(result, array) else list(result), known)

    # Lengths, which are numbers here, and symbols where shapes may change

    def is_symbol(self, length: Any) -> bool:
        """Whether a length is a symbol."""
        return False

    def count(self, length: Any, dtype: Dtype) -> Value:
        """A length as an array."""
        return self.number(length, dtype)

    def iota(self, length: Any) -> Value:
        """0, 1, 2 ... up to a length."""
        return self.primitive("Arange", (), (0, length, 1), (length,), int32)

    def end(self, length: Any, position: Any) -> Any:
        """The stop of a slice, given the length of the axis."""
        return position

    def batch_of(self, x: Value) -> Value | None:
        """The stack of matrices whose rows `x` has, where that matters."""
        return None

    def varies(self, node: Node, values: dict[Node, Any]) -> bool:
        """Whether a node depends on an input. Those that do not are no keys of `values` yet."""
        return node.tracer

    def keep_batch(self, rows: Value, batched: Value) -> None:
        """Remember that an array has the elements of another with more axes."""

    # Graphs

    def graph(self, outputs: Sequence[array], known: dict[Node, Any]) -> list[Value]:
        """The values of arrays whose graphs begin at known nodes and constants."""
        values: dict[Node, Any] = dict(known)
        for node in topological(outputs):
            if node not in values and self.varies(node, values):
                values[node] = self._node(node, values)
        return [self._value(output._node, values) for output in outputs]

    def _value(self, node: Node, values: dict[Node, Any]) -> Any:
        """The value of a node: what depends on no input is stored, apart from views of it."""
        if node not in values:
            if node.evaluated or not isinstance(node.op, View):
                values[node] = self._constant(node)
            else:
                values[node] = self._node(node, values)
        return values[node]

    def _node(self, node: Node, values: dict[Node, Any]) -> Any:
        op = node.op
        if op is None or node.evaluated:
            return self._constant(node)
        inputs = [self._value(source, values) for source in node.inputs]
        if type(op) is Output:
            return inputs[0][op.index]
        if op.only_carries_rules:
            return [inputs[op.passed_input(number)] for number in range(len(node.shape))]
        emit = self._rule(type(op))
        if emit is None:
            raise ValueError(
                f"[export_function] MLX's files have no operation for {type(op).__name__}: "
                f"{operation_text(op, node.inputs, node.origin)}. Export the parts of the function "
                "before and after it."
            )
        return emit(self, op, *inputs)

    def _rule(self, kind: type[Op]) -> Emit | None:
        for base in kind.__mro__:
            if base in self.ops:
                return self.ops[base]
        return None

    def _constant(self, node: Node) -> Value:
        if node not in self.constants:
            if node.tracer and not node.evaluated:
                raise ValueError(
                    "[export_function] the function uses an array that another transform, which is "
                    "running, follows. Export it outside of that transform."
                )
            _native.evaluate([node])
            made = self.new(node.shape, node.dtype)
            made.elements = np.asarray(node.data)
            self.constants[node] = made
            self.stored[node] = Constant(made.identity, made.elements, node.dtype)
        self.entries.append(self.stored[node])
        return self.constants[node]
