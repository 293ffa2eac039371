"""Gradients of functions with a scalar loss: `mx.grad` and `mx.value_and_grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from ingot import _native
from ingot._native import array, replace_leaves
from ingot.graph.arrays.construct import scalar
from ingot.graph.dtype import ALL_DTYPES, bfloat16
from ingot.graph.shape import shape_text
from ingot.transforms.containers import Followed, call_followed
from ingot.transforms.tracing import check_arrays, check_callable, named_after
from ingot.transforms.vjp import backward

__all__ = ["grad", "value_and_grad"]

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound=array)

# What may have been meant by a function that does not return an array.
_NUMBERS = "Numbers read from arrays, by .item() or NumPy, are constants: return the array itself."
_MORE = "To return more beside the loss, use value_and_grad."

# without bfloat16, whose NumPy dtype few programs need to import
_one = {dtype: scalar(1, dtype) for dtype in ALL_DTYPES if dtype is not bfloat16}


@overload
def value_and_grad(
    fun: Callable[Concatenate[A, P], R], argnums: None = None
) -> Callable[Concatenate[A, P], tuple[R, A]]: ...


@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
) -> Callable[P, tuple[R, Any]]: ...


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of `fun` and its gradient.

    `fun` returns a scalar array, the loss, or a tuple that begins with it; the rest of the tuple is
    passed through.

    Args:
        fun: The function to differentiate.
        argnums: The positions of the arguments to differentiate by; the first one if neither this
            nor `argnames` is given.
        argnames: The names of the keyword arguments to differentiate by.

    Returns:
        A function of the same arguments that returns the value of `fun` and the gradient: shaped
        like the argument, or for several `argnums` a tuple of such, in the order of the arguments;
        with `argnames`, a pair of that (None without `argnums`) and a dict by name.
    """
    check_callable("value_and_grad", fun)
    positions, names = _selection("value_and_grad", argnums, argnames)
    return _differentiated("value_and_grad", fun, positions, names, _loss_of_value)


@overload
def grad(
    fun: Callable[Concatenate[A, P], array], argnums: None = None
) -> Callable[Concatenate[A, P], A]: ...


@overload
def grad(
    fun: Callable[P, array],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
) -> Callable[P, Any]: ...


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """A function that returns the gradient of `fun`, which returns a scalar array.

    Args:
        fun: The function to differentiate.
        argnums: The positions of the arguments to differentiate by; the first one if neither this
            nor `argnames` is given.
        argnames: The names of the keyword arguments to differentiate by.

    Returns:
        A function of the same arguments that returns what `value_and_grad` returns second.
    """
    check_callable("grad", fun)
    positions, names = _selection("grad", argnums, argnames)
    value_and_gradient = _differentiated("grad", fun, positions, names, _loss_only)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        return value_and_gradient(*args, **kwargs)[1]

    return named_after(fun, gradient)


def _selection(
    name: str, argnums: int | Sequence[int] | None, argnames: str | Sequence[str]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The positions, sorted, and the names of the arguments to differentiate by."""
    if not isinstance(argnames, (str, list, tuple)):
        raise TypeError(f"[{name}] argnames must be strings, got {argnames!r}.")
    names = (argnames,) if isinstance(argnames, str) else tuple(dict.fromkeys(argnames))
    for given in names:
        if not isinstance(given, str):
            raise TypeError(f"[{name}] argnames must be strings, got {given!r}.")
    if argnums is None:
        return (() if names else (0,)), names
    if not isinstance(argnums, (int, list, tuple)):
        raise TypeError(f"[{name}] argnums must be ints, got {argnums!r}.")
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not positions and not names:
        raise ValueError(f"[{name}] argnums is empty: name an argument to differentiate by.")
    for position in positions:
        if not isinstance(position, int):
            raise TypeError(f"[{name}] argnums must be ints, got {position!r}.")
        if position < 0:
            raise ValueError(f"[{name}] argnums cannot be negative, got {position}.")
    if len(set(positions)) != len(positions):
        raise ValueError(f"[{name}] argnums {positions} name an argument twice.")
    return tuple(sorted(positions)), names


def _differentiated(
    name: str,
    fun: Callable[..., Any],
    positions: tuple[int, ...],
    names: tuple[str, ...],
    loss_of: Callable[[str, Any], array],
) -> Callable[..., tuple[Any, Any]]:
    def value_and_gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        arguments = list(args)
        followed: list[Followed] = []
        with _native.tracing:
            for position in positions:
                if position >= len(arguments):
                    raise _missing_position(name, position, len(arguments))
                followed.append(_followed(name, position, arguments[position]))
                arguments[position] = followed[-1].value
            for key in names:
                if key not in kwargs:
                    raise _missing_name(name, key, list(kwargs))
                followed.append(_followed(name, key, kwargs[key]))
                kwargs[key] = followed[-1].value
            value = call_followed(name, fun, followed, arguments, kwargs)
            loss = loss_of(name, value)
            leaves = [node for argument in followed for node in argument.nodes]
            one = _one.get(loss.dtype)
            found = backward([loss], [scalar(1, bfloat16) if one is None else one], leaves)
            gradients = replace_leaves([argument.tree for argument in followed], found, True)
        by_position = tuple(gradients[: len(positions)])
        unwrapped = by_position if len(positions) > 1 else by_position[0] if positions else None
        if not names:
            return value, unwrapped
        return value, (unwrapped, dict(zip(names, gradients[len(positions) :], strict=True)))

    return named_after(fun, value_and_gradient)


def _followed(name: str, which: int | str, argument: Any) -> Followed:
    """The argument with new leaves, which are traced."""
    values = _native.leaves(argument)
    check_arrays(name, _called(which), values, ValueError)
    if not values:
        raise ValueError(f"[{name}] {_called(which)} holds no array to differentiate by.")
    return Followed(argument, values)


def _called(which: int | str) -> str:
    return f"argument {which}" if isinstance(which, int) else f"keyword argument {which!r}"


def _missing_position(name: str, position: int, count: int) -> ValueError:
    return ValueError(
        f"[{name}] cannot differentiate by argument {position}: the function was called with "
        f"{count} positional arguments."
    )


def _missing_name(name: str, key: str, given: list[str]) -> ValueError:
    return ValueError(
        f"[{name}] cannot differentiate by keyword argument {key!r}: the function was called with "
        f"keyword arguments {given}."
    )


def _loss_only(name: str, value: Any) -> array:
    if not isinstance(value, array):
        raise ValueError(
            f"[{name}] the function must return a scalar array to be differentiated, got "
            f"{type(value).__name__}. {_NUMBERS if isinstance(value, Number) else _MORE}"
        )
    return _checked_loss(name, value)


def _loss_of_value(name: str, value: Any) -> array:
    loss = value[0] if isinstance(value, tuple) and value else value
    if not isinstance(loss, array):
        raise ValueError(
            f"[{name}] the function must return a scalar array, or a tuple that begins with one, "
            f"to be differentiated, got {type(value).__name__}."
            + (f" {_NUMBERS}" if isinstance(loss, Number) else "")
        )
    return _checked_loss(name, loss)


def _checked_loss(name: str, loss: array) -> array:
    if loss.shape != ():
        raise ValueError(
            f"[{name}] the loss must be a scalar, but the function returned shape "
            f"{shape_text(loss.shape)}. Reduce it first, for example with .sum() or .mean()."
        )
    return loss
