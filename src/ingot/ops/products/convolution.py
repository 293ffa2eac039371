"""Convolutions: the functions that users call, brought into the form of one op.

Inputs have the batch first and the channels last, (N, ..., C), filters are (O, ..., C / groups).
`ops/products/convolution_rules.py` has the ops, `ops/products/correlation.py` computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import is_floating, promote
from ingot.graph.op import apply
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.products.convolution_rules import Convolution
from ingot.ops.shape.movement import flip as reversed_along
from ingot.ops.shape.movement import require_array, reshape

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_general",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolve",
]

_MIN_AXES, _MAX_AXES = 1, 3  # besides batch and channels


def _convolved(
    name: str,
    x: array,
    filters: array,
    strides: Shape,
    padding: tuple[Shape, Shape],
    steps: Shape,
    spreads: Shape,
    groups: int,
    stream: StreamLike,
) -> array:
    """The convolution, after checking that all arguments fit together."""
    _check_positive(name, "stride", strides)
    _check_positive(name, "kernel dilation", steps)
    _check_positive(name, "input dilation", spreads)
    _check_channels(name, x.shape, filters.shape, groups)
    before, after = padding
    lengths = []
    for axis, (length, taps) in enumerate(zip(x.shape[1:-1], filters.shape[1:-1], strict=True)):
        found = max((length - 1) * spreads[axis] + 1, 0) + before[axis] + after[axis]
        reach = (taps - 1) * steps[axis] + 1
        if taps == 0 or found < reach:
            raise ValueError(
                f"[{name}] filters of shape {shape_text(filters.shape)} do not fit into an input "
                f"of shape {shape_text(x.shape)}: along axis {axis + 1} they reach over {reach} "
                f"elements, of which with padding there are {found}."
            )
        lengths.append((found - reach) // strides[axis] + 1)
    dtype = promote(x.dtype, filters.dtype)
    op = Convolution(strides, before, steps, spreads, groups, tuple(lengths))
    return apply(op, astype(x, dtype, stream), astype(filters, dtype, stream), stream=stream)


MAX_STEP = 2**31 - 1  # of strides and dilations: products with lengths in bytes stay in 64 bits


def _check_positive(name: str, parameter: str, lengths: Shape) -> None:
    if any(length < 1 for length in lengths):
        raise ValueError(f"[{name}] {parameter} must be positive, got {shape_text(lengths)}.")
    if any(length > MAX_STEP for length in lengths):
        raise ValueError(
            f"[{name}] {parameter} must be {MAX_STEP} or less, got {shape_text(lengths)}."
        )


def _check_channels(name: str, shape: Shape, filters: Shape, groups: int) -> None:
    channels = shape[-1]
    outputs = filters[0]
    if groups < 1 or channels % groups != 0 or outputs % groups != 0:
        raise ValueError(
            f"[{name}] {channels} input channels and {outputs} output channels cannot be divided "
            f"into {groups} groups."
        )
    if channels != groups * filters[-1]:
        raise ValueError(
            f"[{name}] filters of shape {shape_text(filters)} in {groups} groups read "
            f"{groups * filters[-1]} input channels, but the input of shape {shape_text(shape)} "
            f"has {channels}." + _order_hint(shape, groups * filters[-1])
        )


def _order_hint(shape: Shape, channels: int) -> str:
    """For inputs with the channels where PyTorch has them."""
    if len(shape) < 3 or shape[1] != channels:
        return ""
    order = (0, *range(2, len(shape)), 1)
    return f" Channels come last, (N, ..., C): use x.transpose{order}."


def _checked_operands(name: str, x: Any, filters: Any, axes: int | None) -> int:
    """The number of spatial axes, after checking both operands."""
    require_array(name, x)
    require_array(name, filters)
    if not is_floating(x.dtype):
        raise ValueError(
            f"[{name}] takes real floating-point inputs, got {x.dtype.name}: cast with astype."
        )
    count: int = x.ndim - 2
    if not _MIN_AXES <= count <= _MAX_AXES:
        raise ValueError(
            f"[{name}] takes inputs (N, ..., C) with 1 to 3 axes in the middle, got shape "
            f"{shape_text(x.shape)}."
        )
    if axes is not None and count != axes:
        raise ValueError(
            f"[{name}] takes inputs with {axes + 2} axes, (N, ..., C), got shape "
            f"{shape_text(x.shape)}."
        )
    if filters.ndim != x.ndim:
        raise ValueError(
            f"[{name}] filters for inputs of shape {shape_text(x.shape)} have {x.ndim} axes, "
            f"(O, ..., C), got shape {shape_text(filters.shape)}."
        )
    return count


def _for_each_axis(name: str, parameter: str, value: Any, count: int) -> Shape:
    """An int for all axes, or a sequence of one for each, as a tuple."""
    if isinstance(value, int):
        return (value,) * count
    try:
        lengths = tuple(index(length) for length in value)
    except TypeError:
        lengths = ()
    if count == 1 or len(lengths) != count:
        expected = "an int" if count == 1 else f"an int or {count} ints"
        raise TypeError(f"[{name}] {parameter} is {expected}, got {value!r}.")
    return lengths


def _as_groups(name: str, groups: Any) -> int:
    if not isinstance(groups, int):
        raise TypeError(f"[{name}] groups must be an int, got {groups!r}.")
    return groups


def _forward(
    name: str,
    axes: int,
    x: array,
    filters: array,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    stream: StreamLike,
) -> array:
    strides = _for_each_axis(name, "stride", stride, axes)
    before = _for_each_axis(name, "padding", padding, axes)
    steps = _for_each_axis(name, "dilation", dilation, axes)
    count = _as_groups(name, groups)
    _checked_operands(name, x, filters, axes)
    spreads = (1,) * axes
    return _convolved(name, x, filters, strides, (before, before), steps, spreads, count, stream)


def _transposed(
    name: str,
    axes: int,
    x: array,
    filters: array,
    stride: Any,
    padding: Any,
    dilation: Any,
    output_padding: Any,
    groups: Any,
    stream: StreamLike,
) -> array:
    spreads = _for_each_axis(name, "stride", stride, axes)
    removed = _for_each_axis(name, "padding", padding, axes)
    steps = _for_each_axis(name, "dilation", dilation, axes)
    added = _for_each_axis(name, "output_padding", output_padding, axes)
    count = _as_groups(name, groups)
    _checked_operands(name, x, filters, axes)
    reaches = [(n - 1) * step for n, step in zip(filters.shape[1:-1], steps, strict=True)]
    before = tuple(reach - n for reach, n in zip(reaches, removed, strict=True))
    after = tuple(n + more for n, more in zip(before, added, strict=True))
    backward = reversed_along(filters, tuple(range(1, axes + 1)))
    strides = (1,) * axes
    return _convolved(name, x, backward, strides, (before, after), steps, spreads, count, stream)


def conv1d(
    input: array,
    weight: array,
    /,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    *,
    stream: StreamLike = None,
) -> array:
    """Convolve signals of several channels.

    Args:
        input: Signals of shape (N, L, C).
        weight: Filters of shape (O, K, C / groups).
        stride: The step from one position of the filters to the next.
        padding: How many zeros are added at both ends.
        dilation: The distance between elements that a filter reads.
        groups: The number of groups of channels that are convolved separately.
        stream: The stream or device to run on.

    Returns:
        An array of shape (N, ..., O).
    """
    if isinstance(input, array) and input.ndim > _MIN_AXES + 2:  # MLX takes more axes too
        return conv_general(input, weight, stride, padding, dilation, 1, groups, stream=stream)
    return _forward("conv1d", 1, input, weight, stride, padding, dilation, groups, stream)


def conv2d(
    input: array,
    weight: array,
    /,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    *,
    stream: StreamLike = None,
) -> array:
    """Convolve images of several channels.

    Args:
        input: Images of shape (N, H, W, C).
        weight: Filters of shape (O, KH, KW, C / groups).
        stride: The steps from one position of the filters to the next.
        padding: How many zeros are added on all sides.
        dilation: The distances between elements that a filter reads.
        groups: The number of groups of channels that are convolved separately.
        stream: The stream or device to run on.

    Returns:
        An array of shape (N, ..., O).
    """
    return _forward("conv2d", 2, input, weight, stride, padding, dilation, groups, stream)


def conv3d(
    input: array,
    weight: array,
    /,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    *,
    stream: StreamLike = None,
) -> array:
    """Convolve volumes of several channels: (N, D, H, W, C) with (O, KD, KH, KW, C / groups).

    The arguments are those of `conv2d`.
    """
    return _forward("conv3d", 3, input, weight, stride, padding, dilation, groups, stream)


def conv_transpose1d(
    input: array,
    weight: array,
    /,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    output_padding: int = 0,
    groups: int = 1,
    *,
    stream: StreamLike = None,
) -> array:
    """Spread signals: each element adds a multiple of the filters, `stride` after its neighbour's.

    Args:
        input: Signals of shape (N, L, C).
        weight: Filters of shape (O, K, C / groups).
        stride: The distance of the filters of neighbours.
        padding: How many results are left out at both ends.
        dilation: The distance between elements that a filter writes.
        output_padding: How many results are added at the end.
        groups: The number of groups of channels that are convolved separately.
        stream: The stream or device to run on.

    Returns:
        An array of shape (N, ..., O).
    """
    return _transposed(
        "conv_transpose1d",
        1,
        input,
        weight,
        stride,
        padding,
        dilation,
        output_padding,
        groups,
        stream,
    )


def conv_transpose2d(
    input: array,
    weight: array,
    /,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    *,
    stream: StreamLike = None,
) -> array:
    """Spread images: (N, H, W, C) with filters (O, KH, KW, C / groups).

    The arguments are those of `conv_transpose1d`, with an int or one for each axis.
    """
    return _transposed(
        "conv_transpose2d",
        2,
        input,
        weight,
        stride,
        padding,
        dilation,
        output_padding,
        groups,
        stream,
    )


def conv_transpose3d(
    input: array,
    weight: array,
    /,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    *,
    stream: StreamLike = None,
) -> array:
    """Spread volumes: (N, D, H, W, C) with filters (O, KD, KH, KW, C / groups).

    The arguments are those of `conv_transpose1d`, with an int or one for each axis.
    """
    return _transposed(
        "conv_transpose3d",
        3,
        input,
        weight,
        stride,
        padding,
        dilation,
        output_padding,
        groups,
        stream,
    )


def conv_general(
    input: array,
    weight: array,
    /,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | tuple[Sequence[int], Sequence[int]] = 0,
    kernel_dilation: int | Sequence[int] = 1,
    input_dilation: int | Sequence[int] = 1,
    groups: int = 1,
    flip: bool = False,
    *,
    stream: StreamLike = None,
) -> array:
    """Convolve inputs of one to three axes besides batch and channels, with all options.

    Args:
        input: Inputs of shape (N, ..., C).
        weight: Filters of shape (O, ..., C / groups).
        stride: The steps from one position of the filters to the next.
        padding: How many zeros are added: an int, one for both ends of each axis, or a pair of
            sequences, before and after. Negative numbers remove elements.
        kernel_dilation: The distances between elements that a filter reads.
        input_dilation: The distances of the input's elements, between which zeros are put.
        groups: The number of groups of channels that are convolved separately.
        flip: Whether to reverse the filters, as convolutions in mathematics do.
        stream: The stream or device to run on.

    Returns:
        An array of shape (N, ..., O).
    """
    name = "conv_general"
    count = _as_groups(name, groups)
    if not isinstance(flip, bool):
        raise TypeError(f"[{name}] flip must be True or False, got {flip!r}.")
    axes = _checked_operands(name, input, weight, None)
    filters = reversed_along(weight, tuple(range(1, axes + 1))) if flip else weight
    return _convolved(
        name,
        input,
        filters,
        _spread(name, "stride", stride, 1, axes),
        _padding_pair(padding, axes),
        _spread(name, "kernel_dilation", kernel_dilation, 1, axes),
        _spread(name, "input_dilation", input_dilation, 1, axes),
        count,
        stream,
    )


def _spread(name: str, parameter: str, value: Any, default: int, count: int) -> Shape:
    """An int or a sequence as one int per axis: one stands for all, an empty one for
    the default.
    """
    if isinstance(value, int):
        return (value,) * count
    try:
        lengths = tuple(index(length) for length in value)
    except TypeError:
        raise TypeError(
            f"[{name}] {parameter} must be an int or a sequence of ints, got {value!r}."
        ) from None
    if len(lengths) <= 1:
        return (lengths or (default,)) * count
    if len(lengths) != count:
        raise ValueError(
            f"[{name}] {parameter} {shape_text(lengths)} must have one int for each of {count} "
            "axes."
        )
    return lengths


def _padding_pair(padding: Any, count: int) -> tuple[Shape, Shape]:
    """The padding before and after."""
    is_pair = (
        isinstance(padding, (list, tuple))
        and len(padding) == 2
        and all(isinstance(part, (list, tuple)) for part in padding)
    )
    before, after = padding if is_pair else (padding, padding)
    name = "conv_general"
    return _spread(name, "padding", before, 0, count), _spread(name, "padding", after, 0, count)


def convolve(a: array, v: array, /, mode: str = "full", *, stream: StreamLike = None) -> array:
    """The discrete convolution of two vectors, of which the shorter one is the filter.

    Args:
        a: A vector.
        v: A vector.
        mode: "full" for all results, "same" for as many in the middle as the longer vector has
            elements, "valid" for those that need no elements from outside.
        stream: The stream or device to run on.
    """
    require_array("convolve", a)
    require_array("convolve", v)
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(
            f"[convolve] takes vectors, got shapes {shape_text(a.shape)} and {shape_text(v.shape)}."
        )
    if a.size == 0 or v.size == 0:
        raise ValueError("[convolve] takes vectors with elements, got an empty one.")
    signal, filters = (a, v) if a.size >= v.size else (v, a)
    taps = filters.size
    paddings = {
        "full": (taps - 1, taps - 1),
        "same": (taps // 2, (taps - 1) // 2),
        "valid": (0, 0),
    }
    if mode not in paddings:
        raise ValueError(f'[convolve] mode is "full", "same" or "valid", got {mode!r}.')
    before, after = paddings[mode]
    result = conv_general(
        reshape(signal, (1, signal.size, 1)),
        reshape(filters, (1, taps, 1)),
        padding=([before], [after]),
        flip=True,
        stream=stream,
    )
    return reshape(result, (result.size,))
