"""Observes attribute accesses of objects while a function is traced.

A class is observed by replacing its `__getattribute__`, `__setattr__` and `__delattr__` while some
trace needs it; otherwise attribute access has no overhead. Only accesses of the tracing thread are
reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["Observer", "is_always_watched", "observed_attributes", "usual_method", "watch_always"]

_HOOKS = ("__getattribute__", "__setattr__", "__delattr__")
_HOOKS_OF_DICTS = (*_HOOKS, "__getitem__")  # items of modules are attributes

# Called with an object and the name of an attribute before it is read (False) or changed (True).
Observer = Callable[[Any, str, bool], None]

_thread = threading.local()
T = TypeVar("T", bound=type)

_lock = threading.RLock()
_always: list[type] = []  # observed by every trace, because functions may close over instances
_counts: dict[type, int] = {}


def watch_always(watched: T) -> T:
    """Observe the instances of a class, and of its subclasses, in every trace; returns
    the class.
    """
    _always.append(watched)
    return watched


def is_always_watched(instance: Any) -> bool:
    """Whether an object is an instance of such a class."""
    return isinstance(instance, tuple(_always))


@contextmanager
def observed_attributes(observer: Observer) -> Iterator[Callable[[type], None]]:
    """Report this thread's attribute accesses to `observer`; returns a function that observes a
    class.

    Accesses by the observer itself are not reported.
    """
    watched: set[type] = set()

    def watch(more: type) -> None:
        if more not in watched and watched.isdisjoint(more.__mro__):
            watched.add(more)
            _install(more)

    before = getattr(_thread, "observer", None)
    try:
        for one in _always:
            watch(one)
        _thread.observer = observer
        yield watch
    finally:
        _thread.observer = before
        for one in watched:
            _remove(one)


def _install(watched: type) -> None:
    with _lock:
        _counts[watched] = _counts.get(watched, 0) + 1
        if _counts[watched] > 1:
            return
        for name in _hooks(watched):  # bypassing the metaclass
            type.__setattr__(
                watched, name, _hook(getattr(watched, name), watched.__dict__.get(name))
            )


def _hooks(watched: type) -> tuple[str, ...]:
    return _HOOKS_OF_DICTS if issubclass(watched, dict) else _HOOKS


def _remove(watched: type) -> None:
    with _lock:
        _counts[watched] -= 1
        if _counts[watched]:
            return
        del _counts[watched]
        for name in _hooks(watched):
            own = getattr(watched, name).own
            if own is None:
                type.__delattr__(watched, name)
            else:
                type.__setattr__(watched, name, own)


def usual_method(cls: type, name: str) -> Any:
    """The original method of a class, without the observing wrapper."""
    found = getattr(cls, name)
    while hasattr(found, "usual"):
        found = found.usual
    return found


def _hook(usual: Callable[..., Any], own: Any) -> Callable[..., Any]:
    """The wrapper of the method `usual`, which the class itself defines as `own` or inherits."""
    changes = getattr(usual, "__name__", "") not in ("__getattribute__", "__getitem__")

    def hook(instance: Any, name: Any, *value: Any) -> Any:
        observer = getattr(_thread, "observer", None)
        if observer is not None and isinstance(name, str):
            _thread.observer = None
            try:
                observer(instance, name, changes)
            finally:
                _thread.observer = observer
        return usual(instance, name, *value)

    hook.__name__ = getattr(usual, "__name__", "")
    hook.own = own  # type: ignore[attr-defined]
    hook.usual = usual  # type: ignore[attr-defined]
    return hook
