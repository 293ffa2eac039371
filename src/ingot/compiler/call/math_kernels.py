"""Math kernels: single math functions, computed by the code of fused programs.

Input: a math function and its NumPy inputs. Output: the result, with the same bits as in any larger
kernel. Lengths are rounded up to powers of two, so that there are few kernels.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.programs import program_of
from ingot.compiler.run.program import Program
from ingot.graph.dtype import from_numpy
from ingot.graph.op import Op
from ingot.runtime.compile_mode import CompileMode
from ingot.tuning import MAX_MATH_KERNEL, MIN_MATH_KERNEL

__all__ = ["run"]


def run(op: Op, values: tuple[np.ndarray, ...]) -> np.ndarray:
    """The elements of the function's result."""
    flat = [np.ascontiguousarray(value).reshape(-1) for value in values]
    parts = [
        _part(op, [value[first : first + MAX_MATH_KERNEL] for value in flat])
        for first in range(0, max(1, flat[0].size), MAX_MATH_KERNEL)
    ]
    found = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return found.reshape(values[0].shape)


def _part(op: Op, values: list[np.ndarray]) -> np.ndarray:
    count = values[0].size
    length = max(MIN_MATH_KERNEL, 1 << (count - 1).bit_length())
    if count < length:
        values = [np.concatenate([x, np.ones(length - count, x.dtype)]) for x in values]
    program = _program(op, length, tuple(x.dtype for x in values))
    results: tuple[np.ndarray, ...] = program.run(tuple(values))
    return results[0][:count]


@lru_cache(maxsize=512)
def _program(op: Op, length: int, dtypes: tuple[np.dtype, ...]) -> Program:
    inputs = []
    for dtype in dtypes:
        known = from_numpy(dtype)
        assert known is not None
        inputs.append(Step(None, (), (length,), known))
    shape, dtype = op.infer(*inputs)
    step = Step(op, inputs, shape, dtype)
    return program_of(Tape(inputs, [step], [*inputs, step]), CompileMode.enabled)
