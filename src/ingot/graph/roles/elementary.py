"""Elementary ops: those that are one NumPy function and one function of the kernel vocabulary.

Also how NumPy computes on half types: through float32, because its own loops convert element by
element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ingot.graph.kernel import Kernel, Value
from ingot.graph.roles.elementwise import Elementwise

__all__ = ["Elementary", "in_float32"]


def in_float32(function: Callable[..., Any], *inputs: np.ndarray) -> Any:
    """Apply a NumPy function to arrays of equal dtypes, computing half types in float32."""
    dtype = inputs[0].dtype
    if dtype.itemsize != 2 or dtype.kind in "iu":
        return function(*inputs)
    result = function(*(x.astype(np.float32) for x in inputs))
    return result.astype(dtype) if result.dtype == np.float32 else result


class Elementary(Elementwise, abstract=True):
    """Ops with a NumPy function and a function of the kernel vocabulary: `word`, or else their
    name.
    """

    function: ClassVar[np.ufunc]
    word: ClassVar[str] = ""

    def evaluate(self, *inputs: np.ndarray) -> Any:
        return in_float32(self.function, *inputs)

    def emit(self, k: Kernel, *values: Value) -> Value:
        return getattr(k, self.word or self.name)(*values)
