"""Layers that are linear in their inputs."""

from __future__ import annotations

import math
from typing import Any

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.nn.errors import input_error
from ingot.nn.layers.quantized import QQLinear, QuantizedLinear
from ingot.nn.module import Module

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Returns its input.

    Args:
        args: Ignored, so that it can stand in for any layer.
        kwargs: Ignored.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: Any) -> Any:
        return x


class Linear(Module):
    """An affine map along the last axis: `x @ weight.T + bias`.

    The parameters are initially uniform in plus or minus 1 / sqrt(`input_dims`).

    Args:
        input_dims: The number of input features.
        output_dims: The number of output features.
        bias: Whether to add a bias.
    """

    def __init__(self, input_dims: Size, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        scale = math.sqrt(1.0 / input_dims)
        self.weight = mx.random.uniform(-scale, scale, (output_dims, input_dims))
        if bias:
            self.bias = mx.random.uniform(-scale, scale, (output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        try:
            if "bias" in self:
                return mx.addmm(self.bias, x, self.weight.T)
            return x @ self.weight.T
        except ValueError as error:
            raise input_error(self, x, self.weight.shape[-1], error) from None

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedLinear | QQLinear:
        """The layer with quantised weights that approximates this one.

        Args:
            group_size: The number of weights that share a scale; see `mx.quantize`.
            bits: The number of bits per weight.
            mode: The mode of quantisation.
            quantize_input: Whether inputs are quantised too: modes nvfp4 and mxfp8.
        """
        if not quantize_input:
            return QuantizedLinear.from_linear(self, group_size, bits, mode)
        if mode not in ("nvfp4", "mxfp8"):
            raise ValueError(
                f"[Linear] inputs are quantised in the modes nvfp4 and mxfp8, got {mode!r}."
            )
        return QQLinear.from_linear(self, group_size, bits, mode)


class Bilinear(Module):
    """For each output feature i: `x2 @ weight[i] @ x1 + bias[i]`.

    The parameters are initially uniform in plus or minus 1 / sqrt(`input1_dims`).

    Args:
        input1_dims: The number of features of the first input.
        input2_dims: The number of features of the second input.
        output_dims: The number of output features.
        bias: Whether to add a bias.
    """

    def __init__(
        self, input1_dims: Size, input2_dims: Size, output_dims: int, bias: bool = True
    ) -> None:
        super().__init__()
        scale = math.sqrt(1.0 / input1_dims)
        self.weight = mx.random.uniform(-scale, scale, (output_dims, input2_dims, input1_dims))
        if bias:
            self.bias = mx.random.uniform(-scale, scale, (output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input2_dims, input1_dims = self.weight.shape
        return (
            f"input1_dims={input1_dims}, input2_dims={input2_dims}, output_dims={output_dims}, "
            f"bias={'bias' in self}"
        )

    def __call__(self, x1: mx.array, x2: mx.array) -> mx.array:
        output_dims, input2_dims, input1_dims = self.weight.shape
        rows = x1.reshape(-1, input1_dims)
        # All products with the first input at once, then one small product per row.
        products = rows @ self.weight.reshape(-1, input1_dims).T
        products = products.reshape(-1, output_dims, input2_dims).swapaxes(-2, -1)
        y = x2.reshape(-1, 1, input2_dims) @ products
        y = y.reshape(*x1.shape[:-1], output_dims)
        return y + self.bias if "bias" in self else y
