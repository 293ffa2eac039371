"""Dataclasses that are completed when they are first used.

`dataclasses.dataclass` compiles several methods for each class, about a millisecond, and there are
a hundred and fifty classes, most of which a program never makes an instance of: that was a third
of the time that `import ingot.core` took. This `dataclass` notes what is to be done, and whoever
first makes an instance, or asks the class for its fields, does it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

# What the class itself may be asked for, and instances that were unpickled before any was made.
_OTHERS = ("__dataclass_fields__", "__match_args__", "__repr__", "__eq__", "__hash__")

_pending: dict[type, dict[str, Any]] = {}
_begun: dict[type, dict[str, Any]] = {}  # what classes were before; Ctrl-C may come at any time
_lock = threading.RLock()


def _complete(cls: type) -> None:
    """Makes a class, and first what it is derived from, the dataclasses that they were to be."""
    with _lock:
        for base in reversed(cls.__mro__):
            if base in _pending:
                _begin_again(base)
                _complete_one(base, _pending[base])
                _pending.pop(base, None)
                _begun.pop(base, None)


def _complete_one(cls: type, options: dict[str, Any]) -> None:
    for name in _OTHERS:
        if type(cls.__dict__.get(name)) is _Later:
            delattr(cls, name)
    if cls.__doc__ is None:  # else `dataclasses` makes one, of the signature of `__init__`
        cls.__doc__ = cls.__name__
    dataclasses.dataclass(init=False, **options)(cls)
    # Last: threads that make an instance meanwhile ask for this, and wait for the lock.
    if type(cls.__dict__["__init__"]) is _Later:
        setattr(cls, "__init__", _init_of(cls))  # noqa: B010 - mypy wants no method set


def _begin_again(cls: type) -> None:
    """Makes a class what it was before somebody began to complete it and was interrupted."""
    before = _begun.setdefault(cls, dict(cls.__dict__))
    for name in cls.__dict__.keys() - before.keys():
        delattr(cls, name)
    for name, value in before.items():
        if cls.__dict__.get(name, _begun) is not value:
            setattr(cls, name, value)


def _init_of(cls: Any) -> Any:
    """The `__init__` that a dataclass without one would have: that of another with its fields."""
    names = ("__dataclass_fields__", "__dataclass_params__", "__post_init__")
    base = type("Base", (), {name: getattr(cls, name) for name in names if hasattr(cls, name)})
    made: Any = dataclasses.dataclass(frozen=cls.__dataclass_params__.frozen)(
        type(cls.__name__, (base,), {"__module__": cls.__module__, "__doc__": ""})
    )
    made.__init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return made.__init__


class _Later:
    """Stands for an attribute of a class until it is asked for."""

    def __init__(self, cls: type, name: str) -> None:
        self.cls = cls
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        _complete(self.cls)
        found = getattr(self.cls, self.name)
        is_method = instance is not None and callable(found)
        return found.__get__(instance) if is_method else found


def _noted(cls: type, options: dict[str, Any]) -> type:
    is_equal = options.get("eq", True)
    is_hashed = is_equal and options.get("frozen", False)
    for name in ("__init__", *_OTHERS):
        is_made = {"__eq__": is_equal, "__hash__": is_hashed}.get(name, True)
        if is_made and name not in cls.__dict__:
            setattr(cls, name, _Later(cls, name))
    _pending[cls] = options
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Callable[[type], type] | type:
        """As `dataclasses.dataclass`."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if options.get("slots"):  # another class
            return dataclasses.dataclass(cls, **options)
        return _noted(cls, options)
