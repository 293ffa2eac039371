"""Convolution layers. Inputs have the batch first and the channels last: (N, ..., C)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.nn.module import Module

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

Lengths = int | tuple[int, ...]
Sizes = Size | tuple[Size, ...]


def _for_each_axis(lengths: Lengths, count: int) -> tuple[int, ...]:
    return (lengths,) * count if isinstance(lengths, int) else lengths


class _Convolution(Module):
    """The parameters of all convolutions: filters of shape (outputs, ..., inputs) and a bias.

    The filters are initially uniform in plus or minus 1 / sqrt(number of inputs per output), the
    bias is 0.
    """

    # The attributes that are printed after a layer's channels and sizes.
    _options: tuple[str, ...] = ("stride", "padding", "dilation")

    def _make_parameters(
        self, in_channels: Size, out_channels: int, sizes: tuple[int, ...], bias: bool
    ) -> None:
        scale = math.sqrt(1 / (in_channels * math.prod(sizes)))
        self.weight = mx.random.uniform(-scale, scale, (out_channels, *sizes, in_channels))
        if bias:
            self.bias = mx.zeros((out_channels,))

    def _extra_repr(self) -> str:
        out_channels, *sizes, in_channels = self.weight.shape
        options = {
            "kernel_size": sizes[0] if len(sizes) == 1 else tuple(sizes),
            **{name: getattr(self, name) for name in self._options},
            "bias": "bias" in self,
        }
        channels = f"{in_channels * getattr(self, 'groups', 1)}, {out_channels}"
        return ", ".join([channels, *(f"{name}={value}" for name, value in options.items())])

    def _with_bias(self, y: mx.array) -> mx.array:
        return y + self.bias if "bias" in self else y


def _inputs_of_a_group(name: str, in_channels: Size, groups: Size) -> int:
    if in_channels % groups != 0:
        raise ValueError(
            f"[{name}] the number of input channels must be a multiple of the number of groups, "
            f"got {in_channels} channels and {groups} groups."
        )
    return in_channels // groups


class Conv1d(_Convolution):
    """A convolution over signals of shape (N, L, C).

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        kernel_size: The length of the filters.
        stride: The step from one position of the filter to the next.
        padding: How many zeros are added at both ends.
        dilation: The distance between the elements that a filter reads.
        groups: The number of groups of channels that are convolved separately.
        bias: Whether to add a learnt bias to each output channel.
    """

    _options = (*_Convolution._options, "groups")

    def __init__(
        self,
        in_channels: Size,
        out_channels: int,
        kernel_size: Size,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: Size = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        inputs = _inputs_of_a_group("Conv1d", in_channels, groups)
        self._make_parameters(inputs, out_channels, (kernel_size,), bias)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv1d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return self._with_bias(y)


class Conv2d(_Convolution):
    """A convolution over images of shape (N, H, W, C).

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        kernel_size: Height and width of the filters, or one int for both.
        stride: The steps from one position of the filter to the next.
        padding: How many zeros are added at all sides.
        dilation: The distances between the elements that a filter reads.
        groups: The number of groups of channels that are convolved separately.
        bias: Whether to add a learnt bias to each output channel.
    """

    _options = (*_Convolution._options, "groups")

    def __init__(
        self,
        in_channels: Size,
        out_channels: int,
        kernel_size: Sizes,
        stride: Lengths = 1,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        groups: Size = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        inputs = _inputs_of_a_group("Conv2d", in_channels, groups)
        self._make_parameters(inputs, out_channels, _for_each_axis(kernel_size, 2), bias)
        self.stride = _for_each_axis(stride, 2)
        self.padding = _for_each_axis(padding, 2)
        self.dilation = dilation
        self.groups = groups

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv2d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return self._with_bias(y)


class Conv3d(_Convolution):
    """A convolution over volumes of shape (N, D, H, W, C).

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        kernel_size: Depth, height and width of the filters, or one int for all.
        stride: The steps from one position of the filter to the next.
        padding: How many zeros are added at all sides.
        dilation: The distances between the elements that a filter reads.
        bias: Whether to add a learnt bias to each output channel.
    """

    def __init__(
        self,
        in_channels: Size,
        out_channels: int,
        kernel_size: Sizes,
        stride: Lengths = 1,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._make_parameters(in_channels, out_channels, _for_each_axis(kernel_size, 3), bias)
        self.stride = _for_each_axis(stride, 3)
        self.padding = _for_each_axis(padding, 3)
        self.dilation = dilation

    def __call__(self, x: mx.array) -> mx.array:
        return self._with_bias(mx.conv3d(x, self.weight, self.stride, self.padding, self.dilation))


class _TransposedConvolution(_Convolution):
    """Shared by the transposed convolutions."""

    _dimensions: int
    _function: Callable[..., mx.array]
    _options = (*_Convolution._options, "output_padding")

    def __init__(
        self,
        in_channels: Size,
        out_channels: int,
        kernel_size: Sizes,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        output_padding: Any = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        count = self._dimensions
        self._make_parameters(in_channels, out_channels, _for_each_axis(kernel_size, count), bias)
        if count > 1:
            stride = _for_each_axis(stride, count)
            padding = _for_each_axis(padding, count)
            output_padding = _for_each_axis(output_padding, count)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.output_padding = output_padding

    def __call__(self, x: mx.array) -> mx.array:
        y = self._function(
            x, self.weight, self.stride, self.padding, self.dilation, self.output_padding
        )
        return self._with_bias(y)


class ConvTranspose1d(_TransposedConvolution):
    """A transposed convolution over signals of shape (N, L, C): the adjoint of a `Conv1d`.

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        kernel_size: The length of the filters.
        stride: The step from one position of the filter to the next, in the output.
        padding: How many elements are removed from both ends of the output.
        dilation: The distance between the elements that a filter writes.
        output_padding: How many elements are added at the end of the output.
        bias: Whether to add a learnt bias to each output channel.
    """

    _dimensions = 1
    _function = staticmethod(mx.conv_transpose1d)


class ConvTranspose2d(_TransposedConvolution):
    """A transposed convolution over images of shape (N, H, W, C): the adjoint of a `Conv2d`.

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        kernel_size: Height and width of the filters, or one int for both.
        stride: The steps from one position of the filter to the next, in the output.
        padding: How many elements are removed from all sides of the output.
        dilation: The distances between the elements that a filter writes.
        output_padding: How many elements are added at the end of each axis of the output.
        bias: Whether to add a learnt bias to each output channel.
    """

    _dimensions = 2
    _function = staticmethod(mx.conv_transpose2d)


class ConvTranspose3d(_TransposedConvolution):
    """A transposed convolution over volumes of shape (N, D, H, W, C): the adjoint of a `Conv3d`.

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        kernel_size: Depth, height and width of the filters, or one int for all.
        stride: The steps from one position of the filter to the next, in the output.
        padding: How many elements are removed from all sides of the output.
        dilation: The distances between the elements that a filter writes.
        output_padding: How many elements are added at the end of each axis of the output.
        bias: Whether to add a learnt bias to each output channel.
    """

    _dimensions = 3
    _function = staticmethod(mx.conv_transpose3d)
