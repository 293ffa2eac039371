"""An emitter whose shapes may change from call to call.

MLX's primitives then take lengths from other arrays: a broadcast to the shapes of its further
inputs, a count of elements, a reshape with one length left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot._native import Dtype, Node
from ingot.export.emitting.emitter import Emit, Emitter, Value
from ingot.export.emitting.symbols import Key, Symbols, value_of, values_of
from ingot.export.format import Spec
from ingot.graph.arrays.length import Length
from ingot.graph.dimension import Dimension
from ingot.graph.dtype import int32
from ingot.graph.op import Op
from ingot.graph.shape import Shape

__all__ = ["ShapelessEmitter"]

_SUM, _MAX = 2, 5  # of scans and of reductions
_END = 2**31 - 1
_NUMBERS = {"mul": "Multiply", "add": "Add", "sub": "Subtract", "floordiv": "FloorDivide"}


class ShapelessEmitter(Emitter):
    """Emits graphs whose shapes hold dimensions."""

    def __init__(self, ops: dict[type[Op], Emit]) -> None:
        super().__init__(ops)
        self.symbols: Symbols | None = None
        self.shapes: dict[tuple[Key, ...], Value] = {}  # an array of each shape
        self.axes: dict[Key, tuple[Value, int]] = {}  # an array with each length, and where
        self.batched: dict[int, Value] = {}  # by identity: the same elements with more axes

    def begin_with(self, symbols: Symbols) -> None:
        """Begin a trace with these lengths."""
        self.begin()
        self.symbols = symbols
        self.shapes, self.axes, self.batched = {}, {}, {}

    @property
    def lengths(self) -> Symbols:
        """The lengths of the trace."""
        assert self.symbols is not None, "a trace has begun"
        return self.symbols

    def new(self, shape: Shape, dtype: Dtype) -> Value:
        made = super().new(shape, dtype)
        keys = self.lengths.keys(shape)
        self.shapes.setdefault(keys, made)
        for axis, key in enumerate(keys):
            self.axes.setdefault(key, (made, axis))
        return made

    def several(
        self, name: str, inputs: Sequence[Value], state: Sequence[Any], outputs: Sequence[Spec]
    ) -> list[Value]:
        fixed = self.lengths.fixed(name, tuple(state))
        made = super().several(name, inputs, fixed, [_in_numbers(spec) for spec in outputs])
        # The entry has numbers, the values have symbols.
        found = [self.new(spec.shape, spec.dtype) for spec in outputs]
        for value, entered in zip(found, made, strict=True):
            value.identity = entered.identity
        return found

    def varies(self, node: Node, values: dict[Node, Any]) -> bool:
        if node.tracer or any(source in values for source in node.inputs):
            return True
        return isinstance(node.op, Length) or Dimension in map(type, node.shape)

    # Shapes

    def broadcast(self, x: Value, shape: Shape) -> Value:
        keys = self.lengths.keys(shape)
        old = self.lengths.keys(x.shape)
        if keys == old:
            return x
        if not any(self.lengths.changes(length) for length in shape):
            return super().broadcast(x, values_of(shape))
        padded = ((1, 1),) * (len(keys) - len(old)) + old
        missing = [axis for axis, key in enumerate(keys) if key != padded[axis]]
        whole = self.shapes.get(keys)
        others = [self._along(shape, missing)] if whole is None else [[whole]]
        inputs = [x, *others[0]]
        made = self.several("Broadcast", inputs, (values_of(shape),), [Spec(shape, x.dtype)])[0]
        made.elements = x.elements
        return made

    def _along(self, shape: Shape, missing: Sequence[int]) -> list[Value]:
        """Arrays that have the lengths of a shape along some axes, and 1 along the others."""
        still = [axis for axis in missing if not self.lengths.changes(shape[axis])]
        found = []
        if still:
            lengths = tuple(
                value_of(length) if axis in still else 1 for axis, length in enumerate(shape)
            )
            found.append(super().broadcast(self.number(0, int32), lengths))
        for axis in missing:
            if axis not in still:
                found.append(self._vector(shape[axis], len(shape) - 1 - axis))
        return found

    def _vector(self, length: Any, behind: int) -> Value:
        """An array with one length that may change, and `behind` axes of length 1 after it."""
        source, axis = self._source(length)
        others = tuple(number for number in range(source.ndim) if number != axis)
        if others:
            kept = tuple(n if number == axis else 1 for number, n in enumerate(source.shape))
            source = self.primitive("Reduce", [source], (_MAX, others), kept, source.dtype)
            source = self.primitive("Squeeze", [source], (others,), (length,), source.dtype)
        if behind:
            added = tuple(range(1, behind + 1))
            shape = (length, *(1 for _ in added))
            source = self.primitive("ExpandDims", [source], (added,), shape, source.dtype)
        return source

    def _source(self, length: Any) -> tuple[Value, int]:
        found = self.axes.get(self.lengths.key(length))
        if found is None:
            self.lengths.fixed("a broadcast", length)
            raise AssertionError("lengths that do not change need no source")
        return found

    def reshape(self, x: Value, shape: Shape) -> Value:
        keys, old = self.lengths.keys(shape), self.lengths.keys(x.shape)
        if keys == old:
            return x
        batched = self.batched.get(x.identity)
        if batched is not None and self.lengths.keys(batched.shape) == keys:
            return batched
        made = self._reshaped(x, shape)
        if len(shape) == 2 and x.ndim > 2 and keys[-1] == old[-1]:
            self.batched[made.identity] = x  # rows of a stack of matrices
        return made

    def _reshaped(self, x: Value, shape: Shape) -> Value:
        changing = [axis for axis, length in enumerate(shape) if self.lengths.changes(length)]
        if len(changing) <= 1:
            state = [-1 if axis in changing else value_of(n) for axis, n in enumerate(shape)]
            return self.several("Reshape", [x], (tuple(state),), [Spec(shape, x.dtype)])[0]
        return self._regrouped(x, shape)

    def _regrouped(self, x: Value, shape: Shape) -> Value:
        """Axis by axis: lengths that change stay as they are, or merge into one."""
        position = 0
        for length in shape:
            x = self._next_axis(x, position, length, shape)
            position += 1
        for axis in range(x.ndim - 1, position - 1, -1):
            x = self._squeezed(x, axis)
        return x

    def _next_axis(self, x: Value, axis: int, length: Any, shape: Shape) -> Value:
        """An array whose axis has this length, by adding, dropping, splitting or merging."""
        key = self.lengths.key(length)
        while True:
            found = self.lengths.key(x.shape[axis]) if axis < x.ndim else None
            if found == key:
                return x
            if key == (1, 1):
                made = (*x.shape[:axis], 1, *x.shape[axis:])
                return self.primitive("ExpandDims", [x], ((axis,),), made, x.dtype)
            if found == (1, 1):
                x = self._squeezed(x, axis)
                continue
            if found is None:
                raise self._impossible(x, shape)
            x = self._split_or_merged(x, axis, length, shape)

    def _split_or_merged(self, x: Value, axis: int, length: Any, shape: Shape) -> Value:
        whole, (value, other) = self.lengths.key(x.shape[axis]), self.lengths.key(length)
        is_still = value == other and whole[0] == whole[1]
        if is_still and value and whole[0] % value == 0:
            parts = (value, whole[0] // value)
            made = (*x.shape[:axis], *parts, *x.shape[axis + 1 :])
            return self.primitive("Unflatten", [x], (axis, parts), made, x.dtype)
        if axis + 1 >= x.ndim or other % max(whole[1], 1):
            raise self._impossible(x, shape)
        merged = x.shape[axis] * x.shape[axis + 1]
        made = (*x.shape[:axis], merged, *x.shape[axis + 2 :])
        return self.primitive("Flatten", [x], (axis, axis + 1), made, x.dtype)

    def _squeezed(self, x: Value, axis: int) -> Value:
        if self.lengths.key(x.shape[axis]) != (1, 1):
            raise self._impossible(x, x.shape)
        made = (*x.shape[:axis], *x.shape[axis + 1 :])
        return self.primitive("Squeeze", [x], ((axis,),), made, x.dtype)

    def _impossible(self, x: Value, shape: Shape) -> ValueError:
        return ValueError(
            "[export_function] with shapeless=True, MLX's files cannot express a reshape from "
            f"{values_of(x.shape)} to {values_of(shape)}, of which several lengths change: use "
            "flatten, unflatten, or export the function for each shape."
        )

    # Numbers

    def is_symbol(self, length: Any) -> bool:
        return type(length) is Dimension

    def count(self, length: Any, dtype: Dtype) -> Value:
        """A length as an array."""
        if not self.lengths.changes(length):
            return self.number(value_of(length), dtype)
        found = self.axes.get(self.lengths.key(length))
        if found is not None:
            source, axis = found
            state = ((axis,), False, dtype)
            return self.primitive("NumberOfElements", [source], state, (), dtype)
        if length.name not in _NUMBERS:
            self.lengths.fixed("a number", length)
        operands = [self.count(operand, dtype) for operand in length.operands]
        return self.primitive(_NUMBERS[length.name], operands, (), (), dtype)

    def iota(self, length: Any) -> Value:
        """0, 1, 2 ... up to a length that may change: sums of ones."""
        ones = self.broadcast(self.number(1, int32), (length,))
        sums = self.primitive("Scan", [ones], (_SUM, 0, False, False), (length,), int32)
        return sums

    def batch_of(self, x: Value) -> Value | None:
        """The stack of matrices whose rows `x` has, if it was made from one."""
        return self.batched.get(x.identity)

    def keep_batch(self, rows: Value, batched: Value) -> None:
        """Remember that an array has the elements of another with more axes."""
        self.batched[rows.identity] = batched

    def end(self, length: Any, position: Any) -> Any:
        """The stop of a slice, given the length of the axis: from the end if it changes."""
        if type(position) is not Dimension or not self.lengths.changes(position):
            return position
        value, other = self.lengths.key(length)
        before, other_before = self.lengths.key(position)
        if value - before != other - other_before:
            return position  # which cannot be written, and raises
        return before - value or _END


def _in_numbers(spec: Spec) -> Spec:
    return Spec(values_of(spec.shape), spec.dtype)
