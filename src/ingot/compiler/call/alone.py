"""Single-op programs: ops with loop nests of their own use them without `compile`, too.

Input: an op whose role says so, and its NumPy inputs. Output: a program of that op alone, with the
same bits as in any larger program.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, NativeProgram, Node, array, placeholder
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.lower.products.choose import OF_BLAS
from ingot.compiler.machine.work import About
from ingot.compiler.pipeline import run_pipeline
from ingot.graph.dtype import from_numpy
from ingot.graph.op import apply
from ingot.graph.roles import Composite, Tiled
from ingot.graph.shape import contiguous
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import numerics_key, product_engine
from ingot.tuning import MAX_PROGRAMS_ALONE

__all__ = ["program_alone"]


def program_alone(node: Node, op: Tiled, values: tuple[np.ndarray, ...]) -> NativeProgram | None:
    """The program of an op with one output, for inputs of this layout; None if its `evaluate` rule
    is to compute it. Called when `_native/evaluate/dispatch.c` has no program for it.
    """
    if not op.runs_alone(*[value.shape for value in values]):
        return None
    if isinstance(op, OF_BLAS) and product_engine() == "blas":
        return None
    return _program(op, numerics_key(), *[(x.shape, x.strides, x.dtype) for x in values])


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _program(op: Tiled, numerics: Hashable, *layouts: tuple[Any, ...]) -> NativeProgram:
    """The program for inputs of these shapes, strides and dtypes, under these settings."""
    inputs = [placeholder(shape, _dtype(dtype)) for shape, _, dtype in layouts]
    with _native.tracing:
        result = op.compose(*inputs) if isinstance(op, Composite) else apply(op, *inputs)
    name = type(op).__name__
    tape = _tape(inputs, result)
    program = run_pipeline(tape, CompileMode.enabled, name).program
    strides = tuple(strides for _, strides, _ in layouts)
    is_contiguous = strides == tuple(contiguous(x.shape, x.dtype.size) for x in inputs)
    # for exactly these strides: bits may depend on them
    executable = program.finish(None if is_contiguous else strides).executable
    executable.native.about = About(name, executable.work)
    return executable.native


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
