"""Attributes that a function reads of objects while it is traced, and the guards made of them.

Arrays, containers and objects in attributes of arguments belong to the signature of a call. All
other attributes (numbers, flags, strings, functions) belong to it only if the function reads them,
which the trace observes. The same holds for all attributes of objects that the function closes
over, except arrays, which are constants. A guard records the value of an attribute. Later calls
compare (`_native/calls/guards.c`), and a guard that no longer holds leads to another trace.
"""

from __future__ import annotations

import copyreg
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ingot import _native
from ingot._native import (
    CODE_OF,
    IN_CELL,
    IN_CLASS,
    IN_DEFAULTS,
    IN_GLOBALS,
    IN_INSTANCE,
    IN_ITEMS,
    IN_SLOT,
    IS_THERE,
    MUTABLE,
    NOWHERE,
    OF_CLASS,
    WHOLE_DICT,
    guard_key,
)
from ingot.compiler.trace.structure import (
    INSIDE,
    STRUCTURAL,
    Attribute,
    Contents,
    Kind,
    Name,
    attributes_of,
    children,
    has_contents,
    holds_items,
    is_constant_key,
    kind,
    short_text,
)
from ingot.compiler.trace.users_code import is_users_class
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.watched import is_always_watched, usual_method

__all__ = ["AttributeGuards", "AttributeReads", "Guard", "in_class", "weakly"]

Guard = tuple[Any, int, str, Any, Any]

_NOTHING = object()

# Where those attributes of arguments are stored that belong to the signature if they have
# structure.
IN_SIGNATURE = (IN_INSTANCE, IN_SLOT, IN_ITEMS)


@dataclass
class AttributeGuards:
    """The guards on what a traced function read of objects."""

    guards: tuple[Guard, ...]
    texts: tuple[object, ...]  # strings, or what becomes one: an attribute's name and its value

    def and_also(self, more: list[tuple[Guard, str]]) -> AttributeGuards:
        """These guards and others, with their texts."""
        return AttributeGuards(
            (*self.guards, *(guard for guard, _ in more)),
            (*self.texts, *(text for _, text in more)),
        )

    def hold(self, objects: list[Any]) -> bool:
        """Whether the attributes are unchanged. `objects` are those of a signature."""
        return not self.guards or _native.broken_guard(self.guards, objects) is None

    def broken(self, objects: list[Any]) -> str:
        """What changed, as text; empty if nothing did."""
        broken = _native.broken_guard(self.guards, objects) if self.guards else None
        if broken is None:
            return ""
        position, source, name, _, _ = broken
        number = next(k for k, guard in enumerate(self.guards) if guard is broken)
        holder = objects[position] if type(position) is int else _referent(position)
        now = "something else" if holder is None else _value_text(holder, source, name)
        return f"{self.texts[number]} → {now}"


def _referent(held: Any) -> Any:
    return held() if isinstance(held, weakref.ref) else held


def _value_text(holder: Any, source: int, name: Any) -> str:
    if source == WHOLE_DICT:
        return "other attributes"
    if source == CODE_OF:
        return "other code"
    if source == IN_CELL:
        try:
            return short_text(holder.__closure__[name].cell_contents)
        except ValueError:
            return "nothing"
    if source == IN_GLOBALS:
        value = holder.__globals__.get(name, _NOTHING)
    elif source == IN_DEFAULTS:
        value = default_of(holder, name)
    elif source == OF_CLASS:
        value = in_class(holder, name)
    elif source == IN_ITEMS:
        value = dict.get(holder, name, _NOTHING)
    else:
        value = attributes_of(holder).get(name, _NOTHING)
    if value is _NOTHING and source in (IN_INSTANCE, IN_CLASS, IN_SLOT, IN_ITEMS):
        value = in_class(type(holder), name)
    return "nothing" if value is _NOTHING else short_text(value)


def default_of(function: FunctionType, name: int | str) -> Any:
    """The default of a positional or keyword-only parameter."""
    if isinstance(name, str):
        return (function.__kwdefaults__ or {}).get(name, _NOTHING)
    defaults = function.__defaults__ or ()
    return defaults[name] if name < len(defaults) else _NOTHING


def in_class(cls: type, name: str) -> Any:
    """The definition of a name in a class or one of its bases."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return _NOTHING


_PLAIN = (int, float, bool, str, types.NoneType)


class _Text:
    """The name of an attribute, and what it was, as text. Most are never read, so that it is
    written when it is: `value` is one that does not change.
    """

    __slots__ = ("attribute", "owner", "value", "was")

    def __init__(self, owner: Name, attribute: str, was: str, value: Any = None) -> None:
        self.owner = owner
        self.attribute = attribute
        self.was = was
        self.value = value

    def __str__(self) -> str:
        name = self.owner.then(None, Attribute(self.attribute)).short
        return f"{name} {self.was or short_text(self.value)}"


class AttributeReads:
    """The attributes that a function uses while it is traced: the observer of `runtime.watched`."""

    def __init__(self, objects: Sequence[tuple[Name, Any]]) -> None:
        self._names: dict[int, Name] = {id(item): name for name, item in objects}
        self._numbers = {id(item): number for number, (_, item) in enumerate(objects)}
        self._new: dict[int, Any] = {}  # objects that the function itself creates
        self._guards: dict[tuple[int, str], tuple[Any, Guard | None, object]] = {}
        self._held: dict[int, tuple[Guard, object]] = {}  # objects that guards compare by identity
        self._kept: list[Any] = []  # keeps them alive, so that their ids stay unique
        self._lenient: set[int] = set()  # objects that may hold values that cannot be inspected
        self._looks_up: dict[type, bool] = {}  # whether classes have their own `__getattribute__`
        self.watch: Callable[[type], None] = lambda _: None

    def watch_classes(self, objects: Sequence[tuple[Name, Any]]) -> None:
        """Observes the classes of the objects in the arguments."""
        for _, item in objects:
            self.watch(type(item))

    def watch_variable(self, item: Any, name: Name) -> None:
        """Observes an object that the function knows by a name. Values in it that compile cannot
        inspect are constants, unless it is a module or an optimizer.
        """
        self._be_lenient(item)
        self._names.setdefault(id(item), name)
        if is_users_class(type(item)):
            self.watch(type(item))

    def __call__(self, instance: Any, name: str, changes: bool) -> None:
        """Called when an attribute is about to be read or changed."""
        if id(instance) in self._new:
            return
        if name in _WHOLE_STATE:
            name = "__dict__"  # all of it is copied; slots are read by name
        self._note(instance, name, changes)
        if changes:
            return
        by_itself = self._looks_up.get(type(instance))
        if by_itself is None:
            by_itself = self._looks_up[type(instance)] = _looks_up_itself(type(instance))
        if by_itself:
            for each in ("__dict__", *copyreg._slotnames(type(instance))):  # type: ignore[attr-defined]
                self._note(instance, each, False)  # whatever the class makes of the name

    def _be_lenient(self, item: Any) -> None:
        if not is_always_watched(item):
            self._lenient.add(id(item))
            self._kept.append(item)

    def _note(self, instance: Any, name: str, changes: bool) -> None:
        if (id(instance), name) in self._guards:
            return
        if id(instance) not in self._numbers:
            if changes and not attributes_of(instance) and not _items(instance):
                self._new[id(instance)] = instance  # kept alive, so that its id stays unique
                return
            if changes:
                return  # changes to objects that functions only close over are not traced
            self._names.setdefault(id(instance), Name(type(instance).__name__, is_inside=True))
        guard, was = self._guard(instance, name)
        self._guards[id(instance), name] = (instance, guard, was)

    def _guard(self, instance: Any, name: str) -> tuple[Guard | None, object]:
        source, value = _found(instance, name)
        if source is None:
            return None, ""
        owner = self._names[id(instance)]
        number = self._numbers.get(id(instance))
        position = number if number is not None else weakly(instance)
        if source == NOWHERE:
            return (position, source, name, None, None), _Text(owner, name, "nothing")
        if number is not None and source in IN_SIGNATURE and kind(value) in STRUCTURAL:
            self._refuse_foreign(value, instance, name)
            return None, ""
        if source == WHOLE_DICT:
            if self._is_opaque(value, instance, name):
                return None, ""
            if number is None:
                self.watch_inside(value, self._names[id(instance)], id(instance) in self._lenient)
            key = guard_key(value, source)
            return (position, source, name, MUTABLE, key), _Text(owner, name, "changed")
        made = self._value_guard(value, instance, name, source)
        if made is None:
            return None, ""
        is_kept = type(value) in _PLAIN or (made[0] is value and type(value) is types.FunctionType)
        text = _Text(owner, name, "", value) if is_kept else _Text(owner, name, short_text(value))
        return (position, source, name, *made), text

    def _value_guard(
        self, value: Any, instance: Any, name: str, source: int
    ) -> tuple[Any, Any] | None:
        """The expected value and its key."""
        found = kind(value)
        if found is Kind.ARRAY and source != IN_CLASS:
            return None  # a constant, as are all arrays that a function closes over
        if source == IN_CLASS and (found is Kind.FOREIGN or callable(value)):
            return value, None  # descriptors and the like: they belong to the code
        if found is Kind.OBJECT or _native.has_attributes(value):
            if id(instance) in self._lenient:
                self._be_lenient(value)
            self._name_inside(value, instance, name)
            self.watch(type(value))
            if not holds_items(value):
                return weakly(value), None
            return MUTABLE, guard_key(value, source)
        if type(value) in _PLAIN:
            return value, guard_key(value, source)
        if self._is_opaque(value, instance, name):
            return weakly(value), None
        key = guard_key(value, source)
        if found is Kind.CONSTANT:
            return value, key
        where = self._names[id(instance)].then(instance, Attribute(name))
        self.watch_inside(value, where, id(instance) in self._lenient)
        return MUTABLE, key

    def _name_inside(self, value: Any, instance: Any, name: str) -> None:
        """Names an object after the attribute that it is, unless it has a name."""
        if id(value) not in self._names:
            self._names[id(value)] = self._names[id(instance)].then(instance, Attribute(name))

    def _is_opaque(self, value: Any, instance: Any, name: str) -> bool:
        """Whether an attribute cannot be inspected; ValueError if that is an error."""
        if id(instance) in self._lenient:
            return _first_foreign(value, self._names[id(instance)], set(), True) is not None
        self._refuse_foreign(value, instance, name)
        return False

    def watch_inside(self, value: Any, name: Name, lenient: bool = True) -> None:
        """Objects in containers are compared by identity, so reads of them are observed."""
        contents = Contents()
        for step, child in children(value):
            contents.add(child, name.then(value, step), INSIDE)
        for inner, item in contents.objects:
            self._names.setdefault(id(item), inner)
            if lenient:
                self._be_lenient(item)
            self.watch(type(item))
            guard = (weakly(item), IS_THERE, "", None, None)
            self._held.setdefault(id(item), (guard, f"{inner.short} {short_text(item)}"))

    def _refuse_foreign(self, value: Any, instance: Any, name: str) -> None:
        """ValueError if an attribute is, or directly holds, a value that cannot be inspected."""
        at = self._names[id(instance)].then(instance, Attribute(name))
        found = _first_foreign(value, at, set())
        if found is not None:
            where, relation, what = found
            raise ValueError(
                f"[compile] the function reads {where.short}, which {relation} a "
                f"{type(what).__name__}: a change in it would go unnoticed. Keep its arrays and "
                "numbers as attributes or in a dataclass or nn.Module, pass them as arguments, or, "
                "if it never changes, have the function read a variable that is assigned outside."
            )

    def guards(self) -> AttributeGuards:
        """The guards of the trace, collected when it has ended."""
        made = [
            (guard, text)
            for instance, guard, text in self._guards.values()
            if guard is not None and not self._was_changed(instance, guard)
        ]
        made += self._held.values()
        self._guards.clear()
        self._new.clear()
        # Objects that are gone by now, or that only guards refer to, were created by the function.
        held: dict[int, int] = {}
        for guard, _ in made:
            held[id(guard[0])] = held.get(id(guard[0]), 0) + 1
        alive = [
            found
            for found in made
            if _referent(found[0][0]) is not None
            and (_is_weak(found[0][0]) or _references(found[0][0]) > held[id(found[0][0])])
        ]
        return AttributeGuards(tuple(guard for guard, _ in alive), tuple(text for _, text in alive))

    def _was_changed(self, instance: Any, guard: Guard) -> bool:
        """Whether the function changed an attribute of an untraced object: a call counter, say,
        which would cause a new trace each time.
        """
        return id(instance) in self._lenient and _native.broken_guard((guard,), []) is not None


# Attributes that copying and pickling look up.
_WHOLE_STATE = ("__getstate__", "__reduce__", "__reduce_ex__")


def _looks_up_itself(cls: type) -> bool:
    """Whether a class has a `__getattribute__` of its own, which may read anything."""
    return not isinstance(usual_method(cls, "__getattribute__"), types.WrapperDescriptorType)


def _items(instance: Any) -> bool:
    return isinstance(instance, (dict, list, tuple)) and len(instance) > 0


def _is_weak(position: Any) -> bool:
    return type(position) is int or isinstance(position, weakref.ref)


def _references(item: Any) -> int:
    """The number of references to an object, besides those of the call and the caller."""
    return sys.getrefcount(item) - 2


def weakly(instance: Any) -> Any:
    """A weak reference, if the object supports it."""
    try:
        return weakref.ref(instance)
    except TypeError:
        return instance


def _found(instance: Any, name: str) -> tuple[int | None, Any]:
    """Where an attribute is stored, and its value; None if it is computed."""
    if name == "__dict__":
        own = _native.instance_dict(instance)
        return (NOWHERE, None) if own is None else (WHOLE_DICT, own)
    of_class = in_class(type(instance), name)
    if isinstance(of_class, types.MemberDescriptorType):
        slots = attributes_of(instance)
        return (IN_SLOT, slots[name]) if name in slots else (NOWHERE, None)
    if of_class is not _NOTHING and hasattr(type(of_class), "__set__"):
        return None, None  # a property, say, whose function is watched as well
    own = _native.instance_dict(instance) or {}
    if name in own:
        return IN_INSTANCE, own[name]
    if of_class is not _NOTHING:
        return IN_CLASS, of_class
    if isinstance(instance, dict) and dict.__contains__(instance, name):
        return IN_ITEMS, dict.__getitem__(instance, name)
    return NOWHERE, None


def _first_foreign(
    value: Any, name: Name, seen: set[int], lenient: bool = False
) -> tuple[Name, str, Any] | None:
    """The first foreign value in a value: where it is, "is" or "holds", and what. Objects inside
    are observed themselves, but not as keys or elements of sets. What deques and the like hold is
    compared if that is lenient enough: no trace records how a function changes them.
    """
    found = kind(value)
    is_foreign = found is Kind.FOREIGN and not (lenient and has_contents(value))
    if is_foreign or (found is Kind.NDARRAY and value.dtype.hasobject):
        return name, "is", value
    if id(value) in seen or _native.has_attributes(value):
        return None
    seen.add(id(value))
    for key in value if isinstance(value, (set, frozenset, dict)) else ():
        if not is_constant_key(key):
            return name, "holds", key
    for step, child in children(value):
        foreign = _first_foreign(child, name.then(value, step), seen, lenient)
        if foreign is not None:
            return foreign
    return None
