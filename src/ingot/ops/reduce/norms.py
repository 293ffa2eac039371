"""Norms of vectors and matrices, and cross products: compositions of other functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64, float32, is_inexact
from ingot.graph.shape import Shape, axes_tuple, normalize_axes, normalize_axis, shape_text
from ingot.ops.elementwise.arithmetic import abs as absolute
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.powers import power, sqrt, square
from ingot.ops.linalg.singular_values import singular_values
from ingot.ops.reduce.axes import as_int, without_axes
from ingot.ops.reduce.extremes import max as maximum_of
from ingot.ops.reduce.extremes import min as minimum_of
from ingot.ops.reduce.reduction import sum as sum_of
from ingot.ops.shape.joining import roll
from ingot.ops.shape.movement import broadcast_arrays, moveaxis, require_array, reshape
from ingot.ops.shape.padding import pad

__all__ = ["cross", "norm"]

Order = int | float | str | None


def norm(
    a: array,
    /,
    ord: Order = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: StreamLike = None,
) -> array:
    """A norm of vectors or matrices.

    Args:
        a: The array.
        ord: Which norm. Of vectors: a number p for `sum(abs(a) ** p) ** (1 / p)`, inf or -inf for
            the largest or smallest absolute value, 0 for the number of elements that are not 0.
            Of matrices: 1 or -1 for the largest or smallest sum of a column of absolute values,
            inf or -inf for that of a row, 2 or -2 for the largest or smallest singular value,
            "nuc" for the sum of singular values, "fro" for the root of the sum of squares. None
            means the root of the sum of squares of either.
        axis: The axis of the vectors, or the two axes of the matrices. By default those of `a`,
            or, if `ord` is None as well, all axes as those of one vector.
        keepdims: Whether to keep these axes, with length 1.
        stream: The stream or device to run on.
    """
    require_array("linalg.norm", a)
    given = None if axis is None else _as_ints(axis)
    count = a.ndim if given is None else len(given)
    which = ord if ord is None or isinstance(ord, str) else _number(ord)
    _check_order(which, given, count)
    axes = tuple(range(a.ndim)) if given is None else _in_order(given, a.ndim)
    values = a if is_inexact(a.dtype) else astype(a, float32, stream)
    if which in (None, "fro", "f") or (which == 2 and count == 1):
        kept = _root_of_squares(values, axes, stream)
    elif count == 1:
        kept = _vector_norm(values, which, axes, stream)
    else:
        kept = _matrix_norm(a, values, which, axes, stream)
    return without_axes(kept, tuple(sorted(axes)), keepdims, stream)


def _as_ints(axis: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(
        as_int("linalg.norm", "an axis", position) for position in axes_tuple("linalg.norm", axis)
    )


def _number(value: Any) -> float:
    if isinstance(value, complex) or not hasattr(value, "__float__"):
        raise TypeError(
            f"[linalg.norm] ord must be a real number, a string or None, got {value!r}."
        )
    return float(value)


def _check_order(which: float | str | None, given: Shape | None, count: int) -> None:
    if which is None:
        if given is not None and count > 2:
            raise ValueError(f"[linalg.norm] takes one or two axes, got {given}.")
        return
    if isinstance(which, str) and count != 2:
        raise ValueError(
            f"[linalg.norm] the norm {which!r} is one of matrices, which have two axes, got "
            f"{count}: name the axes of the matrices."
        )
    if count not in (1, 2):
        raise ValueError(
            f"[linalg.norm] the norm {which!r} is one of vectors or matrices, which have one or "
            f"two axes, got {count}: name the axes."
        )
    if count == 2 and which not in (1, -1, 2, -2, inf, -inf, "fro", "f", "nuc"):
        raise ValueError(
            f"[linalg.norm] matrices have no norm {which!r}: it is one of 1, -1, 2, -2, inf, "
            '-inf, "fro" and "nuc".'
        )


def _in_order(axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """The axes counted from the front, in the order given."""
    normalize_axes("linalg.norm", axes, ndim)  # rejects duplicates
    return tuple(normalize_axis("linalg.norm", axis, ndim) for axis in axes)


def _root_of_squares(a: array, axes: tuple[int, ...], stream: StreamLike) -> array:
    squares = square(absolute(a, stream=stream) if a.dtype is complex64 else a, stream=stream)
    if not axes:
        return sqrt(squares, stream=stream)
    return sqrt(sum_of(squares, axes, True, stream=stream), stream=stream)


def _vector_norm(a: array, which: Any, axes: tuple[int, ...], stream: StreamLike) -> array:
    if which == 0:
        return astype(sum_of(a != 0, axes, True, stream=stream), a.dtype, stream)
    sizes = absolute(a, stream=stream)
    if which == 1:
        result = sum_of(sizes, axes, True, stream=stream)
    elif which == inf:
        result = maximum_of(sizes, axes, True, stream=stream)
    elif which == -inf:
        result = minimum_of(sizes, axes, True, stream=stream)
    else:
        powers = sum_of(power(sizes, which, stream=stream), axes, True, stream=stream)
        result = power(powers, 1 / which, stream=stream)
    return _as(a.dtype, result, stream)


def _matrix_norm(
    a: array, values: array, which: Any, axes: tuple[int, ...], stream: StreamLike
) -> array:
    rows, columns = axes
    if which in ("nuc", 2, -2):
        last = moveaxis(moveaxis(a, rows, -1), columns - (columns > rows), -1)
        found = singular_values("linalg.norm", last, stream)
        combine = {"nuc": sum_of, 2: maximum_of, -2: minimum_of}[which]
        result = combine(found, -1, stream=stream)
        for position in sorted(axes):
            result = reshape(result, (*result.shape[:position], 1, *result.shape[position:]))
        return result if which == "nuc" else _as(values.dtype, result, stream)
    added, compared = (rows, columns) if which in (1, -1) else (columns, rows)
    extreme: Callable[..., array] = maximum_of if which > 0 else minimum_of
    sums = sum_of(absolute(values, stream=stream), added, True, stream=stream)
    return _as(values.dtype, extreme(sums, compared, True, stream=stream), stream)


def _as(dtype: Dtype, result: array, stream: StreamLike) -> array:
    # MLX makes these norms of complex numbers complex.
    return result if result.dtype is dtype else astype(result, dtype, stream)


def cross(a: array, b: array, axis: int = -1, *, stream: StreamLike = None) -> array:
    """The cross products of vectors.

    Args:
        a: The first array.
        b: The second array. The other axes of the two are broadcast.
        axis: The axis of the vectors, which have two or three elements; the third is 0 if it is
            not there.
        stream: The stream or device to run on.

    Returns:
        The products, vectors of three elements.
    """
    first = _with_three("first", a, axis, stream)
    second = _with_three("second", b, axis, stream)
    first, second = broadcast_arrays(first, second, stream=stream)
    shifted = first * roll(second, -1, axis, stream=stream)
    difference = shifted - roll(first, -1, axis, stream=stream) * second
    return roll(difference, -1, axis, stream=stream)


def _with_three(which: str, a: array, axis: Any, stream: StreamLike) -> array:
    require_array("linalg.cross", a)
    position = normalize_axis("linalg.cross", axis, a.ndim)
    length = a.shape[position]
    if length not in (2, 3):
        raise ValueError(
            f"[linalg.cross] vectors have two or three elements, got {length} along axis {axis} "
            f"of the {which} array of shape {shape_text(a.shape)}."
        )
    if length == 3:
        return a
    widths = [(0, 0)] * a.ndim
    widths[position] = (0, 1)
    return pad(a, widths, stream=stream)
