"""Attention and transformers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ingot.core as mx
from ingot.graph.boundary import Number, Size
from ingot.nn.layers.activations.functions import relu
from ingot.nn.layers.dropout import Dropout
from ingot.nn.layers.linear import Linear
from ingot.nn.layers.normalization import LayerNorm
from ingot.nn.module import Module
from ingot.nn.utils import checkpoint as checkpointed

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = Callable[[Any], Any]


class MultiHeadAttention(Module):
    """Multi-head attention: means of values, weighted by how well keys match queries.

    Queries, keys, values and the result are linear functions of their inputs.

    Args:
        dims: The number of features, and the default for all others. The heads share it.
        num_heads: The number of heads.
        query_input_dims: The number of features of the inputs for queries.
        key_input_dims: The number of features of the inputs for keys.
        value_input_dims: The number of features of the inputs for values; that of keys by default.
        value_dims: The number of features of the values.
        value_output_dims: The number of features of the result.
        bias: Whether the linear functions have a bias.
    """

    def __init__(
        self,
        dims: Size,
        num_heads: Size,
        query_input_dims: int | None = None,
        key_input_dims: int | None = None,
        value_input_dims: int | None = None,
        value_dims: int | None = None,
        value_output_dims: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if dims % num_heads != 0:
            raise ValueError(
                "[MultiHeadAttention] the number of features must be a multiple of the number of "
                f"heads, got {dims} features and {num_heads} heads."
            )
        key_input_dims = key_input_dims or dims
        value_dims = value_dims or dims
        self.num_heads = num_heads
        self.query_proj = Linear(query_input_dims or dims, dims, bias=bias)
        self.key_proj = Linear(key_input_dims, dims, bias=bias)
        self.value_proj = Linear(value_input_dims or key_input_dims, value_dims, bias=bias)
        self.out_proj = Linear(value_dims, value_output_dims or dims, bias=bias)

    def __call__(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        mask: mx.array | str | None = None,
    ) -> mx.array:
        """One vector for each query.

        Args:
            queries: Inputs of shape (B, T, D).
            keys: Inputs of shape (B, S, D).
            values: Inputs of shape (B, S, D).
            mask: What to add to the scores of shape (B, heads, T, S), such as -inf where a query
                must not see a key.
        """
        q = self._heads(self.query_proj(queries))
        k = self._heads(self.key_proj(keys))
        v = self._heads(self.value_proj(values))
        scale = math.sqrt(1 / q.shape[-1])
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
        return self.out_proj(y.swapaxes(1, 2).flatten(-2, -1))

    def _heads(self, x: mx.array) -> mx.array:
        """(B, T, D) as (B, heads, T, D / heads)."""
        return mx.unflatten(x, -1, (self.num_heads, -1)).swapaxes(1, 2)

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """A mask that hides later positions: the lowest number of the dtype there, otherwise 0.

        Args:
            N: The length of the sequence.
            dtype: The dtype of the mask.
        """
        positions = mx.arange(N)
        later = positions[:, None] < positions
        return later.astype(dtype) * mx.finfo(dtype).min


class TransformerEncoderLayer(Module):
    """Self-attention, then a position-wise MLP.

    Args:
        dims: The number of features.
        num_heads: The number of heads.
        mlp_dims: The number of hidden features of the perceptron; four times `dims` by default.
        dropout: The probability of dropout.
        activation: The perceptron's activation function.
        norm_first: Whether to normalise before each sublayer instead of after it.
    """

    def __init__(
        self,
        dims: Size,
        num_heads: Size,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def __call__(self, x: mx.array, mask: mx.array | str | None) -> mx.array:
        if self.norm_first:
            x = x + self._attended(self.ln1(x), mask)
            return x + self._perceptron(self.ln2(x))
        x = self.ln1(x + self._attended(x, mask))
        return self.ln2(x + self._perceptron(x))

    def _attended(self, x: mx.array, mask: mx.array | str | None) -> mx.array:
        return self.dropout1(self.attention(x, x, x, mask))

    def _perceptron(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout2(self.activation(self.linear1(x))))


class _Stack(Module):
    """Shared by encoders and decoders: several layers and a normalisation."""

    _layer: type[Any]

    def __init__(
        self,
        num_layers: Number,
        dims: Size,
        num_heads: Size,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.layers = [
            self._layer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def _through(self, x: mx.array, *others: mx.array | str | None) -> mx.array:
        for layer in self.layers:
            function = checkpointed(layer) if self.checkpoint else layer
            x = function(x, *others)
        return self.ln(x)


class TransformerEncoder(_Stack):
    """Several `TransformerEncoderLayer`s and a normalisation.

    Args:
        num_layers: The number of layers.
        dims: The number of features.
        num_heads: The number of heads.
        mlp_dims: The number of hidden features of the perceptrons; four times `dims` by default.
        dropout: The probability of dropout.
        activation: The perceptrons' activation function.
        norm_first: Whether to normalise before each sublayer instead of after it.
        checkpoint: Whether to recompute the layers' values for the gradient, to save memory.
    """

    _layer = TransformerEncoderLayer

    def __call__(self, x: mx.array, mask: mx.array | str | None) -> mx.array:
        return self._through(x, mask)


class TransformerDecoderLayer(Module):
    """Self-attention and attention to a memory, then a position-wise MLP.

    Args:
        dims: The number of features.
        num_heads: The number of heads.
        mlp_dims: The number of hidden features of the perceptron; four times `dims` by default.
        dropout: The probability of dropout.
        activation: The perceptron's activation function.
        norm_first: Whether to normalise before each sublayer instead of after it.
    """

    def __init__(
        self,
        dims: Size,
        num_heads: Size,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.self_attention = MultiHeadAttention(dims, num_heads)
        self.cross_attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.ln3 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def __call__(
        self,
        x: mx.array,
        memory: mx.array,
        x_mask: mx.array | str | None,
        memory_mask: mx.array | str | None,
    ) -> mx.array:
        if self.norm_first:
            y = self.ln1(x)
            x = x + self.dropout1(self.self_attention(y, y, y, x_mask))
            y = self.ln2(x)
            x = x + self.dropout2(self.cross_attention(y, memory, memory, memory_mask))
            return x + self._perceptron(self.ln3(x))
        x = self.ln1(x + self.dropout1(self.self_attention(x, x, x, x_mask)))
        y = self.cross_attention(x, memory, memory, memory_mask)
        x = self.ln2(x + self.dropout2(y))
        return self.ln3(x + self._perceptron(x))

    def _perceptron(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout3(self.activation(self.linear1(x))))


class TransformerDecoder(_Stack):
    """Several `TransformerDecoderLayer`s and a normalisation.

    Args:
        num_layers: The number of layers.
        dims: The number of features.
        num_heads: The number of heads.
        mlp_dims: The number of hidden features of the perceptrons; four times `dims` by default.
        dropout: The probability of dropout.
        activation: The perceptrons' activation function.
        norm_first: Whether to normalise before each sublayer instead of after it.
        checkpoint: Whether to recompute the layers' values for the gradient, to save memory.
    """

    _layer = TransformerDecoderLayer

    def __call__(
        self,
        x: mx.array,
        memory: mx.array,
        x_mask: mx.array | str | None,
        memory_mask: mx.array | str | None,
    ) -> mx.array:
        return self._through(x, memory, x_mask, memory_mask)


class Transformer(Module):
    """An encoder, and a decoder that attends to the encoder's result.

    Args:
        dims: The number of features.
        num_heads: The number of heads.
        num_encoder_layers: The number of layers of the encoder.
        num_decoder_layers: The number of layers of the decoder.
        mlp_dims: The number of hidden features of the perceptrons; four times `dims` by default.
        dropout: The probability of dropout.
        activation: The perceptrons' activation function.
        custom_encoder: What to use instead of a `TransformerEncoder`.
        custom_decoder: What to use instead of a `TransformerDecoder`.
        norm_first: Whether to normalise before each sublayer instead of after it.
        checkpoint: Whether to recompute the layers' values for the gradient, to save memory.
    """

    def __init__(
        self,
        dims: Size = 512,
        num_heads: Size = 8,
        num_encoder_layers: Number = 6,
        num_decoder_layers: Number = 6,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        custom_encoder: Callable[..., Any] | None = None,
        custom_decoder: Callable[..., Any] | None = None,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        shared = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
        self.encoder = (
            TransformerEncoder(num_encoder_layers, *shared)
            if custom_encoder is None
            else custom_encoder
        )
        self.decoder = (
            TransformerDecoder(num_decoder_layers, *shared)
            if custom_decoder is None
            else custom_decoder
        )

    def __call__(
        self,
        src: mx.array,
        tgt: mx.array,
        src_mask: mx.array | str | None,
        tgt_mask: mx.array | str | None,
        memory_mask: mx.array | str | None,
    ) -> mx.array:
        """The decoder's result for `tgt`, given `src`.

        Args:
            src: The encoder's input, of shape (B, S, D).
            tgt: The decoder's input, of shape (B, T, D).
            src_mask: The mask of the encoder's attention.
            tgt_mask: The mask of the decoder's attention to itself.
            memory_mask: The mask of the decoder's attention to the encoder.
        """
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)
