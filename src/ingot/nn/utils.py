"""Transforms of functions of models: gradients, checkpoints, and averages over processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import ingot.core as mx
from ingot.graph.reporting.foreign import name_missing
from ingot.nn.module import Module
from ingot.nn.substitution import call_lent
from ingot.ops.distributed.collectives import overlapped_sum
from ingot.tuning_distributed import BUCKETS, MIN_BUCKET_BYTES
from ingot.utils import tree_flatten, tree_map, tree_reduce, tree_unflatten

__all__ = ["average_gradients", "checkpoint", "clip_grad_norm_sharded", "value_and_grad"]

P = ParamSpec("P")
R = TypeVar("R")


def value_and_grad(model: Module, fn: Callable[P, R]) -> Callable[P, tuple[R, dict[str, Any]]]:
    """A function that returns the value of `fn` and its gradient with respect to the model's
    parameters.

    Args:
        model: The model, which `fn` calls. Its trainable parameters are followed.
        fn: A function that returns a scalar array, or a tuple that begins with one.

    Returns:
        A function of the arguments of `fn` that returns a pair: what `fn` returns, and a tree like
        that of `model.trainable_parameters()`.
    """
    by_parameters = _with_parameters(model, fn)
    differentiated: Callable[..., tuple[R, Any]] = mx.value_and_grad(by_parameters)

    def value_and_gradient(*args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        return differentiated(model.trainable_parameters(), *args, **kwargs)

    return _named_after(fn, value_and_gradient)


def checkpoint(module: Module, fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function that discards its intermediate values and recomputes them for the gradient.

    Args:
        module: The module whose trainable parameters have gradients, as the arguments have.
        fn: The function; the module itself by default.

    Returns:
        A function with the same results whose gradient needs less memory and more time.
    """
    # The module rather than its bound `__call__`, so that later changes of the latter take effect.
    function = module if fn is None else fn
    checkpointed = mx.checkpoint(_with_parameters(module, function))

    def called(*args: Any, **kwargs: Any) -> Any:
        return checkpointed(module.trainable_parameters(), *args, **kwargs)

    return _named_after(function, called)


def _with_parameters(model: Module, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as a function of the model's parameters, which come first."""

    def function(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        return call_lent(model, parameters, fn, *args, **kwargs)

    return function


def _named_after(fn: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(fn)(wrapper) if hasattr(fn, "__name__") else wrapper


def average_gradients(
    gradients: Any,
    group: mx.distributed.Group | None = None,
    all_reduce_size: int = 32 * 1024**2,
    communication_stream: Any | None = None,
) -> Any:
    """The gradients, averaged over the processes of a group: with one process, the gradients.

    Small arrays are sent together. The last ones come first, because the backward pass computes
    the gradients of the last layers first, and goes on while they are summed.

    Args:
        gradients: A tree of arrays.
        group: The group of processes, all by default.
        all_reduce_size: How many bytes to communicate at once at most, unless one array has more;
            0 for each array by itself. Less if that leaves more of the backward pass to overlap.
        communication_stream: The stream of the communication.
    """
    group = group or mx.distributed.init()
    if group.size() == 1:
        return gradients
    flat = tree_flatten(gradients)
    averages: dict[str, mx.array] = {}
    total = sum(x.nbytes for _, x in flat)
    size = min(all_reduce_size, max(MIN_BUCKET_BYTES, total // BUCKETS))
    for bucket in _buckets(flat, size):
        arrays = [flat[position][1] for position in bucket]
        whole = arrays[0] if len(arrays) == 1 else mx.concatenate([x.reshape(-1) for x in arrays])
        average = overlapped_sum(whole, group, communication_stream) / group.size()
        ends = [sum(x.size for x in arrays[: end + 1]) for end in range(len(arrays) - 1)]
        parts = [average] if len(arrays) == 1 else mx.split(average, ends)
        for position, part in zip(bucket, parts, strict=True):
            path, own = flat[position]
            averages[path] = part.reshape(own.shape)
    return tree_unflatten([(path, averages[path]) for path, _ in flat])


def _buckets(flat: list[tuple[str, mx.array]], size: int) -> list[list[int]]:
    """The positions of arrays of one dtype each that are at least `size` bytes together, from the
    last array to the first.
    """
    full: list[list[int]] = []
    filling: dict[mx.Dtype, list[int]] = {}
    for position in reversed(range(len(flat))):
        bucket = filling.setdefault(flat[position][1].dtype, [])
        bucket.append(position)
        if sum(flat[position][1].nbytes for position in bucket) >= size:
            full.append(filling.pop(flat[position][1].dtype))
    return [*full, *filling.values()]


def clip_grad_norm_sharded(
    gradients: Any, max_norm: float, group: mx.distributed.Group | None = None
) -> tuple[Any, mx.array]:
    """Scale gradients, of which each process has a shard, so that their norm is at most `max_norm`.

    Args:
        gradients: A tree of arrays.
        max_norm: The largest norm of all gradients together.
        group: The group of processes, all by default.

    Returns:
        The gradients, and their norm before.
    """
    squares = tree_reduce(
        lambda total, gradient: total + mx.sum(mx.square(gradient)), gradients, 0.0
    )
    norm = mx.sqrt(mx.distributed.all_sum(squares, group=group))
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda gradient: gradient * factor, gradients), norm


name_missing(globals())
