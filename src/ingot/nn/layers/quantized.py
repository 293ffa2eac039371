"""Layers with quantised weights, and the conversion of a model's layers to these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.nn.module import Module
from ingot.utils import tree_map_with_path

__all__ = ["QQLinear", "QuantizedEmbedding", "QuantizedLinear", "quantize"]

# Default group size and number of bits of each mode.
_DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}


def quantize(
    model: Module,
    group_size: int | None = None,
    bits: int | None = None,
    *,
    mode: str = "affine",
    quantize_input: bool = False,
    class_predicate: Callable[[str, Module], bool | dict[str, Any]] | None = None,
) -> None:
    """Replace the layers of a model that have a method `to_quantized` with quantised ones.

    Args:
        model: The model, which is changed. If a layer cannot be quantised it stays as it was.
        group_size: The number of weights that share a scale; see `mx.quantize`.
        bits: The number of bits per weight.
        mode: The mode of quantisation.
        quantize_input: Whether linear layers quantise their inputs too: modes nvfp4 and mxfp8.
        class_predicate: A function of the path of a layer and the layer that says whether it is
            quantised, or with which arguments of `to_quantized`.
    """
    options: dict[str, Any] = {"group_size": group_size, "bits": bits, "mode": mode}
    if quantize_input:
        options["quantize_input"] = True

    def replacement(path: str, layer: Any) -> Any:
        if class_predicate is None:
            wanted: Any = hasattr(layer, "to_quantized")
        else:
            wanted = class_predicate(path, layer)
        if not wanted:
            return layer
        if not hasattr(layer, "to_quantized"):
            raise ValueError(
                f"[quantize] {path} is a {type(layer).__name__}, which has no method to_quantized: "
                "let class_predicate return False for it."
            )
        if isinstance(wanted, bool):
            return layer.to_quantized(**options)
        if not isinstance(wanted, dict):
            raise ValueError(
                "[quantize] class_predicate returns True, False or a dict of arguments of "
                f"to_quantized, got {wanted!r} for {path}."
            )
        given = {key: value for key, value in wanted.items() if key != "quantize_input" or value}
        return layer.to_quantized(**given)

    layers = tree_map_with_path(replacement, model.leaf_modules(), is_leaf=Module.is_module)
    model.update_modules(layers)


class QuantizedWeight(Module):
    """A layer with a quantised, frozen weight matrix."""

    def __init__(self, group_size: int | None, bits: int | None, mode: str) -> None:
        super().__init__()
        if mode not in _DEFAULTS:
            raise ValueError(
                f"[{type(self).__name__}] the modes of quantisation are {', '.join(_DEFAULTS)}, "
                f"got {mode!r}."
            )
        default_size, default_bits = _DEFAULTS[mode]
        self.group_size = group_size or default_size
        self.bits = bits or default_bits
        self.mode = mode

    @property
    def _options(self) -> dict[str, Any]:
        return {"group_size": self.group_size, "bits": self.bits, "mode": self.mode}

    def _quantize(self, weight: mx.array) -> None:
        """Store the codes of a matrix as the weights."""
        self.weight, self.scales, *biases = mx.quantize(weight, **self._options)
        self.biases = biases[0] if biases else None

    def _product(self, x: mx.array) -> mx.array:
        """`x` times the transposed matrix."""
        return mx.quantized_matmul(
            x,
            self["weight"],
            self["scales"],
            self.get("biases"),
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    def _shape(self) -> tuple[int, int]:
        """The shape of the decoded matrix."""
        rows, words = self.weight.shape
        return rows, words * 32 // self.bits

    def _options_text(self) -> str:
        return f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"


class QuantizedEmbedding(QuantizedWeight):
    """A quantised `Embedding`.

    Args:
        num_embeddings: The number of vectors.
        dims: The length of the vectors.
        group_size: The number of elements that share a scale; see `mx.quantize`.
        bits: The number of bits per number.
        mode: The mode of quantisation.
    """

    def __init__(
        self,
        num_embeddings: int,
        dims: Size,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__(group_size, bits, mode)
        self._quantize(mx.random.normal((num_embeddings, dims), scale=math.sqrt(1 / dims)))
        self.num_embeddings = num_embeddings
        self.dims = dims
        self.freeze()

    def _extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.dims}, {self._options_text()}"

    def __call__(self, x: mx.array) -> mx.array:
        biases = self.get("biases")
        return mx.dequantize(
            self["weight"][x],
            self["scales"][x],
            None if biases is None else biases[x],
            **self._options,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        """The products of x with all vectors: the table as the weights of a linear layer."""
        return self._product(x)

    @classmethod
    def from_embedding(
        cls,
        embedding_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> Self:
        """The layer that approximates an `Embedding`.

        Args:
            embedding_layer: The layer with the vectors.
            group_size: The number of elements that share a scale; see `mx.quantize`.
            bits: The number of bits per number.
            mode: The mode of quantisation.
        """
        num_embeddings, dims = embedding_layer.weight.shape
        layer = cls(num_embeddings, dims, group_size, bits, mode=mode)
        layer._quantize(embedding_layer.weight)
        return layer


class QuantizedLinear(QuantizedWeight):
    """A linear layer whose weights are quantised and frozen: `x @ weight.T + bias`.

    Args:
        input_dims: The number of input features.
        output_dims: The number of output features.
        bias: Whether to add a bias.
        group_size: The number of weights that share a scale; see `mx.quantize`.
        bits: The number of bits per weight.
        mode: The mode of quantisation.
    """

    def __init__(
        self,
        input_dims: Size,
        output_dims: int,
        bias: bool = True,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__(group_size, bits, mode)
        scale = math.sqrt(1 / input_dims)
        self._quantize(mx.random.uniform(-scale, scale, (output_dims, input_dims)))
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def _extra_repr(self) -> str:
        output_dims, input_dims = self._shape()
        return (
            f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}, "
            f"{self._options_text()}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = self._product(x)
        return y + self.bias if "bias" in self else y

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> Self:
        """The layer that approximates a `Linear`; its bias is the same array.

        Args:
            linear_layer: The layer with the weights.
            group_size: The number of weights that share a scale; see `mx.quantize`.
            bits: The number of bits per weight.
            mode: The mode of quantisation.
        """
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, False, group_size, bits, mode=mode)
        layer._quantize(linear_layer.weight)
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
        return layer


class QQLinear(QuantizedWeight):
    """A linear layer that quantises its inputs as well as its weights: `x @ weight.T`.

    In training mode the weights are kept as they are and quantised in each call, so that they have
    a gradient; `eval` quantises them, and `train` takes the quantised ones as weights.

    Args:
        input_dims: The number of input features.
        output_dims: The number of output features.
        group_size: The number of weights that share a scale; see `mx.quantize`.
        bits: The number of bits per weight.
        mode: The mode of quantisation: "nvfp4" or "mxfp8".
    """

    def __init__(
        self,
        input_dims: Size,
        output_dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> None:
        super().__init__(group_size, bits, mode)
        scale = math.sqrt(1 / input_dims)
        self.weight = mx.random.uniform(-scale, scale, (output_dims, input_dims))
        self._quantized = False

    def _extra_repr(self) -> str:
        output_dims, input_dims = self._shape() if self._quantized else self.weight.shape
        return f"input_dims={input_dims}, output_dims={output_dims}, {self._options_text()}"

    def quantize(self) -> None:
        """Replace the weights with their codes."""
        if not self._quantized:
            self.weight, self.scales = mx.quantize(self.weight, **self._options)
            self._quantized = True

    def dequantize(self) -> None:
        """Replace the codes with the decoded weights."""
        if self._quantized:
            self.weight = mx.dequantize(self.weight, self.scales, **self._options)
            del self.scales
            self._quantized = False

    def _set_training_mode(self, mode: bool) -> None:
        super()._set_training_mode(mode)
        if mode:
            self.dequantize()
        else:
            self.quantize()

    def __call__(self, x: mx.array) -> mx.array:
        return mx.qqmm(x, self["weight"], scales=self.get("scales"), **self._options)

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> Self:
        """The layer with the weights of a `Linear`, which must have no bias.

        Args:
            linear_layer: The layer with the weights.
            group_size: The number of weights that share a scale; see `mx.quantize`.
            bits: The number of bits per weight.
            mode: The mode of quantisation: "nvfp4" or "mxfp8".
        """
        if linear_layer.get("bias") is not None:
            raise NotImplementedError(
                "[QQLinear] there is no bias: make the linear layer with bias=False."
            )
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, group_size, bits, mode=mode)
        layer.weight = linear_layer.weight
        layer.train(linear_layer.training)
        return layer
