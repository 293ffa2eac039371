"""The benchmarked functions, for each library: `m` is its module of array functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ingot.benchmarks.libraries import load

__all__ = ["Function", "gelu", "layer_norm", "polynomial", "product", "reduction", "softmax"]

Function = Callable[..., Any]


def gelu(m: Any, x: Any) -> Any:
    erf = m.erf if hasattr(m, "erf") else load("jax").scipy.special.erf
    return x * (1 + erf(x / math.sqrt(2))) / 2


def softmax(m: Any, x: Any) -> Any:
    if m.__name__ == "torch":
        e = m.exp(x - m.max(x, dim=-1, keepdim=True).values)
        return e / m.sum(e, dim=-1, keepdim=True)
    e = m.exp(x - m.max(x, axis=-1, keepdims=True))
    return e / m.sum(e, axis=-1, keepdims=True)


def layer_norm(m: Any, x: Any) -> Any:
    if m.__name__ == "torch":
        centred = x - m.mean(x, dim=-1, keepdim=True)
        return centred / m.sqrt(m.mean(centred * centred, dim=-1, keepdim=True) + 1e-5)
    centred = x - m.mean(x, axis=-1, keepdims=True)
    return centred / m.sqrt(m.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def polynomial(m: Any, x: Any) -> Any:
    return (x * 3 + 7) * x - 11


def product(m: Any, x: Any) -> Any:
    return x @ x


def reduction(name: str, axis: int | None) -> Function:
    """The reduction of that name over an axis, or over all."""

    def reduce(m: Any, x: Any) -> Any:
        if axis is None:
            return getattr(m, name)(x)
        if m.__name__ == "torch":
            found = getattr(m, name)(x, dim=axis)
            return found.values if name == "max" else found
        return getattr(m, name)(x, axis=axis)

    return reduce
