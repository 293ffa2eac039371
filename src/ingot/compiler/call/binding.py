"""Binding: the kinds of callables that can be compiled, and methods of objects.

A compiled method is the class's function with the object as its first argument, with one cache for
all objects. Bound methods, partials and callable objects are functions of what they are bound to,
which is an input, as captured containers are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

from ingot import _native
from ingot.compiler.trace.structure import Kind, kind
from ingot.graph.errors import value_text
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["CompiledMethod", "Options", "Target", "name_of", "takes_any_keywords", "target_of"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Options:
    """The options of `compile`."""

    inputs: Any
    outputs: Any
    shapeless: bool
    on_recompile: str | None
    verify: bool


@dataclass(frozen=True)
class Target:
    """A callable to compile."""

    function: Callable[..., Any]
    bound: Any  # the function itself if it holds an object or arguments; None otherwise
    owner: Any  # the object that the cache belongs to
    has_receiver: (
        bool  # whether it is defined in a class, so that its first argument is the receiver
    )

    def is_method_of(self, cls: type) -> bool:
        """Whether the function is defined in the class or in a base of it."""
        if not self.has_receiver:
            return False
        outer = self.function.__qualname__.rpartition(".")[0]
        return any(base.__qualname__ == outer for base in cls.__mro__)


def target_of(function: Any) -> Target:
    """Takes a callable apart; TypeError if it is not callable."""
    if isinstance(function, staticmethod):
        return Target(function.__func__, None, function.__func__, False)
    if isinstance(function, classmethod):
        raise TypeError(
            "[compile] a classmethod cannot be called by itself: write @classmethod above "
            "@mx.compile, not below."
        )
    if not callable(function):
        raise TypeError(
            f"[compile] fun must be callable, got {type(function).__name__}: "
            f"{value_text(function)}. Pass the function itself, not its result."
        )
    if isinstance(function, (MethodType, CompiledMethod)):
        if isinstance(function.__self__, type):
            return Target(function, None, function.__func__, False)
        return Target(function, function, function.__func__, False)
    if isinstance(function, partial):
        return Target(function, function, function, False)
    if _native.has_attributes(function) or kind(function) is Kind.FOREIGN:
        return Target(function, function, type(function).__call__, False)
    return Target(function, getattr(function, "bound", None), function, _is_in_class(function))


def _is_in_class(function: Any) -> bool:
    outer, _, name = getattr(function, "__qualname__", "").rpartition(".")
    return bool(outer) and not outer.endswith(">") and "<" not in name


def name_of(function: Any) -> str:
    """The display name of a callable."""
    if isinstance(function, partial):
        return f"partial({name_of(function.func)})"
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class CompiledMethod(Generic[P, R]):
    """A compiled method bound to an object."""

    __slots__ = ("__func__", "__self__", "__weakref__")

    _is_tree = True  # as an argument, it stands for its object

    def __init__(self, function: Any, instance: Any) -> None:
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.__func__(self.__self__, *args, **kwargs)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompiledMethod):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<compiled method {name_of(self.__func__)} of {type(self.__self__).__name__}>"

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """Explains what compilation does to the method for these arguments."""
        return self.__func__.explain(self.__self__, *args, **kwargs)


def takes_any_keywords(function: Callable[..., Any]) -> bool:
    """Whether the order of keyword arguments is observable, as it is in a function's **kwargs."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
