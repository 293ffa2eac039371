"""Gradients of functions with a scalar loss: `mx.grad` and `mx.value_and_grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ingot._native import array
from ingot.graph.dtype import is_inexact
from ingot.graph.shape import shape_text
from ingot.graph.tree import tree_map
from ingot.ops.creation import ones
from ingot.transforms.tracing import check_callable, follow, only_arrays, tracing
from ingot.transforms.vjp import backward

__all__ = ["grad", "value_and_grad"]


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of `fun` and its gradient.

    `fun` returns a scalar array, the loss, or a tuple that begins with it; the rest of the tuple is passed through.

    Args:
        fun: The function to differentiate.
        argnums: The positions of the arguments to differentiate by; the first one if neither this nor `argnames` is
            given.
        argnames: The names of the keyword arguments to differentiate by.

    Returns:
        A function of the same arguments that returns the value of `fun` and the gradient: shaped like the argument, or
        for several `argnums` a tuple of such; with `argnames`, a pair of that and a dict by name.
    """
    check_callable("value_and_grad", fun)
    positions, names = _selection("value_and_grad", argnums, argnames)
    return _differentiated("value_and_grad", fun, positions, names, _loss_of_value)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """A function that returns the gradient of `fun`, which returns a scalar array.

    Args:
        fun: The function to differentiate.
        argnums: The positions of the arguments to differentiate by; the first one if neither this nor `argnames` is
            given.
        argnames: The names of the keyword arguments to differentiate by.

    Returns:
        A function of the same arguments that returns what `value_and_grad` returns second.
    """
    check_callable("grad", fun)
    positions, names = _selection("grad", argnums, argnames)
    value_and_gradient = _differentiated("grad", fun, positions, names, _loss_only)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        return value_and_gradient(*args, **kwargs)[1]

    return _named_after(fun, gradient)


def _named_after(fun: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(fun)(wrapper) if hasattr(fun, "__name__") else wrapper


Positions = int | tuple[int, ...] | None


def _selection(
    name: str, argnums: int | Sequence[int] | None, argnames: str | Sequence[str]
) -> tuple[Positions, tuple[str, ...]]:
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames or ())
    for given in names:
        if not isinstance(given, str):
            raise TypeError(f"[{name}] argnames are strings, got {given!r}.")
    if argnums is None:
        return (None if names else 0), names
    positions = argnums if isinstance(argnums, int) else tuple(argnums)
    listed = (positions,) if isinstance(positions, int) else positions
    if not listed and not names:
        raise ValueError(f"[{name}] argnums is empty: name an argument to differentiate by.")
    for position in listed:
        if not isinstance(position, int):
            raise TypeError(f"[{name}] argnums are ints, got {position!r}.")
        if position < 0:
            raise ValueError(f"[{name}] argnums cannot be negative, got {position}.")
    if len(set(listed)) != len(listed):
        raise ValueError(f"[{name}] argnums {tuple(listed)} name an argument twice.")
    return positions, names


def _differentiated(
    name: str,
    fun: Callable[..., Any],
    positions: Positions,
    names: tuple[str, ...],
    loss_of: Callable[[str, Any], array],
) -> Callable[..., tuple[Any, Any]]:
    listed = (positions,) if isinstance(positions, int) else positions or ()

    def value_and_gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        arguments = list(args)
        leaves: list[array] = []

        def followed(value: array) -> array:
            leaf = follow(value)
            leaves.append(leaf)
            return leaf

        with tracing():
            for position in listed:
                if position >= len(arguments):
                    raise ValueError(
                        f"[{name}] cannot differentiate by argument {position}: the function was called "
                        f"with {len(arguments)} positional arguments."
                    )
                _check_differentiable(name, f"argument {position}", arguments[position])
                arguments[position] = tree_map(followed, arguments[position])
            for key in names:
                if key not in kwargs:
                    raise ValueError(
                        f"[{name}] cannot differentiate by keyword argument {key!r}: the function was "
                        f"called with keyword arguments {list(kwargs)}."
                    )
                _check_differentiable(name, f"keyword argument {key!r}", kwargs[key])
                kwargs[key] = tree_map(followed, kwargs[key])
            value = fun(*arguments, **kwargs)
            loss = loss_of(name, value)
            gradients = iter(backward([loss], [ones((), loss.dtype)], leaves))
        by_position = tuple(tree_map(lambda _: next(gradients), arguments[p]) for p in listed)
        unwrapped: Any = by_position
        if positions is None:
            unwrapped = None
        elif isinstance(positions, int):
            unwrapped = by_position[0]
        if not names:
            return value, unwrapped
        return value, (
            unwrapped,
            {key: tree_map(lambda _: next(gradients), kwargs[key]) for key in names},
        )

    return _named_after(fun, value_and_gradient)


def _check_differentiable(name: str, what: str, argument: Any) -> None:
    if isinstance(argument, array):
        leaves = [argument]
    else:
        leaves = only_arrays(name, what, argument)
    if not leaves:
        raise ValueError(f"[{name}] {what} holds no array to differentiate by.")
    if not any(is_inexact(leaf.dtype) for leaf in leaves):
        raise ValueError(
            f"[{name}] cannot differentiate by {what}, which has dtype {leaves[0].dtype}: "
            "use floating-point numbers, for example x.astype(mx.float32)."
        )


def _loss_only(name: str, value: Any) -> array:
    if not isinstance(value, array):
        raise ValueError(
            f"[{name}] the function must return a scalar array to be differentiated, got "
            f"{type(value).__name__}. To return more beside the loss, use value_and_grad."
        )
    return _checked_loss(name, value)


def _loss_of_value(name: str, value: Any) -> array:
    loss = value[0] if isinstance(value, tuple) and value else value
    if not isinstance(loss, array):
        raise ValueError(
            f"[{name}] the function must return a scalar array, or a tuple that begins with one, to be "
            f"differentiated, got {type(value).__name__}."
        )
    return _checked_loss(name, loss)


def _checked_loss(name: str, loss: array) -> array:
    if loss.shape != ():
        raise ValueError(
            f"[{name}] the loss must be a scalar, but the function returned shape "
            f"{shape_text(loss.shape)}. Reduce it first, for example with .sum() or .mean()."
        )
    return loss
