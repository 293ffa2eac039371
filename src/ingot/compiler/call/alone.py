"""Single-op programs: ops with loop nests of their own use them without `compile` too.

Input: an op whose role says so, and its NumPy inputs. Output: a program of that op alone, with the
same bits as in any larger program.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, NativeProgram, Node, SmallProduct, array, placeholder
from ingot.compiler.call.cache_info import Account
from ingot.compiler.call.symbolic_program import SymbolicProgram
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.lower.products.choose import OF_BLAS
from ingot.compiler.pipeline import run_pipeline
from ingot.compiler.trace.symbolic import symbolic_tape
from ingot.graph.dimension import Guards, symbolic_shape
from ingot.graph.dtype import from_numpy
from ingot.graph.op import apply
from ingot.graph.roles import Composite, Tiled
from ingot.graph.shape import contiguous
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import numerics_key, product_engine
from ingot.tuning import MAX_PROGRAMS_ALONE, MAX_SYMBOLIC_PROGRAMS

__all__ = ["program_alone"]


def program_alone(
    node: Node, op: Tiled, values: tuple[np.ndarray, ...]
) -> NativeProgram | SmallProduct | None:
    """The program of an op with one output, for inputs of this layout; None if its `evaluate` rule
    is to compute it. Called when `_native/evaluate/dispatch.c` has no program for it.
    """
    if not op.runs_alone(*[value.shape for value in values]):
        return op.small_product(*values)
    if isinstance(op, OF_BLAS) and product_engine() == "blas":
        return None
    if isinstance(op, Composite):
        return _composite(op, numerics_key(), *[(x.ndim, x.dtype) for x in values]).native(values)
    return _program(op, numerics_key(), *[(x.shape, x.strides, x.dtype) for x in values])


class _Composition:
    """The programs of a composite op for inputs of some ranks and dtypes. Lengths are symbols, but
    for those of last axes: prompts are of any length.
    """

    def __init__(self, op: Composite, kinds: tuple[tuple[int, Any], ...]) -> None:
        self.op = op
        self.kinds = kinds
        self._lock = threading.RLock()
        self._programs: list[tuple[Guards, SymbolicProgram]] = []  # most recent first

    def native(self, inputs: tuple[np.ndarray, ...]) -> NativeProgram | None:
        """The program for some inputs."""
        shapes = [x.shape for x in inputs]
        with self._lock:
            for guards, symbolic in self._programs:
                values = guards.checked(shapes)
                native = None if values is None else symbolic.native_at_once(values, inputs)
                if native is not None:
                    return native
            guards, symbolic = self._symbolic(shapes)
            self._programs.insert(0, (guards, symbolic))
            del self._programs[MAX_SYMBOLIC_PROGRAMS:]
            values = guards.checked(shapes)
            assert values is not None
            return symbolic.native_at_once(values, inputs)

    def _symbolic(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Guards, SymbolicProgram]:
        guards = Guards()
        inputs: list[array] = []
        for number, (shape, (_, dtype)) in enumerate(zip(shapes, self.kinds, strict=True)):
            lengths = symbolic_shape(number, shape, guards)
            inputs.append(placeholder(lengths, _dtype(dtype)))
        for shape, x in zip(shapes, inputs, strict=True):
            if shape and x.shape[-1] != shape[-1]:  # a guard: the length is a number from here on
                raise AssertionError
        with _native.tracing:
            tape = _tape(inputs, self.op.compose(*inputs))
        guards.close()
        values = guards.checked(shapes)
        assert values is not None
        sizes, symbolic = symbolic_tape(tape, guards, values)
        name = type(self.op).__name__
        return guards, SymbolicProgram(sizes, symbolic, values, name=name)


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _composite(op: Composite, numerics: Hashable, *kinds: tuple[int, Any]) -> _Composition:
    """The programs for inputs of these ranks and dtypes, under these settings."""
    return _Composition(op, kinds)


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _program(op: Tiled, numerics: Hashable, *layouts: tuple[Any, ...]) -> NativeProgram:
    """The program for inputs of these shapes, strides and dtypes, under these settings."""
    inputs = [placeholder(shape, _dtype(dtype)) for shape, _, dtype in layouts]
    with _native.tracing:
        result = apply(op, *inputs)
    name = type(op).__name__
    tape = _tape(inputs, result)
    program = run_pipeline(tape, CompileMode.enabled, name).program
    strides = tuple(strides for _, strides, _ in layouts)
    is_contiguous = strides == tuple(contiguous(x.shape, x.dtype.size) for x in inputs)
    # for exactly these strides: bits may depend on them
    return program.made(Account(), None if is_contiguous else strides).executable.native


def _tape(inputs: list[array], result: array) -> Tape:
    """The steps from inputs to a result; other values without an op are constants."""
    made = {x._node: Step(None, (), x.shape, x.dtype) for x in inputs}
    starts = list(made.values())
    for node in _native.topological([result]):
        if node in made:
            continue
        if node.op is None:
            made[node] = Step(None, (), node.shape, node.dtype, value=node.data)
        else:
            sources = [made[source] for source in node.inputs]
            made[node] = Step(node.op, sources, node.shape, node.dtype, node.stream)
    return Tape(starts, [made[result._node]], list(dict.fromkeys([*starts, *made.values()])))


def _dtype(kind: np.dtype) -> Dtype:
    found = from_numpy(kind)
    assert found is not None
    return found
