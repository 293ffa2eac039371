"""Dataclasses that are completed on first use.

`dataclasses.dataclass` compiles several methods per class, about a millisecond, and there are a
hundred and fifty classes, most of which a program never instantiates: that was a third of the time
of `import ingot.core`. This `dataclass` only records the class. The first instantiation, or the
first access to its fields, completes it: `dataclasses` handles the fields, and all methods but
`__init__` are closures that need no compilation per class.
"""

from __future__ import annotations

import dataclasses
import reprlib
import threading
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["complete", "dataclass"]


@dataclasses.dataclass
class _Plain:
    """A dataclass that is not frozen, whatever those that are derived from its parameters are."""


_PLAIN = _Plain.__dataclass_params__  # type: ignore[attr-defined]
# What the class itself may be asked for, and instances that were unpickled before any was made.
_OTHERS = ("__dataclass_fields__", "__match_args__", "__repr__", "__eq__", "__hash__")

_pending: dict[type, dict[str, Any]] = {}
_begun: dict[type, dict[str, Any]] = {}  # the state before completion, which Ctrl-C may interrupt
_lock = threading.RLock()


def _complete(cls: type) -> None:
    """Complete a class, and its bases first."""
    with _lock:
        for base in reversed(cls.__mro__):
            if base in _pending:
                _begin_again(base)
                _complete_one(base, _pending[base])
                _pending.pop(base, None)
                _begun.pop(base, None)


def complete(package: str) -> None:
    """Complete the classes of a package that is about to be used as a whole."""
    for cls in list(_pending):
        if cls.__module__.startswith(f"{package}."):
            _complete(cls)


def _complete_one(cls: Any, options: dict[str, Any]) -> None:
    for name in _OTHERS:
        if type(cls.__dict__.get(name)) is _Later:
            delattr(cls, name)
    made = _with_fields(cls)
    fields = dataclasses.fields(made)
    for name in vars(cls).get("__annotations__", ()):
        if isinstance(cls.__dict__.get(name), dataclasses.Field):
            if name in made.__dict__:
                setattr(cls, name, made.__dict__[name])
            else:
                delattr(cls, name)
    cls.__dataclass_fields__ = made.__dataclass_fields__
    cls.__dataclass_params__ = made.__dataclass_params__
    cls.__dataclass_params__.frozen = options.get("frozen", False)
    _add(cls, "__match_args__", tuple(each.name for each in fields if each.init))
    _add_methods(cls, fields, options)
    # Last: other threads that make an instance meanwhile look this up, and wait for the lock.
    if type(cls.__dict__["__init__"]) is _Later:
        cls.__init__ = _init_of(cls, fields)


def _with_fields(cls: Any) -> Any:
    """Another dataclass with the fields of a class but without methods, whose code would have to be
    compiled.
    """
    inherited: dict[str, Any] = {}
    for base in cls.__mro__[:0:-1]:
        inherited.update(base.__dict__.get("__dataclass_fields__", ()))
    annotations = vars(cls).get("__annotations__", {})
    base = type("Base", (), {"__dataclass_fields__": inherited, "__dataclass_params__": _PLAIN})
    namespace = {"__annotations__": dict(annotations), "__module__": cls.__module__}
    made = type(cls.__name__, (base,), {"__doc__": "fields", **namespace})
    for name in annotations:
        if name in cls.__dict__:  # not in the namespace: type() would call fields
            setattr(made, name, cls.__dict__[name])
    return dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(made)


def _add(cls: Any, name: str, value: Any) -> None:
    """Set an attribute, unless the class defines it."""
    if name not in cls.__dict__:
        setattr(cls, name, value)


def _add_methods(cls: Any, fields: Sequence[Any], options: dict[str, Any]) -> None:
    """Add the methods of a dataclass other than `__init__`, as closures over the names of its
    fields.
    """
    compared = [each.name for each in fields if each.compare]
    hashed = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
    printed = [each.name for each in fields if each.repr]
    values, key = _getter(compared), _getter(hashed)

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def text(self: Any) -> str:
        items = ", ".join(f"{name}={getattr(self, name)!r}" for name in printed)
        return f"{self.__class__.__qualname__}({items})"

    _add(cls, "__repr__", reprlib.recursive_repr()(text))
    if options.get("eq", True):
        said = cls.__dict__.get("__hash__")
        if "__hash__" not in cls.__dict__ or (said is None and "__eq__" in cls.__dict__):
            is_hashed = options.get("frozen", False)
            cls.__hash__ = (lambda self: hash(key(self))) if is_hashed else None
        _add(cls, "__eq__", equal)
    if options.get("frozen", False):
        _freeze(cls, frozenset(each.name for each in fields))


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    """A function that returns the values of some fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda x: tuple(getattr(x, name) for name in names)


def _freeze(cls: Any, names: Collection[str]) -> None:
    """Make instances reject changes of their fields."""

    def refuse(verb: str, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot {verb} field {name!r}")

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            refuse("assign to", name)
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            refuse("delete", name)
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute


def _begin_again(cls: type) -> None:
    """Restore a class whose completion was interrupted."""
    before = _begun.setdefault(cls, dict(cls.__dict__))
    for name in cls.__dict__.keys() - before.keys():
        delattr(cls, name)
    for name, value in before.items():
        if cls.__dict__.get(name, _begun) is not value:
            setattr(cls, name, value)


def _init_of(cls: Any, fields: Sequence[Any]) -> Any:
    """The `__init__` of a dataclass: the one method generated as source, because it is called most
    often.
    """
    known: dict[str, Any] = {"missing": dataclasses.MISSING, "set_field": object.__setattr__}
    parameters, body = ["self"], []
    for number, each in enumerate(fields):
        name, value = each.name, each.name
        if not each.init:
            if each.default_factory is dataclasses.MISSING:
                continue
            value, known[f"make{number}"] = f"make{number}()", each.default_factory
        elif each.default_factory is not dataclasses.MISSING:
            known[f"make{number}"] = each.default_factory
            value = f"make{number}() if {name} is missing else {name}"
            parameters.append(f"{name}=missing")
        elif each.default is not dataclasses.MISSING:
            known[f"default{number}"] = each.default
            parameters.append(f"{name}=default{number}")
        else:
            parameters.append(name)
        frozen = cls.__dataclass_params__.frozen
        body.append(f"set_field(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    exec(source, known)
    made = known["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {each.name: each.type for each in fields} | {"return": None}
    return made


class _Later:
    """A placeholder for a class attribute until it is first accessed."""

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
        """Same as `dataclasses.dataclass`."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if options.get("slots"):  # slots make a new class
            return dataclasses.dataclass(cls, **options)
        return _noted(cls, options)
