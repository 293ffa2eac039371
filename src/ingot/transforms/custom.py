"""`mx.custom_function`: functions with user-defined rules for derivatives or vectorisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any

from ingot._native import register_constant_type
from ingot.transforms.custom_op import Rules, call_with_rules
from ingot.transforms.tracing import check_callable

__all__ = ["custom_function"]


@register_constant_type
class custom_function:
    """A function with user-defined rules for its derivative or vectorisation.

    Use it as a decorator; then set rules with the decorators `vjp`, `jvp` and `vmap` of the result.
    Where there is no rule, the function is differentiated or vectorised as usual.

    Example:
        >>> @mx.custom_function
        ... def clipped_exp(x):
        ...     return mx.exp(mx.minimum(x, 10.0))
        >>> @clipped_exp.vjp
        ... def clipped_exp(primals, cotangent, output):
        ...     return cotangent * output
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        check_callable("custom_function", f)
        self._function = f
        self._rules = Rules()
        if hasattr(f, "__name__"):
            update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rules == Rules():
            return self._function(*args, **kwargs)
        return call_with_rules(self._function, self._rules, False, args, kwargs)

    def vjp(self, f: Callable[..., Any]) -> custom_function:
        """Set the rule `f(primals, cotangents, outputs)`, which returns cotangents of the primals.

        `primals` is the argument, or the tuple of arguments if there are several; cotangents and
        outputs have the structure of the function's result. Keyword arguments of a call are passed
        on to the rule.
        """
        check_callable("custom_function.vjp", f)
        self._rules = replace(self._rules, vjp=partial(_call_vjp, f))
        return self

    def jvp(self, f: Callable[..., Any]) -> custom_function:
        """Set the rule `f(primals, tangents)` that returns the tangents of the outputs.

        The tangents have the structure of the primals, and are zero for primals that do not vary.
        """
        check_callable("custom_function.jvp", f)
        self._rules = replace(self._rules, jvp=partial(_call_with_second, f))
        return self

    def vmap(self, f: Callable[..., Any]) -> custom_function:
        """Set the rule `f(inputs, axes)` that returns the outputs for a batch and their axes.

        The axes have the structure of the inputs: 0, or None for inputs that all examples share.
        """
        check_callable("custom_function.vmap", f)
        self._rules = replace(self._rules, vmap=partial(_call_with_second, f))
        return self


def _unwrapped(args: tuple[Any, ...]) -> Any:
    return args[0] if len(args) == 1 else args


def _call_vjp(f: Callable[..., Any], arguments: Any, cotangents: Any, outputs: Any) -> Any:
    args, kwargs = arguments
    return f(_unwrapped(args), cotangents, outputs, **kwargs)


def _call_with_second(f: Callable[..., Any], arguments: Any, like_args: Any) -> Any:
    args, kwargs = arguments
    return f(_unwrapped(args), _unwrapped(like_args), **kwargs)
