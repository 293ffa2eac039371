"""Embedding tables."""

from __future__ import annotations

import math

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.nn.layers.quantized import QuantizedEmbedding
from ingot.nn.module import Module

__all__ = ["Embedding"]


class Embedding(Module):
    """A learnt vector for each of the integers 0 to `num_embeddings` - 1.

    The vectors are initially normal with variance 1 / `dims`.

    Args:
        num_embeddings: The number of vectors, for example of the words of a vocabulary.
        dims: The length of the vectors.
    """

    def __init__(self, num_embeddings: int, dims: Size) -> None:
        super().__init__()
        self.weight = mx.random.normal((num_embeddings, dims), scale=math.sqrt(1 / dims))

    def _extra_repr(self) -> str:
        num_embeddings, dims = self.weight.shape
        return f"{num_embeddings}, {dims}"

    def __call__(self, x: mx.array) -> mx.array:
        return self.weight[x]

    def as_linear(self, x: mx.array) -> mx.array:
        """The products of x with all vectors: the table as the weights of a linear layer.

        For models whose input and output layers share their weights.
        """
        return x @ self.weight.T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedEmbedding:
        """The layer with quantised vectors that approximates this one.

        Args:
            group_size: The number of elements that share a scale; see `mx.quantize`.
            bits: The number of bits per number.
            mode: The mode of quantisation.
            quantize_input: Must be False: the inputs are integers.
        """
        if quantize_input:
            raise ValueError("[Embedding] its inputs are integers, which are not quantised.")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
