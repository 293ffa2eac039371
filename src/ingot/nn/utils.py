"""Transforms of functions of models: gradients, checkpoints, and averages over processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import ingot.core as mx
from ingot.nn.module import Module
from ingot.nn.substitution import call_lent
from ingot.utils import tree_map, tree_reduce

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

    Args:
        gradients: A tree of arrays.
        group: The group of processes, all by default. Only groups of one process are supported.
        all_reduce_size: How many bytes to communicate at once.
        communication_stream: The stream of the communication.
    """
    if group is not None and group.size() != 1:
        raise ValueError(f"[average_gradients] groups have one process, got one of {group.size()}.")
    return gradients


def clip_grad_norm_sharded(
    gradients: Any, max_norm: float, group: mx.distributed.Group | None = None
) -> tuple[Any, mx.array]:
    """Scale gradients, of which each process has a shard, so that their norm is at most `max_norm`.

    Args:
        gradients: A tree of arrays.
        max_norm: The largest norm of all gradients together.
        group: The group of processes, all by default. Only groups of one process are supported.

    Returns:
        The gradients, and their norm before.
    """
    squares = tree_reduce(
        lambda total, gradient: total + mx.sum(mx.square(gradient)), gradients, 0.0
    )
    norm = mx.sqrt(mx.distributed.all_sum(squares, group=group))
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda gradient: gradient * factor, gradients), norm
