"""Random vectors: normally distributed ones whose elements depend on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float32
from ingot.graph.libraries import prepare_blas
from ingot.graph.op import apply, no_rule
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, broadcast_shapes, shape_text
from ingot.ops.elementwise.arithmetic import add
from ingot.ops.elementwise.casting import astype, only_array
from ingot.ops.products.contraction import matmul
from ingot.ops.random.distributions import checked_dtype, checked_shape, normal
from ingot.ops.random.state import key_or_next
from ingot.ops.shape.movement import expand_dims, squeeze

__all__ = ["multivariate_normal"]


class CovarianceRoot(Host):
    """Symmetric square roots of symmetric positive matrices, by their singular values."""

    def infer(self, covariance: array) -> tuple[Shape, Dtype]:
        return covariance.shape, covariance.dtype

    def evaluate(self, covariance: np.ndarray) -> Any:
        if not np.isfinite(covariance).all():
            raise RuntimeError("[multivariate_normal] cov has elements that are NaN or infinite.")
        prepare_blas()
        left, values, right = np.linalg.svd(covariance)
        return (left * np.sqrt(values)[..., None, :]) @ right

    def vmap(self, size: int, batched: tuple[bool, ...], covariance: array) -> array:
        return apply(self, covariance)

    vjp = no_rule("the singular values that it is made of have none in MLX")
    jvp = no_rule("the singular values that it is made of have none in MLX")


_root = CovarianceRoot()


def multivariate_normal(
    mean: array,
    cov: array,
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Normally distributed vectors, given their mean and the covariances of their elements.

    Args:
        mean: An array of shape (..., n).
        cov: An array of shape (..., n, n); its matrices are symmetric and not negative.
        shape: The shape of the result without its last axis, to which those of `mean` and `cov`
            are broadcast.
        dtype: float32.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    name = "multivariate_normal"
    only_array(name, mean)
    only_array(name, cov)
    lengths = checked_shape(name, shape)
    wanted = checked_dtype(name, dtype)
    if wanted is not float32:
        raise ValueError(f"[{name}] makes float32 numbers only, not {wanted.name}.")
    shapes = f"got shapes {shape_text(mean.shape)} and {shape_text(cov.shape)}"
    if mean.ndim < 1 or cov.ndim < 2:
        raise ValueError(f"[{name}] mean has at least one axis and cov two, {shapes}.")
    size = mean.shape[-1]
    if cov.shape[-2] != size or cov.shape[-1] != size:
        raise ValueError(f"[{name}] mean has shape (..., n) and cov (..., n, n), {shapes}.")
    full = broadcast_shapes(name, cov.shape[:-2], mean.shape[:-1], lengths)
    used = key_or_next(name, key)
    root = apply(_root, astype(cov, float32, stream), stream=stream)
    samples = normal((*full, size), float32, key=used, stream=stream)
    if cov.ndim == 2:
        return add(mean, matmul(samples, root, stream=stream), stream=stream)
    rows = matmul(expand_dims(samples, -2, stream=stream), root, stream=stream)
    return add(mean, squeeze(rows, -2, stream=stream), stream=stream)
