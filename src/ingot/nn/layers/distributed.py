"""Sharded layers, for groups of one process: each layer has all its weights.

Programs that shard their models run unchanged, as they do with MLX when started once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import ingot.core as mx
from ingot.nn.layers.linear import Linear
from ingot.nn.layers.quantized import QuantizedLinear
from ingot.nn.module import Module
from ingot.nn.substitution import call_lent
from ingot.utils import tree_flatten, tree_map, tree_map_with_path

__all__ = [
    "AllToShardedLinear",
    "FullyShardedModule",
    "QuantizedAllToShardedLinear",
    "QuantizedShardedToAllLinear",
    "ShardedToAllLinear",
    "fully_shard",
]

Group = mx.distributed.Group
Sharding = Callable[[str, mx.array], Any]


def _checked_group(name: str, group: Group | None) -> Group:
    found = group or mx.distributed.init()
    if found.size() != 1:
        raise ValueError(f"[{name}] groups have one process, got one of {found.size()}.")
    return found


def _check_sharding(name: str, sharding: Any) -> None:
    if sharding not in ("all-to-sharded", "sharded-to-all"):
        raise ValueError(
            f"[{name}] sharding is 'all-to-sharded' or 'sharded-to-all', got {sharding!r}."
        )


def sum_gradients(group: Group) -> Callable[[mx.array], mx.array]:
    """A function that returns its input, and sums its gradient over the processes of a group.

    Args:
        group: The group of processes.
    """
    _checked_group("sum_gradients", group)
    return lambda x: x


def shard_inplace(
    module: Module,
    sharding: str | Sharding,
    *,
    segments: int | list[Any] = 1,
    group: Group | None = None,
) -> None:
    """Keep only this process's shard of a module's parameters: all of them.

    Args:
        module: The module.
        sharding: "all-to-sharded", "sharded-to-all", or a function of the path of a parameter and
            the parameter that returns the axis to shard it along, or that and the segments.
        segments: The number of stacked matrices in a parameter, each of which is sharded.
        group: The group of processes, all by default.
    """
    _checked_group("shard_inplace", group)
    if isinstance(sharding, str):
        _check_sharding("shard_inplace", sharding)
        return

    def check(path: str, parameter: mx.array) -> None:
        cut = sharding(path, parameter)
        if cut is not None and not isinstance(cut, (int, tuple)):
            raise ValueError(
                "[shard_inplace] the function returns an axis, an axis and segments, or None, got "
                f"{cut!r} for {path}."
            )

    tree_map_with_path(check, module.parameters())


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
        segments: The number of stacked matrices in the weights, each of which is sharded.
        group: The group of processes, all by default.
    """
    _check_sharding("shard_linear", sharding)
    outputs = sharding == "all-to-sharded"
    if isinstance(module, Linear):
        plain = AllToShardedLinear if outputs else ShardedToAllLinear
        return plain.from_linear(module, segments=segments, group=group)
    quantized = QuantizedAllToShardedLinear if outputs else QuantizedShardedToAllLinear
    return quantized.from_quantized_linear(module, segments=segments, group=group)


class _ShardedLinear(Linear):
    """A linear layer of a group of processes."""

    def __init__(
        self, input_dims: int, output_dims: int, bias: bool = True, group: Group | None = None
    ) -> None:
        super().__init__(input_dims, output_dims, bias)
        self.group = _checked_group(type(self).__name__, group)

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: int | list[Any] = 1, group: Group | None = None
    ) -> Self:
        """This process's shard of a linear layer.

        Args:
            linear_layer: The layer with the weights.
            segments: The number of stacked matrices in the weights, each of which is sharded.
            group: The group of processes, all by default.
        """
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        layer.update(linear_layer.parameters())
        return layer


class AllToShardedLinear(_ShardedLinear):
    """A linear layer of which each process of a group computes a shard of the outputs.

    Args:
        input_dims: The number of input features.
        output_dims: The number of output features, of all processes together.
        bias: Whether to add a bias.
        group: The group of processes, all by default.
    """


class ShardedToAllLinear(_ShardedLinear):
    """A linear layer of which each process of a group has a shard of the inputs; all have the
    outputs.

    Args:
        input_dims: The number of input features, of all processes together.
        output_dims: The number of output features.
        bias: Whether to add a bias.
        group: The group of processes, all by default.
    """


class _QuantizedShardedLinear(QuantizedLinear):
    """A quantised linear layer of a group of processes; it stays frozen."""

    _always_frozen = frozenset({"weight", "scales", "biases", "bias"})

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: Group | None = None,
    ) -> None:
        super().__init__(input_dims, output_dims, bias, group_size, bits, mode)
        self.group = _checked_group(type(self).__name__, group)

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
            segments: The number of stacked matrices in the weights, each of which is sharded.
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
            source.mode,
            group,
        )
        layer.update(source.parameters())
        return layer


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


class QuantizedShardedToAllLinear(_QuantizedShardedLinear):
    """A quantised `ShardedToAllLinear`, whose parameters are frozen.

    Args:
        input_dims: The number of input features, of all processes together.
        output_dims: The number of output features.
        bias: Whether to add a bias.
        group_size: The number of weights that share a scale; see `mx.quantize`.
        bits: The number of bits per weight.
        mode: The mode of quantisation.
        group: The group of processes, all by default.
    """


class FullyShardedModule(Module):
    """A module whose parameters are sharded over the processes of a group.

    For each call, the parameters are gathered, and cast if `compute_dtype` is given.

    Args:
        module: The module.
        group: The group of processes, all by default.
        compute_dtype: The dtype of the parameters in calls; their own by default.
    """

    def __init__(
        self,
        module: Module,
        group: Group | None = None,
        compute_dtype: mx.Dtype | None = None,
    ) -> None:
        super().__init__()
        _checked_group("FullyShardedModule", group)
        for path, parameter in tree_flatten(module.parameters()):
            if parameter.ndim == 0:
                raise ValueError(
                    f"[FullyShardedModule] parameter {path} is a scalar, which cannot be sharded."
                )
        self.module = module
        self.compute_dtype = compute_dtype

    def _extra_repr(self) -> str:
        return f"num_sharded_params={len(tree_flatten(self.module.parameters()))}"

    def _gathered(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function while the module has all of its parameters."""
        dtype = self.compute_dtype
        if dtype is None:
            return function(*args, **kwargs)
        gathered = tree_map(lambda x: x.astype(dtype), self.module.parameters())
        return call_lent(self.module, gathered, function, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._gathered(self.module, *args, **kwargs)

    def as_linear(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `as_linear` of the module, for tables of vectors.

        Args:
            args: What the method takes.
            kwargs: What the method takes by name.
        """
        return self._gathered(self.module.as_linear, *args, **kwargs)


def fully_shard(
    module: Module,
    *,
    group: Group | None = None,
    compute_dtype: mx.Dtype | None = None,
) -> Module:
    """Shard a module's parameters over the processes of a group: with one process, the module
    itself.

    Args:
        module: The module.
        group: The group of processes, all by default.
        compute_dtype: The dtype of the parameters in calls, if there are several processes.
    """
    _checked_group("fully_shard", group)
    return module
