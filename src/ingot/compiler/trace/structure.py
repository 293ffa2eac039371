"""Structure: what compiled functions see in Python objects, and its names.

Arguments are trees: containers, modules, dataclasses, bound methods, partials, and the receiver of
a method, whatever its class. This mirrors `_native/calls/signature.c` with names and paths; only
calls that miss the cache need them.

Containers in arguments are values: a trace works on copies. Objects are not: a trace works on the
objects themselves, whose arrays refer to placeholders meanwhile, because a function may reach them
in other ways too.
"""

from __future__ import annotations

import copy
import copyreg
import enum
import functools
import re
import threading
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from reprlib import Repr
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, tuple_like
from ingot.graph.device import Device, Stream
from ingot.graph.dimension import Dimension
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.shape import shape_text

__all__ = [
    "ARGUMENT",
    "BOUND",
    "CAPTURED",
    "INSIDE",
    "RECEIVER",
    "STRUCTURAL",
    "Attribute",
    "Contents",
    "Kind",
    "Name",
    "Path",
    "attributes_of",
    "children",
    "copied",
    "has_contents",
    "holds_items",
    "is_constant_key",
    "item_at",
    "items_of",
    "kind",
    "short_text",
]


class Kind(enum.IntEnum):
    """How compiled functions classify an object; the values are those of
    `_native/calls/structure.h`.
    """

    ARRAY = 0
    SEQUENCE = 1
    DICT = 2
    OBJECT = 3  # an instance of a class written in Python, with attributes
    METHOD = 4
    PARTIAL = 5
    CONSTANT = 6  # immutable, and equal values have equal keys
    SET = 7
    NDARRAY = 8
    FOREIGN = 9  # cannot be inspected


_KINDS = tuple(Kind)


class _ShortRepr(Repr):
    """Texts of values that may be long. They must not evaluate arrays or print whole models."""

    def repr1(self, x: Any, level: int) -> str:
        """The text of a value inside others."""
        if isinstance(x, array):
            return f"{x.dtype.name}{shape_text(x.shape)}"
        if _native.has_attributes(x):
            return type(x).__name__
        if isinstance(x, types.ModuleType):
            return f"the module {x.__name__}"
        return super().repr1(x, level)


_texts = _ShortRepr()
_texts.maxstring = _texts.maxother = 60
short_text = _texts.repr

for _constant in (
    *(type(np.dtype(code)) for code in np.typecodes["All"]),
    *(Dtype, Dimension, Device, Stream, np.ufunc, type(Ellipsis), type(NotImplemented)),
    *(slice, range, re.Pattern, types.ModuleType, types.GenericAlias, types.UnionType),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType),
    # These hold no numbers that a result could depend on.
    *(type(threading.Lock()), type(threading.RLock())),
):
    _native.register_constant_type(_constant)

# Types written in C whose instances are not arguments, but whose contents guards compare.
_CONTENTS: dict[type, Callable[[Any], Any]] = {
    deque: list,
    bytearray: bytes,
    types.MappingProxyType: dict,
}
for _type, _maker in _CONTENTS.items():
    _native.register_contents(_type, _maker)
_native.set_callbacks(enum_metatype=enum.EnumMeta, partial_type=functools.partial)


@dataclass(frozen=True)
class Attribute:
    """A step of a path that is an attribute. Other steps are keys of dicts and positions."""

    name: str


Path = tuple[Any, ...]


@dataclass(frozen=True)
class Name:
    """The display name of a value: `params`["w"][0], or `self.layers[0].weight` inside
    objects.
    """

    base: str
    steps: str = ""
    is_inside: bool = False
    prefix: str = "argument "

    def __str__(self) -> str:
        if not self.prefix.startswith("argument"):
            return f"{self.prefix}{self.base}{self.steps}"
        if self.base.isdigit():
            return f"{self.prefix}{self.base}{self.steps}"
        inside, outside = (self.steps, "") if self.is_inside else ("", self.steps)
        return f"{self.prefix}`{self.base}{inside}`{outside}"

    @property
    def short(self) -> str:
        """The name without the word "argument"."""
        return str(self).removeprefix("argument ")

    def then(self, holder: Any, step: Any) -> Name:
        """The name one step further down the path, in `holder`."""
        is_inside = self.is_inside or _native.has_attributes(holder)
        if isinstance(step, Attribute):
            text = f".{step.name}"
            is_inside = True
        elif is_inside and _native.has_attributes(holder) and str(step).isidentifier():
            text = f".{step}"  # items of modules are attributes
        else:
            text = f"[{short_text(step)}]"
        return Name(self.base, self.steps + text, is_inside, self.prefix)


def kind(item: Any) -> Kind:
    """The kind of an object."""
    return _KINDS[_native.kind(item)]  # quicker than to call `Kind`


def has_contents(item: Any) -> bool:
    """Whether an object is foreign, such as a deque, but guards compare what it holds."""
    return type(item) in _CONTENTS


def holds_items(item: Any) -> bool:
    """Whether an object with attributes is a dict, list or tuple whose reads hooks may miss."""
    return isinstance(item, (dict, list, tuple)) and not _native.is_tree_instance(item)


def attributes_of(item: Any) -> dict[str, Any]:
    """An instance's own attributes, in its dict and in slots."""
    found = dict(_native.instance_dict(item) or {})
    for name in copyreg._slotnames(type(item)):  # type: ignore[attr-defined]
        try:
            found[name] = object.__getattribute__(item, name)
        except AttributeError:
            continue  # an empty slot
    return found


def items_of(item: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The items of a dict, bypassing overrides of its class; ordered dicts keep their order."""
    base: type[dict[Any, Any]] = OrderedDict if isinstance(item, OrderedDict) else dict
    return list(base.items(item))


def item_at(tree: Any, path: Path) -> Any:
    """The item at a path."""
    for step in path:
        if not isinstance(step, Attribute):
            tree = _native_item(tree, step)
        elif _native.has_attributes(tree):
            tree = attributes_of(tree)[step.name]
        else:
            tree = getattr(tree, step.name)  # of a method or a partial
    return tree


def _native_item(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        return dict.__getitem__(container, key)
    of = list if isinstance(container, list) else tuple
    return of.__getitem__(container, key)


# Attributes that belong to the key of a signature; others matter only if they are read.
STRUCTURAL = (Kind.ARRAY, Kind.SEQUENCE, Kind.DICT, Kind.OBJECT, Kind.METHOD, Kind.PARTIAL)


def children(item: Any) -> Iterator[tuple[Any, Any]]:
    """Steps and what they lead to: items, then attributes that can hold arrays."""
    if isinstance(item, dict):
        yield from items_of(item)
    elif isinstance(item, (list, tuple)):
        yield from enumerate(list(item))
    elif isinstance(item, types.MethodType):
        yield Attribute("__func__"), item.__func__
        yield Attribute("__self__"), item.__self__
    elif isinstance(item, functools.partial):
        for name in ("func", "args", "keywords"):
            yield Attribute(name), getattr(item, name)
    elif has_contents(item):
        yield from children(_CONTENTS[type(item)](item))
    if _native.has_attributes(item):
        for name, value in attributes_of(item).items():
            if kind(value) in STRUCTURAL:
                yield Attribute(name), value


@dataclass(frozen=True)
class Mode:
    """The rules by which objects are traversed, as in `_native/calls/structure.h`."""

    in_place: bool = False  # inside objects and captured containers
    lenient: bool = False  # foreign values are an error only where they are read
    any_object: bool = False  # objects of all classes are traversed


ARGUMENT = Mode()
RECEIVER = Mode(any_object=True)
CAPTURED = Mode(in_place=True)
BOUND = Mode(in_place=True, any_object=True)
INSIDE = Mode(in_place=True, lenient=True)


@dataclass
class Contents:
    """The contents of the arguments of a call, in the order of its signature."""

    arrays: list[tuple[Name, array, bool]] = field(default_factory=list)  # True: inside an object
    objects: list[tuple[Name, Any]] = field(default_factory=list)
    constants: list[tuple[Name, Any]] = field(default_factory=list)
    refused: list[tuple[Name, str, Any]] = field(default_factory=list)  # it "is" or "holds" what
    kept: dict[int, Any] = field(default_factory=dict)  # lists and dicts inside objects
    _seen: set[int] = field(default_factory=set)

    def add(self, item: Any, name: Name, mode: Mode) -> None:
        """Adds a tree."""
        found = kind(item)
        if found is Kind.ARRAY:
            self._add_array(item, name, mode.in_place)
        elif _native.has_attributes(item):
            self._add_object(item, name, mode)
        elif found in (Kind.SEQUENCE, Kind.DICT):
            self._add_container(item, name, mode)
        elif found in (Kind.METHOD, Kind.PARTIAL):
            for step, child in children(item):
                is_receiver = step == Attribute("__self__")
                inner = replace(mode, any_object=True) if is_receiver else mode
                self.add(child, name.then(item, step), inner)
        elif found in (Kind.FOREIGN, Kind.SET):
            if not mode.lenient:
                self.refused.append((name, "is", item))
        elif isinstance(item, frozenset) and not is_constant_key(item):
            self.refused += [(name, "holds", each) for each in item if not is_constant_key(each)]
        elif found is Kind.NDARRAY and not mode.in_place:
            self._add_array(array(item), name, False)
        else:
            self.constants.append((name, item))

    def _add_array(self, item: array, name: Name, in_place: bool) -> None:
        if in_place and id(item) in self._seen:
            return
        if in_place:
            self._seen.add(id(item))
        self.arrays.append((name, item, in_place))

    def _add_object(self, item: Any, name: Name, mode: Mode) -> None:
        if id(item) in self._seen:
            return
        is_tree = isinstance(item, (dict, list, tuple)) or _native.is_tree_instance(item)
        if not (is_tree or mode.lenient or mode.any_object):
            self.refused.append((name, "is", item))
            return
        self._seen.add(id(item))
        self.objects.append((name, item))
        for step, child in children(item):
            self.add(child, name.then(item, step), INSIDE)

    def _add_container(self, item: Any, name: Name, mode: Mode) -> None:
        if not isinstance(item, tuple):
            if id(item) in self._seen:
                if mode.in_place:
                    self._keep(item)
                return
            self._seen.add(id(item))
            if mode.in_place:
                self.kept[id(item)] = item
        if not item:
            self.constants.append((name, item))
        for step, child in children(item):
            if isinstance(item, dict) and not mode.lenient and not is_constant_key(step):
                self.refused.append((name, "holds", step))
            self.add(child, name.then(item, step), mode)

    def _keep(self, item: Any) -> None:
        """Records that a container of the arguments is also inside an object, with all its
        contents.
        """
        if isinstance(item, array):
            self.arrays = [
                (name, value, is_inside or value is item) for name, value, is_inside in self.arrays
            ]
        elif id(item) not in self.kept and not _native.has_attributes(item):
            if isinstance(item, (list, dict)):
                self.kept[id(item)] = item
            for _, child in children(item):
                self._keep(child)


def is_constant_key(key: Any) -> bool:
    """Whether a key of a dict or an element of a set is a constant throughout."""
    if isinstance(key, (tuple, frozenset)):
        return all(map(is_constant_key, key))
    return kind(key) is Kind.CONSTANT


def copied(item: Any, replaced: Callable[[Any], Any], copies: dict[int, Any]) -> Any:
    """A tree with `replaced(leaf)` in place of arrays, NumPy's too; objects stay themselves.

    Args:
        item: The tree.
        replaced: Gives what is to be there.
        copies: What lists and dicts became, by identity; one that is there twice is copied once.
    """
    if isinstance(item, (array, np.ndarray)):
        return replaced(item)
    if id(item) in copies:
        return copies[id(item)]
    if _native.has_attributes(item):
        return item
    if isinstance(item, functools.partial):
        parts = (item.func, item.args, item.keywords)
        function, args, keywords = (copied(part, replaced, copies) for part in parts)
        return type(item)(function, *args, **keywords)
    if isinstance(item, tuple):
        return tuple_like(item, [copied(child, replaced, copies) for child in item])
    if isinstance(item, (list, dict)):
        return _copied_container(item, replaced, copies)
    return item


def _copied_container(item: Any, replaced: Callable[[Any], Any], copies: dict[int, Any]) -> Any:
    made = copies[id(item)] = copy.copy(item)
    for step, child in children(item):
        made[step] = copied(child, replaced, copies)
    return made
