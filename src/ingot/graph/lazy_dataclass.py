"""Dataclasses that are completed on first use.

`dataclasses.dataclass` compiles several methods per class, about a millisecond, and there are a
hundred and fifty classes, most of which a program never instantiates: that was a third of the time
of `import ingot.core`. This `dataclass` only records the class. The first instantiation, or the
first access to its fields, completes it, in 15 microseconds, because nothing is compiled:
`__init__` is a native object that is made of the fields, all other methods are closures.
"""

from __future__ import annotations

import copy
import dataclasses
import reprlib
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING
from functools import partial
from inspect import Parameter, Signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ingot._native import FieldInit

__all__ = ["dataclass"]


@dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)
class _Example:
    """A dataclass of which the parts that have no public constructor are taken."""

    field: int


_FIELD: Any = dataclasses.fields(_Example)[0]
_PARAMETERS: Any = _Example.__dataclass_params__  # type: ignore[attr-defined]
_FROZEN = copy.copy(_PARAMETERS)
_FROZEN.frozen = True
# Where `__init__` finds the value of a field; in the order of objects/field_init.c.
_REQUIRED, _DEFAULT, _FACTORY, _FACTORY_ONLY = range(4)
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


def _complete_one(cls: Any, options: dict[str, Any]) -> None:
    cls.__dataclass_fields__ = _fields_of(cls)
    cls.__dataclass_params__ = _FROZEN if options.get("frozen", False) else _PARAMETERS
    fields = dataclasses.fields(cls)
    _add(cls, "__match_args__", tuple(each.name for each in fields if each.init))
    _add_methods(cls, fields, options)
    # Last: other threads that make an instance meanwhile look this up, and wait for the lock.
    if _is_later(cls, "__init__"):
        cls.__init__ = _init_of(cls, fields)


def _fields_of(cls: Any) -> dict[str, Any]:
    """The fields of a class by name, those of its bases first. Sets their defaults in the class."""
    found: dict[str, Any] = {}
    for base in cls.__mro__[:0:-1]:
        found.update(base.__dict__.get("__dataclass_fields__", ()))
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        assert isinstance(annotation, str), "annotations are not evaluated"
        if not annotation.startswith("ClassVar"):
            found[name] = _field_of(cls, name, annotation)
    return found


def _field_of(cls: Any, name: str, annotation: str) -> Any:
    given = cls.__dict__.get(name, MISSING)
    if not isinstance(given, dataclasses.Field):
        found: Any = dataclasses.field(default=given)
    elif given.default is MISSING:
        found = given
        delattr(cls, name)
    else:
        found = given
        setattr(cls, name, given.default)
    found.name, found.type, found.kw_only = name, annotation, False
    found._field_type = _FIELD._field_type
    return found


def _add(cls: Any, name: str, value: Any) -> None:
    """Set an attribute, unless the class defines it."""
    if _is_later(cls, name):
        setattr(cls, name, value)


def _is_later(cls: Any, name: str) -> bool:
    """Whether an attribute is still to be made."""
    return type(cls.__dict__.get(name)) is _Later


def _add_methods(cls: Any, fields: Sequence[Any], options: dict[str, Any]) -> None:
    """Add the methods of a dataclass other than `__init__`, as closures over the names of its
    fields.
    """
    compared = [each.name for each in fields if each.compare]
    hashed = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
    values, key = _getter(compared), _getter(hashed)

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    _add(cls, "__repr__", _text)
    if options.get("eq", True):
        # Python sets `__hash__` to None in a class that defines `__eq__` only.
        implied = cls.__dict__.get("__hash__") is None and not _is_later(cls, "__eq__")
        if "__hash__" not in cls.__dict__ or _is_later(cls, "__hash__") or implied:
            is_hashed = options.get("frozen", False)
            cls.__hash__ = (lambda self: hash(key(self))) if is_hashed else None
        _add(cls, "__eq__", equal)
    if options.get("frozen", False):
        _freeze(cls, frozenset(each.name for each in fields))


@reprlib.recursive_repr()
def _text(self: Any) -> str:
    """The `__repr__` of all classes."""
    printed = [each.name for each in dataclasses.fields(self) if each.repr]
    items = ", ".join(f"{name}={getattr(self, name)!r}" for name in printed)
    return f"{self.__class__.__qualname__}({items})"


def _getter(names: Sequence[str]) -> Callable[[Any], Any]:
    """A function that returns the values of some fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda x: ()
    value = attrgetter(*names)
    return lambda x: (value(x),)


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
    """Restore a class whose completion was interrupted, or record what it has now."""
    before = _begun.get(cls)
    if before is None:
        _begun[cls] = dict(cls.__dict__)
        return
    for name in cls.__dict__.keys() - before.keys():
        delattr(cls, name)
    for name, value in before.items():
        if cls.__dict__.get(name, _begun) is not value:
            setattr(cls, name, value)


def _init_of(cls: Any, fields: Sequence[Any]) -> FieldInit:
    """The `__init__` of a dataclass."""
    parameters = [_source(each) for each in fields if each.init]
    others = [
        (each.name, _FACTORY_ONLY, each.default_factory)
        for each in fields
        if not each.init and each.default_factory is not MISSING
    ]
    made: Any = FieldInit(
        f"{cls.__qualname__}.__init__",
        (*parameters, *others),
        cls.__dataclass_params__.frozen,
        hasattr(cls, "__post_init__"),
        partial(_signature, fields),
    )
    made.__module__ = cls.__module__
    return made


def _source(field: Any) -> tuple[str, int, Any]:
    """A parameter of `__init__`, and where its value comes from if it is not given."""
    if field.default_factory is not MISSING:
        return field.name, _FACTORY, field.default_factory
    if field.default is not MISSING:
        return field.name, _DEFAULT, field.default
    return field.name, _REQUIRED, None


def _signature(fields: Sequence[Any]) -> Signature:
    """The signature of `__init__`, for `inspect`."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter("self", kind)]
    for each in fields:
        if each.init:
            _, source, value = _source(each)
            default = {_REQUIRED: Parameter.empty, _FACTORY: MISSING}.get(source, value)
            parameters.append(Parameter(each.name, kind, default=default, annotation=each.type))
    return Signature(parameters, return_annotation=None)


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
