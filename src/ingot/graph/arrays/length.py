"""Dimensions as operands of array operations, as in `x.sum() / x.size`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import Dtype, array, make
from ingot.graph.dimension import Dimension
from ingot.graph.dtype import bool_, float32, int32, int64, is_inexact
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule, zero_jvp, zero_vjp
from ingot.graph.roles import Host
from ingot.graph.shape import Shape

__all__ = ["Length", "length_array"]

_INT32_LIMIT = 2**31


@dataclass(frozen=True)
class Length(Host):
    """A dimension as a 0-d array. Compile replaces it with a constant before anything runs."""

    length: Any
    dtype: Dtype

    why_host = "it is a number by the time anything runs"

    def infer(self) -> tuple[Shape, Dtype]:
        return (), self.dtype

    def evaluate(self) -> np.ndarray:
        value = self.length.value if type(self.length) is Dimension else self.length
        return np.array(value).astype(self.dtype.numpy)

    vjp = zero_vjp
    jvp = zero_jvp

    vmap = no_rule("it has no inputs, so it is the same for all examples")


def length_array(length: Any, dtype: Dtype | None) -> array:
    """A dimension as an array, of the dtype that a Python number takes next to one of `dtype`."""
    if type(length.value) is float:
        wanted = dtype if dtype is not None and is_inexact(dtype) else float32
    elif dtype is not None and dtype is not bool_:
        wanted = dtype
    else:
        wanted = int32 if length < _INT32_LIMIT else int64
    return make(Length(length, wanted), (), (), wanted)
