"""Sharded layers: each process of a group has a part of the weights.

In a group of one process, a layer has all its weights, and programs run as they do with MLX when
started once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Self

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.nn.layers.fully_sharded import FullyShardedModule, fully_shard
from ingot.nn.layers.linear import Linear
from ingot.nn.module import Module
from ingot.nn.shards import Sharding, shard_length, sharded

__all__ = [
    "AllToShardedLinear",
    "FullyShardedModule",
    "QuantizedAllToShardedLinear",
    "QuantizedShardedToAllLinear",
    "ShardedToAllLinear",
    "fully_shard",
]

Group = mx.distributed.Group


def _check_sharding(name: str, sharding: Any) -> None:
    if sharding not in ("all-to-sharded", "sharded-to-all"):
        raise ValueError(
            f"[{name}] sharding is 'all-to-sharded' or 'sharded-to-all', got {sharding!r}."
        )


@lru_cache
def sum_gradients(group: Group) -> Callable[[mx.array], mx.array]:
    """A function that returns its input, and sums its gradient over the processes of a group.

    Args:
        group: The group of processes.
    """
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def unchanged(x: mx.array) -> mx.array:
        return x

    @unchanged.vjp
    def summed(x: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
        return mx.distributed.all_sum(cotangent, group=group)

    return summed


def _all_to_sharded(segments: Any) -> Sharding:
    """Along outputs: the rows of weights, and biases."""

    def axis(path: str, weight: mx.array) -> Any:
        return (-1 if path.endswith("bias") else max(weight.ndim - 2, 0)), segments

    return axis


def _sharded_to_all(segments: Any) -> Sharding:
    """Along inputs: the columns of weights; the bias stays whole."""

    def axis(path: str, weight: mx.array) -> Any:
        return None if path.endswith("bias") else (-1, segments)

    return axis


def shard_inplace(
    module: Module,
    sharding: str | Sharding,
    *,
    segments: int | list[Any] = 1,
    group: Group | None = None,
) -> None:
    """Keep only this process's shard of a module's parameters.

    The module itself stays what it is: it has to communicate by itself if it should.

    Args:
        module: The module.
        sharding: "all-to-sharded", "sharded-to-all", or a function of the path of a parameter and
            the parameter that returns the axis to shard it along, or that and the segments.
        segments: The number of stacked matrices in a parameter, each of which is sharded, or where
            they are cut.
        group: The group of processes, all by default.
    """
    if isinstance(sharding, str):
        _check_sharding("shard_inplace", sharding)
        kind = _all_to_sharded if sharding == "all-to-sharded" else _sharded_to_all
        sharding = kind(segments)
    module.update(sharded(module.parameters(), sharding, group or mx.distributed.init()))


def shard_linear(
    module: Module,
    sharding: str,
    *,
    segments: int | list[Any] = 1,
    group: Group | None = None,
) -> Module:
    """A layer that computes this process's shard of a linear layer.

    Args:
        module: The linear layer, quantised or not, which stays as it is.
        sharding: "all-to-sharded" or "sharded-to-all": whether outputs or inputs are sharded.
        segments: The number of stacked matrices in the weights, each of which is sharded, or where
            they are cut.
        group: The group of processes, all by default.
    """
    _check_sharding("shard_linear", sharding)
    outputs = sharding == "all-to-sharded"
    if isinstance(module, Linear):
        plain = AllToShardedLinear if outputs else ShardedToAllLinear
        return plain.from_linear(module, segments=segments, group=group)
    quantized = QuantizedAllToShardedLinear if outputs else QuantizedShardedToAllLinear
    return quantized.from_quantized_linear(module, segments=segments, group=group)


def _limit(input_dims: int, output_dims: int) -> float:
    """The largest weight of a new layer."""
    if input_dims < 1 or output_dims < 1:
        raise ValueError(
            f"[Linear] a layer has at least one input and one output, got {input_dims} and "
            f"{output_dims}."
        )
    return math.sqrt(1.0 / input_dims)


class _ShardedLinear(Module):
    """A linear layer of a group of processes."""

    def __init__(
        self, input_dims: Size, output_dims: int, bias: bool = True, group: Group | None = None
    ) -> None:
        super().__init__()
        self.group = group or mx.distributed.init()
        self._whole = (input_dims, output_dims)  # of all processes together
        limit = _limit(input_dims, output_dims)
        rows, columns = self._own_shape(input_dims, output_dims)
        self.weight = mx.random.uniform(low=-limit, high=limit, shape=(rows, columns))
        if bias:
            self.bias = mx.random.uniform(low=-limit, high=limit, shape=(rows,))

    def _own_shape(self, input_dims: int, output_dims: int) -> tuple[int, int]:
        raise NotImplementedError

    _sharding: Callable[[Any], Sharding]

    def _extra_repr(self) -> str:
        input_dims, output_dims = self._whole
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: int | list[Any] = 1, group: Group | None = None
    ) -> Self:
        """This process's shard of a linear layer.

        Args:
            linear_layer: The layer with the weights.
            segments: The number of stacked matrices in the weights, each of which is sharded, or
                where they are cut.
            group: The group of processes, all by default.
        """
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        sharding = cls._sharding(segments)
        layer.update(sharded(linear_layer.parameters(), sharding, layer.group))
        return layer


class AllToShardedLinear(_ShardedLinear):
    """A linear layer of which each process of a group computes a shard of the outputs.

    Args:
        input_dims: The number of input features.
        output_dims: The number of output features, of all processes together.
        bias: Whether to add a bias.
        group: The group of processes, all by default.
    """

    _sharding = staticmethod(_all_to_sharded)

    def _own_shape(self, input_dims: int, output_dims: int) -> tuple[int, int]:
        return shard_length(output_dims, self.group), input_dims

    def __call__(self, x: mx.array) -> mx.array:
        x = sum_gradients(self.group)(x)
        if "bias" in self:
            return mx.addmm(self["bias"], x, self["weight"].T)
        return x @ self["weight"].T


class ShardedToAllLinear(_ShardedLinear):
    """A linear layer of which each process of a group has a shard of the inputs; all have the
    outputs.

    Args:
        input_dims: The number of input features, of all processes together.
        output_dims: The number of output features.
        bias: Whether to add a bias.
        group: The group of processes, all by default.
    """

    _sharding = staticmethod(_sharded_to_all)

    def _own_shape(self, input_dims: int, output_dims: int) -> tuple[int, int]:
        return output_dims, shard_length(input_dims, self.group)

    def __call__(self, x: mx.array) -> mx.array:
        x = mx.distributed.all_sum(x @ self["weight"].T, group=self.group)
        return x + self["bias"] if "bias" in self else x


class _QuantizedShardedLinear(Module):
    """A quantised linear layer of a group of processes; it stays frozen."""

    def __init__(
        self,
        input_dims: Size,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: Group | None = None,
    ) -> None:
        super().__init__()
        self.group_size = group_size
        self.bits = bits
        self.mode = mode
        self.group = group or mx.distributed.init()
        self._whole = (input_dims, output_dims)
        limit = _limit(input_dims, output_dims)
        rows, columns = self._own_shape(input_dims, output_dims)
        weight = mx.random.uniform(low=-limit, high=limit, shape=(rows, columns))
        self.weight, self.scales, *biases = mx.quantize(weight, group_size, bits, mode=mode)
        self.biases = biases[0] if biases else None
        if bias:
            self.bias = mx.zeros((rows,))
        self.freeze()

    def _own_shape(self, input_dims: int, output_dims: int) -> tuple[int, int]:
        raise NotImplementedError

    _sharding: Callable[[Any], Sharding]

    def unfreeze(self, *args: Any, **kwargs: Any) -> Self:
        """Unfreezes nothing of the layer itself, whose weights have no gradients.

        Args:
            args: What `Module.unfreeze` takes.
            kwargs: What `Module.unfreeze` takes by name.
        """
        super().unfreeze(*args, **kwargs)
        self.freeze(recurse=False)
        return self

    def _extra_repr(self) -> str:
        input_dims, output_dims = self._whole
        return (
            f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def _product(self, x: mx.array) -> mx.array:
        return mx.quantized_matmul(
            x,
            self["weight"],
            scales=self["scales"],
            biases=self.get("biases"),
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    @classmethod
    def from_quantized_linear(
        cls,
        quantized_linear_layer: Module,
        *,
        segments: int | list[Any] = 1,
        group: Group | None = None,
    ) -> Self:
        """This process's shard of a quantised linear layer.

        Args:
            quantized_linear_layer: The layer with the weights.
            segments: The number of stacked matrices in the weights, each of which is sharded, or
                where they are cut.
            group: The group of processes, all by default.
        """
        source = quantized_linear_layer
        output_dims, words = source.weight.shape
        layer = cls(
            words * 32 // source.bits,
            output_dims,
            "bias" in source,
            source.group_size,
            source.bits,
            getattr(source, "mode", "affine"),
            group,
        )
        units = cls._units(source)
        sharding = cls._sharding(segments)
        layer.update(sharded(source.parameters(), sharding, layer.group, units))
        return layer

    @staticmethod
    def _units(layer: Module) -> int | None:
        return None


class QuantizedAllToShardedLinear(_QuantizedShardedLinear):
    """A quantised `AllToShardedLinear`, whose parameters are frozen.

    Args:
        input_dims: The number of input features.
        output_dims: The number of output features, of all processes together.
        bias: Whether to add a bias.
        group_size: The number of weights that share a scale; see `mx.quantize`.
        bits: The number of bits per weight.
        mode: The mode of quantisation.
        group: The group of processes, all by default.
    """

    _sharding = staticmethod(_all_to_sharded)

    def _own_shape(self, input_dims: int, output_dims: int) -> tuple[int, int]:
        return shard_length(output_dims, self.group), input_dims

    def __call__(self, x: mx.array) -> mx.array:
        x = self._product(sum_gradients(self.group)(x))
        return x + self["bias"] if "bias" in self else x


class QuantizedShardedToAllLinear(_QuantizedShardedLinear):
    """A quantised `ShardedToAllLinear`, whose parameters are frozen. Shards are whole groups of
    weights that share a scale.

    Args:
        input_dims: The number of input features, of all processes together.
        output_dims: The number of output features.
        bias: Whether to add a bias.
        group_size: The number of weights that share a scale; see `mx.quantize`.
        bits: The number of bits per weight.
        mode: The mode of quantisation.
        group: The group of processes, all by default.
    """

    _sharding = staticmethod(_sharded_to_all)

    def _own_shape(self, input_dims: int, output_dims: int) -> tuple[int, int]:
        if input_dims % self.group_size:
            return output_dims, input_dims  # which `mx.quantize` refuses
        groups = shard_length(input_dims // self.group_size, self.group)
        return output_dims, groups * self.group_size

    @staticmethod
    def _units(layer: Module) -> int:
        count: int = layer.scales.shape[-1]
        return count

    def __call__(self, x: mx.array) -> mx.array:
        x = mx.distributed.all_sum(self._product(x), group=self.group)
        return x + self["bias"] if "bias" in self else x
