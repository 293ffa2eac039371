"""Normalisation layers."""

from __future__ import annotations

from math import prod

import ingot.core as mx
from ingot.nn.errors import input_error
from ingot.nn.module import Module

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


def _check_eps(module: Module, eps: float) -> None:
    if eps <= 0:
        raise ValueError(f"[{type(module).__name__}] eps must be positive, got {eps}.")


class LayerNorm(Module):
    """Normalises the features of each element to mean 0 and variance 1, then scales and shifts
    them.

    Args:
        dims: The number of features, along the last axis.
        eps: Added to the variance for numerical stability.
        affine: Whether to learn scales, initially 1.
        bias: Whether to learn shifts too, initially 0.
    """

    def __init__(
        self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True
    ) -> None:
        super().__init__()
        _check_eps(self, eps)
        if affine:
            self.weight = mx.ones((dims,))
            if bias:
                self.bias = mx.zeros((dims,))
        self.eps = eps
        self.dims = dims

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(Module):
    """Divides the features of each element by the root of their mean square, then scales them.

    Args:
        dims: The number of features, along the last axis. The learnt scales are initially 1.
        eps: Added to the mean square for numerical stability.
    """

    def __init__(self, dims: int, eps: float = 1e-5) -> None:
        super().__init__()
        _check_eps(self, eps)
        self.weight = mx.ones((dims,))
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self.weight, self.eps)


class InstanceNorm(Module):
    """Normalises each feature of each example to mean 0 and variance 1.

    Inputs have the shape (N, ..., C); mean and variance are taken over all axes between.

    Args:
        dims: The number of features C.
        eps: Added to the variance for numerical stability.
        affine: Whether to learn scales and shifts, initially 1 and 0.
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        _check_eps(self, eps)
        if affine:
            self.weight = mx.ones((dims,))
            self.bias = mx.zeros((dims,))
        self.dims = dims
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise ValueError(
                "[InstanceNorm] expected an input with at least 3 dimensions, (N, ..., C), got "
                f"shape {x.shape}."
            )
        channels_first = mx.moveaxis(x, -1, 1)
        rows = channels_first.reshape(*channels_first.shape[:2], -1)
        normalized = mx.fast.layer_norm(rows, None, None, self.eps).reshape(channels_first.shape)
        y = mx.moveaxis(normalized, 1, -1)
        return self.weight * y + self.bias if "weight" in self else y


class GroupNorm(Module):
    """Normalises each group of features of each example to mean 0 and variance 1.

    Inputs have the shape (N, ..., C); mean and variance are taken over all axes between and over
    the features of the group.

    Args:
        num_groups: The number of groups.
        dims: The number of features C, a multiple of the number of groups.
        eps: Added to the variance for numerical stability.
        affine: Whether to learn scales and shifts, initially 1 and 0.
        pytorch_compatible: Whether neighbouring features make a group, as in PyTorch. Otherwise
            feature i is in group i modulo `num_groups`.
    """

    def __init__(
        self,
        num_groups: int,
        dims: int,
        eps: float = 1e-5,
        affine: bool = True,
        pytorch_compatible: bool = False,
    ) -> None:
        super().__init__()
        _check_eps(self, eps)
        if num_groups <= 0 or dims <= 0 or dims % num_groups != 0:
            raise ValueError(
                "[GroupNorm] the number of features must be a positive multiple of the number of "
                f"groups, got {dims} features and {num_groups} groups."
            )
        if affine:
            self.bias = mx.zeros((dims,))
            self.weight = mx.ones((dims,))
        self.num_groups = num_groups
        self.dims = dims
        self.eps = eps
        self.pytorch_compatible = pytorch_compatible

    def _extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.dims}, eps={self.eps}, affine={'weight' in self}, "
            f"pytorch_compatible={self.pytorch_compatible}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 2:
            raise ValueError(f"[GroupNorm] x must have the shape (N, ..., C), got shape {x.shape}.")
        try:
            y = self._grouped(x)
            return self.weight * y + self.bias if "weight" in self else y
        except ValueError as error:
            raise input_error(self, x, self.dims, error) from None

    def _grouped(self, x: mx.array) -> mx.array:
        if self.pytorch_compatible:
            return self._neighbours_grouped(x)
        return self._every_nth_grouped(x)

    def _neighbours_grouped(self, x: mx.array) -> mx.array:
        batch, dims = x.shape[0], x.shape[-1]
        groups = x.reshape(batch, -1, self.num_groups, dims // self.num_groups).swapaxes(1, 2)
        normalized = mx.fast.layer_norm(
            groups.reshape(batch, self.num_groups, -1), None, None, self.eps
        )
        return normalized.reshape(groups.shape).swapaxes(1, 2).reshape(x.shape)

    def _every_nth_grouped(self, x: mx.array) -> mx.array:
        groups = x.reshape(x.shape[0], -1, self.num_groups)
        mean = mx.mean(groups, axis=1, keepdims=True)
        variance = mx.var(groups, axis=1, keepdims=True)
        return ((groups - mean) * mx.rsqrt(variance + self.eps)).reshape(x.shape)


class BatchNorm(Module):
    """Normalises each feature to mean 0 and variance 1 over the batch, then scales and shifts it.

    Inputs have the shape (N, C), (N, L, C) or (N, H, W, C). In training mode, mean and variance are
    those of the input, and running averages of them are kept, which evaluation mode uses. The
    averages are parameters that are always frozen.

    Args:
        num_features: The number of features C.
        eps: Added to the variance for numerical stability.
        momentum: The share of a new batch in the running averages.
        affine: Whether to learn scales and shifts, initially 1 and 0.
        track_running_stats: Whether to keep running averages. Without, evaluation mode takes mean
            and variance of the input too.
    """

    _always_frozen = frozenset({"running_mean", "running_var"})

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        _check_eps(self, eps)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = mx.ones((num_features,))
            self.bias = mx.zeros((num_features,))
        if track_running_stats:
            self.running_mean = mx.zeros((num_features,))
            self.running_var = mx.ones((num_features,))
            self.freeze(keys=["running_mean", "running_var"], recurse=False)

    def _extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={'weight' in self}, track_running_stats={self.track_running_stats}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        if not 2 <= x.ndim <= 4:
            raise ValueError(
                f"[BatchNorm] expected an input with 2, 3 or 4 dimensions, got shape {x.shape}."
            )
        if x.shape[-1] != self.num_features:
            raise ValueError(
                f"[BatchNorm] expected {self.num_features} features along the last axis, got shape "
                f"{x.shape}. Channels come last: (N, H, W, C)."
            )
        if self.training and prod(x.shape[:-1]) == 1:
            raise ValueError(
                "[BatchNorm] training needs more than one value of each feature, got shape "
                f"{x.shape}."
            )
        mean, variance = self._statistics(x)
        y = (x - mean) * mx.rsqrt(variance + self.eps)
        return self.weight * y + self.bias if "weight" in self else y

    def _statistics(self, x: mx.array) -> tuple[mx.array, mx.array]:
        """The mean and variance to use; in training mode, updates the running averages."""
        if self.track_running_stats and not self.training:
            return self.running_mean, self.running_var
        axes = tuple(range(x.ndim - 1))
        mean = mx.mean(x, axis=axes)
        variance = mx.var(x, axis=axes)
        if self.track_running_stats:
            share = self.momentum
            unbiased = mx.var(x, axis=axes, ddof=1)
            self.running_mean = (1 - share) * self.running_mean + share * mean
            self.running_var = (1 - share) * self.running_var + share * unbiased
        return mean, variance
