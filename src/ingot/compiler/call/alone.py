"""Ops alone as programs: what has loop nests of its own runs through them without `compile`, too.

Comes in: an op whose role says so, and its NumPy inputs. Goes out: what a program of that one op
gives, whose bits are those of any larger program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ingot._native import Node
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.pipeline import run_pipeline
from ingot.compiler.run.program import Program
from ingot.graph.dtype import from_numpy
from ingot.graph.op import Op
from ingot.graph.shape import Shape
from ingot.runtime.compile_mode import CompileMode
from ingot.tuning import MAX_PROGRAMS_ALONE

__all__ = ["run_alone"]


def run_alone(node: Node, op: Op, values: tuple[np.ndarray, ...]) -> Any:
    """The result of an op with one output."""
    program = _program(op, *[(x.shape, x.dtype) for x in values])
    return program.run(values)[0]


@lru_cache(maxsize=MAX_PROGRAMS_ALONE)
def _program(op: Op, *kinds: tuple[Shape, np.dtype]) -> Program:
    inputs = []
    for shape, dtype in kinds:
        known = from_numpy(dtype)
        assert known is not None
        inputs.append(Step(None, (), shape, known))
    step = Step(op, inputs, *op.infer(*inputs))
    return run_pipeline(Tape(inputs, [step], [*inputs, step]), CompileMode.enabled).program
