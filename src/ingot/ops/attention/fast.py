"""Normalisations and rotary encoding, composed of array operations, which `compile` fuses.

Half precision is computed in float32 and rounded once.
"""

from __future__ import annotations

from math import log
from operator import index
from typing import Any

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float32, float64, int64, is_floating, is_integer, promote
from ingot.graph.errors import value_text
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Composite
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.exponential import exp
from ingot.ops.elementwise.powers import rsqrt, square
from ingot.ops.elementwise.trigonometry import cos, sin
from ingot.ops.index.along_axis import take_along_axis
from ingot.ops.internal.composites import composed
from ingot.ops.reduce.statistics import logsumexp, mean
from ingot.ops.shape.creation import arange
from ingot.ops.shape.joining import concatenate
from ingot.ops.shape.movement import expand_dims, flip, require_array, reshape

__all__ = ["cross_entropy", "layer_norm", "rms_norm", "rope"]


def _wide(x: array, stream: StreamLike = None) -> array:
    return astype(x, float64 if x.dtype is float64 else float32, stream)


def _result_dtype(name: str, x: Any, **factors: array | None) -> Dtype:
    """The dtype of a normalisation's result, after checking its factors against the last axis of
    `x`.
    """
    if require_array(name, x).ndim == 0:
        raise ValueError(f"[{name}] takes an array with at least one axis, got a scalar.")
    dtype: Dtype = x.dtype
    for parameter, factor in factors.items():
        if factor is None:
            continue
        if require_array(name, factor).shape != x.shape[-1:]:
            raise ValueError(
                f"[{name}] {parameter} has one number for each of the {x.shape[-1]} along the last "
                f"axis of x, got shape {shape_text(factor.shape)}."
            )
        dtype = promote(dtype, factor.dtype)
    if not is_floating(dtype):
        raise ValueError(f"[{name}] takes real floating-point arrays, got {dtype.name}.")
    return dtype


def rms_norm(x: array, weight: array | None, eps: float, *, stream: StreamLike = None) -> array:
    """Divide by the root of the mean square along the last axis.

    Args:
        x: An array.
        weight: Factors for the last axis, or None.
        eps: Added to the mean square for numerical stability.
        stream: The stream or device to run on.
    """
    dtype = _result_dtype("rms_norm", x, weight=weight)
    op = RMSNorm(float(eps), dtype)
    return composed(op, x, *([] if weight is None else [weight]), stream=stream)


@dataclass(frozen=True)
class RMSNorm(Composite):
    """`rms_norm` as one node."""

    eps: float
    dtype: Dtype

    def infer(self, x: array, *weight: array) -> tuple[Shape, Dtype]:
        return x.shape, self.dtype

    def compose(self, x: array, *weight: array) -> array:
        wide = _wide(x)
        mean_square = mean(square(wide), -1, keepdims=True)
        normalized = astype(wide * rsqrt(mean_square + self.eps), self.dtype)
        return normalized if not weight else normalized * astype(weight[0], self.dtype)


def layer_norm(
    x: array,
    weight: array | None,
    bias: array | None,
    eps: float,
    *,
    stream: StreamLike = None,
) -> array:
    """Shift and scale the last axis to mean 0 and variance 1.

    Args:
        x: An array.
        weight: Factors for the normalised last axis, or None.
        bias: Added after that, or None.
        eps: Added to the variance for numerical stability.
        stream: The stream or device to run on.
    """
    dtype = _result_dtype("layer_norm", x, weight=weight, bias=bias)
    if weight is None:  # a bias alone does not upcast the result
        dtype = _result_dtype("layer_norm", x)
    wide = _wide(x, stream)
    centred = wide - mean(wide, -1, keepdims=True, stream=stream)
    variance = mean(square(centred, stream=stream), -1, keepdims=True, stream=stream)
    result = astype(centred * rsqrt(variance + float(eps), stream=stream), dtype, stream)
    if weight is not None:
        result = result * astype(weight, dtype, stream)
    return result if bias is None else result + astype(bias, dtype, stream)


def cross_entropy(logits: array, targets: array, *, stream: StreamLike = None) -> array:
    """The negative logarithm of the share that a softmax along the last axis gives to a class.

    Args:
        logits: Scores of classes along the last axis.
        targets: The class of each row: integers in the shape of `logits` without the last axis.
        stream: The stream or device to run on.

    Returns:
        One float32 number, or float64, for each target.
    """
    name = "cross_entropy"
    if require_array(name, logits).ndim == 0:
        raise ValueError(f"[{name}] takes scores along an axis, got a scalar.")
    if not is_floating(logits.dtype):
        raise ValueError(f"[{name}] takes real floating-point scores, got {logits.dtype.name}.")
    if not is_integer(require_array(name, targets).dtype):
        raise ValueError(f"[{name}] targets are classes, integers, got {targets.dtype.name}.")
    if targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"[{name}] targets have the shape of the scores without the last axis, "
            f"{shape_text(logits.shape[:-1])}, got {shape_text(targets.shape)}."
        )
    wide = _wide(logits, stream)
    chosen = take_along_axis(wide, expand_dims(targets, -1), axis=-1, stream=stream)
    return logsumexp(wide, -1, stream=stream) - chosen[..., 0]


def rope(
    a: array,
    dims: int,
    *,
    traditional: bool,
    base: float | None,
    scale: float,
    offset: Any,
    freqs: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Rotate pairs of features by angles that grow with the position.

    Args:
        a: An array (B, ..., T, D), with positions along the axis before the last.
        dims: How many of the D features are rotated; the others stay as they are.
        traditional: Whether neighbouring features are a pair; otherwise those half of `dims` apart.
        base: Pair i rotates by `base ** (-2 * i / dims)` per position. None if there are `freqs`.
        scale: A factor for the positions.
        offset: The first position: an int, or an array of one or of B ints.
        freqs: How many positions each pair takes for an angle of 1, instead of `base`.
        stream: The stream or device to run on.
    """
    _check_rope(a, dims, traditional, base, freqs)
    op = Rope(dims, traditional, None if freqs is not None else _base(base), float(scale))
    first = _first_position(a, offset)
    return composed(op, a, first, *([] if freqs is None else [freqs]), stream=stream)


@dataclass(frozen=True)
class Rope(Composite):
    """`rope` as one node. The first position, an integer, is an input."""

    dims: int
    traditional: bool
    base: float | None
    scale: float

    def infer(self, a: array, first: array, *freqs: array) -> tuple[Shape, Dtype]:
        return a.shape, a.dtype

    def compose(self, a: array, first: array, *freqs: array) -> array:
        half = self.dims // 2
        dtype = float64 if a.dtype is float64 else float32
        if self.base is not None:
            steps = exp(arange(half, dtype=dtype) * (-log(self.base) / half))
        else:
            steps = 1 / astype(freqs[0], dtype)
        positions = arange(a.shape[-2], dtype=dtype) + astype(first, dtype)
        angles = reshape(positions * self.scale, (*positions.shape, 1)) * steps
        # Each feature times a cosine, plus the other one of its pair times a sine: one loop.
        axis = -1 if self.traditional else -2  # of the pairs
        whole = _wide(a)
        rotated = whole[..., : self.dims] if self.dims < a.shape[-1] else whole
        lengths = (half, 2) if self.traditional else (2, half)
        pairs = reshape(rotated, (*a.shape[:-1], *lengths))
        signs = array([-1.0, 1.0], dtype)
        cosines, sines = (expand_dims(function(angles), axis) for function in (cos, sin))
        sines = sines * (signs if self.traditional else reshape(signs, (2, 1)))
        result = reshape(pairs * cosines + flip(pairs, axis) * sines, rotated.shape)
        if self.dims < a.shape[-1]:
            result = concatenate([result, whole[..., self.dims :]], -1)
        return astype(result, a.dtype)


def _base(base: float | None) -> float:
    if base is None:
        raise ValueError("[rope] needs either base or freqs, got neither.")
    if not base > 0:
        raise ValueError(f"[rope] base must be positive, got {base}.")
    return float(base)


def _check_rope(a: Any, dims: Any, traditional: Any, base: Any, freqs: Any) -> None:
    require_array("rope", a)
    if not isinstance(dims, int):
        raise TypeError(f"[rope] dims must be an int, got {dims!r}.")
    if not isinstance(traditional, bool):
        raise TypeError(f"[rope] traditional must be True or False, got {traditional!r}.")
    if not is_floating(a.dtype):
        raise ValueError(f"[rope] takes real floating-point arrays, got {a.dtype.name}.")
    if a.ndim < 3:
        raise ValueError(
            f"[rope] takes arrays (B, ..., T, D) with at least 3 axes, got shape "
            f"{shape_text(a.shape)}."
        )
    if dims < 1 or dims % 2 != 0 or dims > a.shape[-1]:
        raise ValueError(
            f"[rope] dims must be even, positive and at most {a.shape[-1]}, the length of the last "
            f"axis, got {dims}."
        )
    if base is not None and freqs is not None:
        raise ValueError("[rope] needs either base or freqs, got both.")
    if freqs is not None and require_array("rope", freqs).shape != (dims // 2,):
        raise ValueError(
            f"[rope] freqs has one number for each of {dims // 2} pairs, got shape "
            f"{shape_text(freqs.shape)}."
        )


def _first_position(a: array, offset: Any) -> array:
    """The first position, as an array that broadcasts to (B, ..., T)."""
    if not isinstance(offset, array):
        try:
            return array(index(offset), int64)
        except TypeError:
            raise ValueError(
                f"[rope] offset must be an int or an array of ints, got {value_text(offset)}."
            ) from None
    if not is_integer(offset.dtype):
        raise ValueError(
            f"[rope] offset must be an int or an array of ints, got {offset.dtype.name}."
        )
    if offset.ndim > 1 or offset.size not in (1, a.shape[0]):
        raise ValueError(
            f"[rope] offset has one int, or one for each of {a.shape[0]} examples, got shape "
            f"{shape_text(offset.shape)}."
        )
    if offset.size == 1:
        return reshape(offset, ())
    return reshape(offset, (a.shape[0], *(1,) * (a.ndim - 2)))
