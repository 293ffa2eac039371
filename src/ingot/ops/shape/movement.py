"""Movement: functions that only rearrange elements.

The ops are in `internal/adjoints.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from ingot._native import Dtype, array, make, wrap
from ingot.graph import shape as shapes
from ingot.graph.arrays.construct import coerce, scalar
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bool_, complex64, float32, int32, int64, is_floating
from ingot.graph.errors import ConversionError, value_text
from ingot.graph.op import apply
from ingot.graph.shape import (
    Shape,
    as_axes,
    as_lengths,
    as_shape,
    axes_tuple,
    normalize_axes,
    normalize_axis,
    same_shape,
    shape_text,
)
from ingot.ops.internal.adjoints import Broadcast, Transpose, op_for_shape, reshaped

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
    "unflatten",
]


def require_array(name: str, value: Any) -> array:
    """Check that `value` is an array; `name` does not convert."""
    if not isinstance(value, array):
        raise TypeError(
            f"[{name}] takes an array, got {type(value).__name__}: {value_text(value)}."
        )
    return value


def require_arrays(name: str, values: Iterable[Any]) -> list[array]:
    """Check that all `values` are arrays; otherwise RuntimeError, as in MLX."""
    found = list(values)
    for value in found:
        if not isinstance(value, array):
            raise ConversionError(
                f"[{name}] takes arrays, got {type(value).__name__}: {value_text(value)}."
            )
    return found


def as_array(name: str, value: Any, dtype: Dtype | None = None) -> array:
    """Convert an array, a Python number or a NumPy array to an array.

    Numbers take `dtype` if it can hold their kind: a float stays float32 beside an integer dtype.
    Arrays keep theirs.
    """
    if isinstance(value, array):
        return value
    if isinstance(value, bool):
        return scalar(value, dtype or bool_)
    if isinstance(value, int):
        if dtype is None or dtype is bool_:
            dtype = int32 if -(2**31) <= value < 2**31 else int64
        return scalar(value, dtype)
    if isinstance(value, float):
        return scalar(value, dtype if dtype is not None and is_floating(dtype) else float32)
    if isinstance(value, complex):
        return scalar(value, complex64)
    converted: array = coerce(value, dtype)
    if converted is NotImplemented:
        raise ValueError(
            f"[{name}] takes a number or an array, got {type(value).__name__}: {value_text(value)}."
        )
    return converted


def _moved(a: array, axes: tuple[int, ...], stream: StreamLike) -> array:
    """`a` with its axes in that order, which must be a permutation."""
    if axes == tuple(range(len(axes))):
        return wrap(a)
    return apply(Transpose(axes), a, stream=stream)


def reshape(a: array, /, shape: Sequence[int], *, stream: StreamLike = None) -> array:
    """The same elements under another shape.

    Args:
        a: The array.
        shape: The lengths; one of them may be -1, which is inferred.
        stream: The stream or device to run on.

    Returns:
        A view of `a` where that is possible, a copy otherwise.
    """
    require_array("reshape", a)
    lengths = as_lengths("reshape", shape)
    return reshaped(a, shapes.fill_length("reshape", a.shape, lengths), stream)


def reshape_method(a: array, *shape: Any, stream: StreamLike = None) -> array:
    """The method `array.reshape`: `reshape` with the shape as a sequence or as separate lengths."""
    lengths = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return reshape(a, lengths, stream=stream)


def flatten(
    a: array, /, start_axis: int = 0, end_axis: int = -1, *, stream: StreamLike = None
) -> array:
    """Merge the axes from `start_axis` to `end_axis`, both included, into one.

    Axes beyond the first or the last mean the first or the last. A scalar becomes an array of one
    element.
    """
    require_array("flatten", a)
    for axis in (start_axis, end_axis):
        if not isinstance(axis, int):
            raise TypeError(f"[flatten] an axis must be an int, got {axis!r}.")
    shape = a.shape
    ndim = len(shape)
    if ndim == 0:
        return reshaped(a, (1,), stream)
    start = max(start_axis + ndim if start_axis < 0 else start_axis, 0)
    end = min(end_axis + ndim if end_axis < 0 else end_axis, ndim - 1)
    if start > end:
        raise ValueError(
            f"[flatten] start_axis {start_axis} is behind end_axis {end_axis} "
            f"in an array of shape {shape_text(shape)}."
        )
    merged = shapes.size_of(shape[start : end + 1])
    return reshaped(a, (*shape[:start], merged, *shape[end + 1 :]), stream)


def unflatten(a: array, /, axis: int, shape: Sequence[int], *, stream: StreamLike = None) -> array:
    """Split one axis into several.

    Args:
        a: The array.
        axis: The axis to split.
        shape: The lengths it is split into; one of them may be -1, which is inferred.
        stream: The stream or device to run on.
    """
    require_array("unflatten", a)
    lengths = as_lengths("unflatten", shape)
    if not lengths:
        raise ValueError("[unflatten] an axis cannot be split into no axes: give at least one.")
    old = a.shape
    position = normalize_axis("unflatten", axis, len(old))
    filled = shapes.fill_length("unflatten", (old[position],), lengths)
    return reshaped(a, (*old[:position], *filled, *old[position + 1 :]), stream)


def squeeze(
    a: array, /, axis: int | Sequence[int] | None = None, *, stream: StreamLike = None
) -> array:
    """Remove axes of length 1: those named by `axis`, or all of them."""
    require_array("squeeze", a)
    shape = a.shape
    if axis is None:
        return reshaped(a, tuple(length for length in shape if length != 1), stream)
    removed = []
    for named in axes_tuple("squeeze", axis):
        position = normalize_axis("squeeze", named, len(shape))
        if shape[position] != 1:
            raise ValueError(
                f"[squeeze] axis {position} of shape {shape_text(shape)} cannot be removed: "
                f"its length is {shape[position]}, not 1."
            )
        if position in removed:
            raise ValueError(f"[squeeze] the axes {axis} name axis {position} twice.")
        removed.append(position)
    kept = tuple(length for position, length in enumerate(shape) if position not in removed)
    return reshaped(a, kept, stream)


def expand_dims(a: array, /, axis: int | Sequence[int], *, stream: StreamLike = None) -> array:
    """Insert axes of length 1, at the positions that `axis` names in the result."""
    require_array("expand_dims", a)
    axes = axes_tuple("expand_dims", axis)
    inserted = normalize_axes("expand_dims", axes, a.ndim + len(axes))
    lengths = list(a.shape)
    for position in inserted:
        lengths.insert(position, 1)
    return reshaped(a, tuple(lengths), stream)


def transpose(
    a: array, /, axes: Sequence[int] | None = None, *, stream: StreamLike = None
) -> array:
    """Reorder the axes.

    Args:
        a: The array.
        axes: Which axis of `a` becomes each axis of the result. None reverses them.
        stream: The stream or device to run on.
    """
    require_array("transpose", a)
    ndim = a.ndim
    if axes is None:
        return _moved(a, tuple(range(ndim - 1, -1, -1)), stream)
    if isinstance(axes, int):
        raise TypeError(f"[transpose] axes must be a sequence of ints, got {axes!r}.")
    given = axes_tuple("transpose", axes)
    if len(given) != ndim:
        raise ValueError(
            f"[transpose] axes {shape_text(given)} must name each axis of shape "
            f"{shape_text(a.shape)} once."
        )
    order = as_axes("transpose", given, ndim)
    if len(set(order)) != ndim:
        raise ValueError(f"[transpose] axes {shape_text(given)} name an axis twice.")
    return _moved(a, order, stream)


def transpose_method(a: array, *axes: Any, stream: StreamLike = None) -> array:
    """The method `array.transpose`: `transpose` with the axes as a sequence or as separate ints."""
    if not axes:
        return transpose(a, stream=stream)
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return transpose(a, order, stream=stream)


def permute_dims(
    a: array, /, axes: Sequence[int] | None = None, *, stream: StreamLike = None
) -> array:
    """The same as `transpose`."""
    return transpose(a, axes, stream=stream)


def swapaxes(a: array, /, axis1: int, axis2: int, *, stream: StreamLike = None) -> array:
    """Exchange two axes."""
    require_array("swapaxes", a)
    ndim = a.ndim
    first = normalize_axis("swapaxes", axis1, ndim)
    second = normalize_axis("swapaxes", axis2, ndim)
    order = list(range(ndim))
    order[first] = second
    order[second] = first
    return _moved(a, tuple(order), stream)


def moveaxis(a: array, /, source: int, destination: int, *, stream: StreamLike = None) -> array:
    """Move one axis to another position; the others keep their order."""
    require_array("moveaxis", a)
    ndim = a.ndim
    start = normalize_axis("moveaxis", source, ndim)
    end = normalize_axis("moveaxis", destination, ndim)
    order = [axis for axis in range(ndim) if axis != start]
    order.insert(end, start)
    return _moved(a, tuple(order), stream)


def matrix_transpose(a: array, /, *, stream: StreamLike = None) -> array:
    """Exchange the last two axes."""
    if require_array("matrix_transpose", a).ndim < 2:
        raise ValueError(
            f"[matrix_transpose] needs at least 2 axes, got shape {shape_text(a.shape)}."
        )
    return swapaxes(a, -1, -2, stream=stream)


def broadcast_to(a: Any, /, shape: Sequence[int], *, stream: StreamLike = None) -> array:
    """Repeat elements along new axes in front and along axes of length 1, without copying."""
    source = as_array("broadcast_to", a)
    target = as_shape("broadcast_to", shape)
    old = source.shape
    if same_shape(old, target):
        return wrap(source)
    missing = len(target) - len(old)
    fits = missing >= 0 and all(
        length == 1 or length == wanted
        for length, wanted in zip(old, target[missing:], strict=True)
    )
    if not fits:
        raise ValueError(
            f"[broadcast_to] cannot broadcast shape {shape_text(old)} to {shape_text(target)}."
        )
    return make(op_for_shape(Broadcast, target), (source,), target, source.dtype, stream)


def broadcast_arrays(*arrays: array, stream: StreamLike = None) -> list[array]:
    """All arrays broadcast to the shape that they have in common."""
    sources = require_arrays("broadcast_arrays", arrays)
    shape = shapes.broadcast_shapes("broadcast_arrays", *(a.shape for a in sources))
    return [broadcast_to(a, shape, stream=stream) for a in sources]


def broadcast_shapes(*args: Sequence[int]) -> Shape:
    """The shape that arrays of the given shapes broadcast to."""
    if not args:
        raise ValueError("[broadcast_shapes] needs at least one shape.")
    lengths = (as_lengths("broadcast_shapes", shape) for shape in args)
    return shapes.broadcast_shapes("broadcast_shapes", *lengths)


def _at_least(
    name: str, ndim: int, arys: tuple[array, ...], stream: StreamLike
) -> array | list[array]:
    results = []
    for a in require_arrays(name, arys):
        shape = a.shape
        if ndim > len(shape) > 0 and ndim == 3:
            shape = (*shape, 1)
        results.append(reshaped(a, (1,) * (ndim - len(shape)) + shape, stream))
    return results[0] if len(results) == 1 else results


@overload
def atleast_1d(ary: array, /, *, stream: StreamLike = None) -> array: ...
@overload
def atleast_1d(*arys: array, stream: StreamLike = None) -> list[array]: ...
def atleast_1d(*arys: array, stream: StreamLike = None) -> array | list[array]:
    """Arrays with at least one axis: scalars become arrays of one element."""
    return _at_least("atleast_1d", 1, arys, stream)


@overload
def atleast_2d(ary: array, /, *, stream: StreamLike = None) -> array: ...
@overload
def atleast_2d(*arys: array, stream: StreamLike = None) -> list[array]: ...
def atleast_2d(*arys: array, stream: StreamLike = None) -> array | list[array]:
    """Arrays with at least two axes: vectors become rows."""
    return _at_least("atleast_2d", 2, arys, stream)


@overload
def atleast_3d(ary: array, /, *, stream: StreamLike = None) -> array: ...
@overload
def atleast_3d(*arys: array, stream: StreamLike = None) -> list[array]: ...
def atleast_3d(*arys: array, stream: StreamLike = None) -> array | list[array]:
    """Arrays with at least three axes: (n) becomes (1, n, 1) and (n, m) becomes (n, m, 1)."""
    return _at_least("atleast_3d", 3, arys, stream)


def flip(
    a: array, /, axis: int | Sequence[int] | None = None, *, stream: StreamLike = None
) -> array:
    """Reverse the order of elements along the given axes, or along all of them."""
    require_array("flip", a)
    ndim = a.ndim
    flipped = range(ndim) if axis is None else as_axes("flip", axis, ndim)
    if not flipped:
        return wrap(a)
    backward = slice(None, None, -1)
    return a[tuple(backward if position in flipped else slice(None) for position in range(ndim))]
