"""Single-op programs: ops with loop nests of their own use them without `compile` too, as do maps
and reductions that are evaluated often.

Input: an op whose role says so, and its NumPy inputs. Output: a program of that op alone, with the
same bits as in any larger program. Lengths that vary become symbols, because making a program takes
as long as running some: those of compositions, of maps and reductions, and the rows of quantised
products from the start, those of other products with matrices once a few have come.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from types import NotImplementedType
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, NativeProgram, Node, SmallProduct, array, placeholder
from ingot.compiler.call.cache_info import Account
from ingot.compiler.forms.tape import Step, Tape, add_graph
from ingot.compiler.programs import program_of
from ingot.graph.deferred import Deferred
from ingot.graph.dimension import Guards, symbolic_shape
from ingot.graph.dtype import from_numpy
from ingot.graph.op import Op, apply
from ingot.graph.roles import OF_BLAS, Composite, Map, Product, QuantizedProduct, Tiled
from ingot.graph.shape import contiguous
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import numerics_key, product_engine
from ingot.tuning import (
    MAX_PRODUCT_EXAMPLES,
    MAX_PROGRAMS_ALONE,
    MAX_SYMBOLIC_PRODUCTS,
    MAX_SYMBOLIC_PROGRAMS,
    MIN_SYMBOLIC_EXAMPLES,
    MIN_WORK_FOR_LENGTHS,
    QUANTIZED_TILE_ROWS,
)
from ingot.tuning_products import MIN_SMALL_RUNS_ALONE

if TYPE_CHECKING:
    from ingot.compiler.call import symbolic_program
    from ingot.compiler.call.symbolic_program import SymbolicProgram
    from ingot.compiler.trace import symbolic as symbolic_traces
else:
    symbolic_program = Deferred("ingot.compiler.call.symbolic_program")
    symbolic_traces = Deferred("ingot.compiler.trace.symbolic")

__all__ = ["program_alone", "program_often"]

Shapes = tuple[tuple[int, ...], ...]  # of the inputs of an op
Axes = tuple[int, ...]


def program_alone(
    node: Node, op: Tiled, values: tuple[np.ndarray, ...]
) -> NativeProgram | SmallProduct | tuple[NativeProgram | None] | NotImplementedType | None:
    """The program of an op with one output, for inputs of this layout; None if its `evaluate` rule
    is to compute it, a tuple of a program if that is to run for now, NotImplemented if the rule is.
    Called when `_native/evaluate/dispatch.c` has no program for it.
    """
    layouts = [(x.shape, x.strides, x.dtype) for x in values]
    kinds = [(x.ndim, x.dtype) for x in values]
    shapes = [x.shape for x in values]
    work = op.work_for_lengths(*shapes) if isinstance(op, Composite) else 0
    if work > 0:
        done = _work(op, numerics_key(), *layouts)
        done.elements += work
        if done.elements >= MIN_WORK_FOR_LENGTHS:
            return _program(op, numerics_key(), *layouts)
        if not op.runs_alone(*shapes):
            return NotImplemented
        return (_composite(op, numerics_key(), *kinds).native(values),)
    if not op.runs_alone(*shapes):
        if not op.is_compiled_often:
            return op.small_product(*values)
        if next(_runs(op, numerics_key(), *layouts)) < MIN_SMALL_RUNS_ALONE:
            return NotImplemented
    if isinstance(op, OF_BLAS) and product_engine() == "blas":
        return None
    if isinstance(op, Composite):
        return _composite(op, numerics_key(), *kinds).native(values)
    if isinstance(op, (Product, QuantizedProduct)):
        made = _products(op, numerics_key(), *kinds).native(values)
        if made is not None:
            return made
    return _program(op, numerics_key(), *layouts)


def program_often(op: Op, values: tuple[np.ndarray, ...]) -> NativeProgram | None:
    """The program of a map or a reduction that has been evaluated often with inputs of this layout;
    None if its `evaluate` rule is to go on computing it.
    """
    if op.several_outputs or not values:
        return None
    kinds = [(x.ndim, x.dtype) for x in values]
    return _recurring(op, numerics_key(), *kinds).native(values)


class _Kind(ABC):
    """The programs of an op for inputs of some ranks and dtypes, in which lengths are symbols."""

    max_programs = MAX_SYMBOLIC_PROGRAMS

    def __init__(self, op: Op, kinds: tuple[tuple[int, Any], ...]) -> None:
        self.op = op
        self.kinds = kinds
        self._lock = threading.RLock()
        self._programs: list[tuple[Guards, SymbolicProgram]] = []  # most recent first

    def native(self, inputs: tuple[np.ndarray, ...]) -> NativeProgram | None:
        """The program for some inputs; None if they are to get one without symbols."""
        shapes = [x.shape for x in inputs]
        with self._lock:
            for guards, symbolic in self._programs:
                values = guards.checked(shapes)
                native = None if values is None else symbolic.native_at_once(values, inputs)
                if native is not None:
                    return native
            constant = self._constant_axes(inputs)
            if constant is None:
                return None
            guards, symbolic = self._symbolic(shapes, constant)
            self._programs.insert(0, (guards, symbolic))
            del self._programs[self.max_programs :]
            values = guards.checked(shapes)
            assert values is not None
            return symbolic.native_at_once(values, inputs)

    @abstractmethod
    def _constant_axes(self, inputs: tuple[np.ndarray, ...]) -> list[list[int]] | None:
        """The axes of each input whose lengths are numbers in a new program; None if there is to be
        none yet.
        """

    @abstractmethod
    def _result(self, inputs: list[array]) -> array:
        """The result for placeholders."""

    def _symbolic(
        self, shapes: Sequence[tuple[int, ...]], constant: list[list[int]]
    ) -> tuple[Guards, SymbolicProgram]:
        guards = Guards()
        inputs: list[array] = []
        for number, (shape, (_, dtype)) in enumerate(zip(shapes, self.kinds, strict=True)):
            lengths = symbolic_shape(number, shape, guards)
            inputs.append(placeholder(lengths, _dtype(dtype)))
        for shape, x, axes in zip(shapes, inputs, constant, strict=True):
            for axis in axes:
                if x.shape[axis] != shape[axis]:  # a guard: the length is a number from here on
                    raise AssertionError
        with _native.tracing:
            tape = _tape(inputs, self._result(inputs))
        guards.close()
        values = guards.checked(shapes)
        assert values is not None
        sizes, symbolic = symbolic_traces.symbolic_tape(tape, guards, values)
        name = type(self.op).__name__
        return guards, symbolic_program.SymbolicProgram(sizes, symbolic, values, name=name)


class _Composition(_Kind):
    """Of a composite op. All lengths are symbols but for those of most last axes: prompts are of
    any length.
    """

    op: Composite

    def _constant_axes(self, inputs: tuple[np.ndarray, ...]) -> list[list[int]]:
        return [
            [x.ndim - 1] if x.ndim and self.op.has_fixed_rows(position) else []
            for position, x in enumerate(inputs)
        ]

    def _result(self, inputs: list[array]) -> array:
        return self.op.compose(*inputs)


class _Recurring(_Kind):
    """Of a map or a reduction. All lengths are symbols but for those of last axes, as the rows of a
    model's layers are.
    """

    def _constant_axes(self, inputs: tuple[np.ndarray, ...]) -> list[list[int]]:
        return [[x.ndim - 1] if x.ndim else [] for x in inputs]

    def _result(self, inputs: list[array]) -> array:
        first = inputs[0].shape
        if isinstance(self.op, Map) and any(x.shape != first for x in inputs):  # a guard
            raise AssertionError
        return apply(self.op, *inputs)


class _Product(_Kind):
    """Of a product. Lengths that have varied are symbols, once there were enough: the first few may
    be all that ever come, and code for known lengths is a little faster. For quantised matrices the
    rows of a prompt are a symbol from the start if they are several tiles: no two prompts need have
    the same number of them. Those of a batch, each in a matrix of its own, are not.
    """

    max_programs = MAX_SYMBOLIC_PRODUCTS

    def __init__(self, op: Tiled, kinds: tuple[tuple[int, Any], ...]) -> None:
        super().__init__(op, kinds)
        self._examples: list[Shapes] = []  # the latest, all different

    def _constant_axes(self, inputs: tuple[np.ndarray, ...]) -> list[list[int]] | None:
        shapes = tuple([x.shape for x in inputs])
        if shapes in self._examples:
            return None
        if isinstance(self.op, QuantizedProduct) and shapes[0][-2:-1] > (QUANTIZED_TILE_ROWS,):
            varying: tuple[Axes, ...] | None = ((len(shapes[0]) - 2,), *[()] * (len(shapes) - 1))
        else:
            varying = _varying_axes(shapes, self._examples)
        self._examples.append(shapes)
        del self._examples[:-MAX_PRODUCT_EXAMPLES]
        if varying is None or (
            isinstance(self.op, QuantizedProduct) and not _stays(inputs, varying)
        ):
            return None
        pairs = zip(inputs, varying, strict=True)
        return [[axis for axis in range(x.ndim) if axis not in axes] for x, axes in pairs]

    def _result(self, inputs: list[array]) -> array:
        if isinstance(self.op, Product):
            _require_matching(*[x.shape for x in inputs])
        return apply(self.op, *inputs)


def _varying_axes(shapes: Shapes, examples: Sequence[Shapes]) -> tuple[Axes, ...] | None:
    """The axes of each operand in which a product differs from some that came before, which are
    alike in all others; None if there were too few. The same matrix with other rows comes often,
    other matrices with the same rows are those of a model's layers: only products with different
    numbers of rows count, and of all ways in which lengths have varied it is the one with the
    fewest axes. Where all lengths vary, products have nothing to do with each other. Stacks of
    matrices on the right are not those of layers: a sequence that grows varies any of their axes.
    """
    lengths_of: dict[tuple[Axes, ...], set[tuple[Any, ...]]] = {}
    for example in examples:
        differences = tuple(
            [
                tuple([axis for axis, length in enumerate(shape) if length != other[axis]])
                for shape, other in zip(shapes, example, strict=True)
            ]
        )
        if _has_both_last(differences[1], shapes[1]):
            continue
        if shapes[0][:-1] != example[0][:-1]:
            lengths_of.setdefault(differences, set()).add(example[0][:-1])
        elif len(shapes[1]) > 2:
            lengths_of.setdefault(differences, set()).add(example)
    fewest = MIN_SYMBOLIC_EXAMPLES - 1
    enough = [axes for axes, lengths in lengths_of.items() if len(lengths) >= fewest]
    return min(enough, key=lambda axes: sum(map(len, axes)), default=None)


def _has_both_last(axes: Axes, shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and {len(shape) - 2, len(shape) - 1} <= {*axes}


def _require_matching(left: Sequence[Any], right: Sequence[Any]) -> None:
    """Guards that the symbols of lengths which must match are equal, as `matmul` has checked of
    the numbers.
    """
    aligned = min(len(left), len(right)) - 2
    pairs = zip(left[-2 - aligned : -2], right[-2 - aligned : -2], strict=True)
    if left[-1] != right[-2] or any(a != b and a != 1 and b != 1 for a, b in pairs):
        raise AssertionError


def _stays(inputs: tuple[np.ndarray, ...], varying: tuple[Axes, ...]) -> bool:
    """Whether the operands after the first one do not vary: the kernels of quantised matrices are
    for their lengths and strides.
    """
    return not any(varying[1:]) and all(x.flags.c_contiguous for x in inputs[1:])


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _composite(op: Composite, numerics: Hashable, *kinds: tuple[int, Any]) -> _Composition:
    """The programs for inputs of these ranks and dtypes, under these settings."""
    return _Composition(op, kinds)


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _recurring(op: Op, numerics: Hashable, *kinds: tuple[int, Any]) -> _Recurring:
    """The same for maps and reductions."""
    return _Recurring(op, kinds)


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _products(op: Tiled, numerics: Hashable, *kinds: tuple[int, Any]) -> _Product:
    """The same for products."""
    return _Product(op, kinds)


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _runs(op: Tiled, numerics: Hashable, *layouts: tuple[Any, ...]) -> Iterator[int]:
    """Counts the runs without a program of inputs of these shapes, strides and dtypes."""
    return count(1)


class _Work:
    """What programs for all lengths did for inputs of one layout, in elements."""

    def __init__(self) -> None:
        self.elements = 0


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _work(op: Composite, numerics: Hashable, *layouts: tuple[Any, ...]) -> _Work:
    return _Work()


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _program(op: Op, numerics: Hashable, *layouts: tuple[Any, ...]) -> NativeProgram:
    """The program for inputs of these shapes, strides and dtypes, under these settings."""
    inputs = [placeholder(shape, _dtype(dtype)) for shape, _, dtype in layouts]
    with _native.tracing:
        result = op.compose(*inputs) if isinstance(op, Composite) else apply(op, *inputs)
    name = type(op).__name__
    tape = _tape(inputs, result)
    program = program_of(tape, CompileMode.enabled, name)
    strides = tuple(strides for _, strides, _ in layouts)
    is_contiguous = strides == tuple(contiguous(x.shape, x.dtype.size) for x in inputs)
    # for exactly these strides: bits may depend on them
    return program.made(Account(), None if is_contiguous else strides).native


def _tape(inputs: list[array], result: array) -> Tape:
    """The steps from inputs to a result; other values without an op are constants."""
    made = {x._node: Step(None, (), x.shape, x.dtype) for x in inputs}
    starts = list(made.values())
    add_graph(made, result)
    return Tape(starts, [made[result._node]], list(dict.fromkeys([*starts, *made.values()])))


def _dtype(kind: np.dtype) -> Dtype:
    found = from_numpy(kind)
    assert found is not None
    return found
