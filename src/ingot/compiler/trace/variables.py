"""Variables: what a function reads by name, and the guards on it.

The search starts at the function and the classes of the objects in its arguments, and follows the
functions and methods that the code names. Numbers, strings and small containers (NumPy's arrays
included) in closures, globals, modules, classes, defaults and attributes of functions are compared
on later calls, as attributes of objects are; functions, classes and objects are compared by
identity, and reads of the latter are observed. A function whose code was replaced is another one.
Arrays are constants, and so is everything that belongs to installed packages.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections.abc import Iterable
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import (
    CODE_OF,
    IN_CELL,
    IN_DEFAULTS,
    IN_GLOBALS,
    IN_INSTANCE,
    MUTABLE,
    OF_CLASS,
    FastCall,
    guard_key,
)
from ingot.compiler.trace.attributes import AttributeReads, Guard, default_of, in_class, weakly
from ingot.compiler.trace.structure import (
    Kind,
    Name,
    children,
    has_contents,
    holds_items,
    kind,
    short_text,
)
from ingot.compiler.trace.users_code import is_users_class, is_users_code, is_users_module
from ingot.graph.lazy_dataclass import dataclass
from ingot.tuning import MAX_GUARDED_ITEMS

__all__ = ["Variables"]

_NOTHING = object()
_Holder = type | FunctionType | ModuleType | SimpleNamespace
_CONTAINERS = (Kind.SEQUENCE, Kind.DICT, Kind.SET)

# The bytecode of functions is read here: `dis.get_instructions` takes 0.2 ms for a small function.
_WITH_NAMES = frozenset(dis.hasname)
_OF_VARIABLES = frozenset({dis.opmap["LOAD_GLOBAL"], dis.opmap["LOAD_NAME"]})
# The low bits of an instruction's argument that are flags; the others are the index of a name.
_FLAG_BITS = {dis.opmap["LOAD_GLOBAL"]: 1}
if sys.version_info >= (3, 12):
    _FLAG_BITS |= {dis.opmap["LOAD_ATTR"]: 1, dis.opmap["LOAD_SUPER_ATTR"]: 2}


@dataclass(frozen=True)
class _Variable:
    guard: Guard
    text: str
    value: Any  # keeps it, until the trace is over

    def is_unchanged(self) -> bool:
        """Whether the function itself did not assign the variable."""
        holder, source, name, expected, key = self.guard
        held = holder() if isinstance(holder, weakref.ref) else holder
        value = _current(held, source, name)
        if value is not self.value or expected is not MUTABLE:
            return value is self.value
        try:
            return guard_key(value, source) == key
        except ValueError:  # the function added a value that cannot be inspected
            return False


class Variables:
    """The variables that a function may read, as they are before it is traced."""

    def __init__(self, reads: AttributeReads, captured: Iterable[Any]) -> None:
        """Begins with nothing.

        Args:
            reads: Called with the objects that are found.
            captured: Containers that belong to the signature already.
        """
        self._reads = reads
        self._captured = {id(item) for item in captured}
        self._seen: dict[int, Any] = {}
        self._functions: list[FunctionType] = []
        self._holders: list[tuple[_Holder, str, frozenset[str]]] = []  # and looked up names
        self._names: set[str] = set()  # of attributes, in all functions
        self._found: dict[tuple[int, int, Any], _Variable] = {}

    def follow(self, items: Iterable[Any]) -> None:
        """Adds what functions, methods and the classes of objects read."""
        for item in items:
            self._add(item, "")
        is_new = True
        while is_new:
            is_new = bool(self._functions)
            while self._functions:
                self._add_function(self._functions.pop())
            for position, (holder, text, looked_up) in enumerate(self._holders):
                names = (self._names & _attribute_names(holder)) - looked_up
                is_new = is_new or bool(names)
                self._holders[position] = holder, text, looked_up | names
                for name in names:
                    self._add_attribute(holder, name, f"{text}.{name}")

    def guards(self) -> list[tuple[Guard, str]]:
        """The guards of the trace and their texts, collected when it has ended."""
        kept = [x for x in self._found.values() if x.is_unchanged()]
        self._seen.clear()
        return [(variable.guard, variable.text) for variable in kept]

    def _add(self, value: Any, text: str) -> None:
        """Finds functions, classes and objects in the value of a variable."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, FunctionType):
            self._functions.append(value)
            self._add_holder(value, value.__name__)
        elif isinstance(value, (type, ModuleType)):
            self._add_holder(value, value.__name__)
        elif type(value) is SimpleNamespace:
            self._add_holder(value, text)
        elif isinstance(value, FastCall):
            self._add(getattr(value, "__wrapped__", None), text)
        elif isinstance(value, (MethodType, partial)):
            for _, child in children(value):
                self._add(child, text)
        elif _native.has_attributes(value):
            self._add_holder(type(value), type(value).__name__)
            if is_users_class(type(value)) and text:
                self._reads.watch_variable(value, Name(text, is_inside=True))
        if _is_compared(value) and _is_small(value):
            for _, child in children(value):
                self._add(child, text)

    def _add_holder(self, holder: _Holder, text: str) -> None:
        if any(holder is known for known, *_ in self._holders):
            return
        self._holders.append((holder, text, frozenset()))
        for base in _users_classes(holder):
            for name, value in list(vars(base).items()):
                if name.startswith("__"):  # `__call__`, `__add__` and so on are not named
                    self._add_functions(value)

    def _add_function(self, function: FunctionType) -> None:
        code = function.__code__
        is_users = is_users_code(code)
        variables, attributes = _names_in(code) if is_users else (frozenset(), frozenset())
        for position, name in enumerate(code.co_freevars):
            value = _current(function, IN_CELL, position)
            self._variable(function, IN_CELL, position, name, value, is_users)
        for name in variables & function.__globals__.keys():
            self._variable(function, IN_GLOBALS, name, name, function.__globals__[name])
        if is_users:
            self._variable(function, CODE_OF, "", f"the code of {function.__name__}", code)
            self._add_defaults(function)
        self._names |= attributes

    def _add_defaults(self, function: FunctionType) -> None:
        """Defaults can change, and be replaced, from call to call."""
        positional = enumerate(function.__defaults__ or ())
        for name, default in (*positional, *(function.__kwdefaults__ or {}).items()):
            text = f"a default of {function.__name__}"
            self._variable(function, IN_DEFAULTS, name, text, default)

    def _add_attribute(self, holder: _Holder, name: str, text: str) -> None:
        if not isinstance(holder, type):
            self._variable(holder, IN_INSTANCE, name, text, vars(holder)[name])
            return
        own = in_class(holder, name)
        bases = [base for base in _users_classes(holder) if name in vars(base)]
        # The definition of a base class matters for `super()`.
        found = [(base, vars(base)[name]) for base in bases if vars(base)[name] is not own]
        for of, value in [(holder, own), *found]:
            self._add_functions(value)
            if isinstance(value, (FunctionType, FastCall)) or not hasattr(type(value), "__get__"):
                self._variable(of, OF_CLASS, name, f"{of.__name__}.{name}", value)

    def _add_functions(self, value: Any) -> None:
        """Adds the functions of what a class holds."""
        if isinstance(value, property):
            value = (value.fget, value.fset)
        elif isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        for function in value if isinstance(value, tuple) else (value,):
            if isinstance(function, (FunctionType, FastCall)):
                self._add(function, "")

    def _variable(
        self,
        holder: Any,
        source: int,
        name: Any,
        text: str,
        value: Any,
        is_users: bool = True,
    ) -> None:
        if value is _NOTHING or id(value) in self._captured:
            return
        self._add(value, text if is_users else "")
        if not is_users or (id(holder), source, name) in self._found:
            return
        expected = self._expected(value, source, text)
        if expected is not None:
            guard = (weakly(holder), source, name, *expected)
            text = f"`{text}`" if source == CODE_OF else f"`{text}` {short_text(value)}"
            self._found[id(holder), source, name] = _Variable(guard, text, value)

    def _expected(self, value: Any, source: int, text: str) -> tuple[Any, Any] | None:
        """The expected value of a variable and its key; None if it is a constant."""
        found = kind(value)
        if found is Kind.ARRAY and source != OF_CLASS:
            return None
        if source == CODE_OF:
            return value, None
        is_object = _native.has_attributes(value)
        if isinstance(value, (FunctionType, type, FastCall, ModuleType, SimpleNamespace)) or (
            is_object and not holds_items(value)
        ):
            return weakly(value), None
        if found is Kind.CONSTANT or found is Kind.ARRAY:
            return value, guard_key(value, source)
        otherwise = (weakly(value), None) if is_object else None
        if not _is_compared(value) or not _is_small(value):
            return otherwise
        try:
            key = guard_key(value, source)
        except ValueError:  # it holds a value that cannot be inspected
            return otherwise
        self._reads.watch_inside(value, Name(text, is_inside=True))
        return MUTABLE, key


def _current(holder: Any, source: int, name: Any) -> Any:
    """The current value of a variable."""
    if source == IN_CELL:
        try:
            return holder.__closure__[name].cell_contents
        except ValueError:
            return _NOTHING  # a variable without a value
    if source == IN_GLOBALS:
        return holder.__globals__.get(name, _NOTHING)
    if source == IN_DEFAULTS:
        return default_of(holder, name)
    if source == CODE_OF:
        return holder.__code__
    if source == OF_CLASS:
        return in_class(holder, name)
    return vars(holder).get(name, _NOTHING)


def _is_compared(value: Any) -> bool:
    """Whether guards compare the contents of a value."""
    if _native.has_attributes(value):
        return holds_items(value)
    found = kind(value)
    is_numbers = found is Kind.NDARRAY and not value.dtype.hasobject
    return found in _CONTAINERS or is_numbers or has_contents(value)


def _is_small(value: Any) -> bool:
    """Whether a container has few items, with those of the containers in it."""
    left = MAX_GUARDED_ITEMS
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        if _is_compared(item) and id(item) not in seen:
            seen.add(id(item))
            left -= item.size if isinstance(item, np.ndarray) else len(item)
            if left < 0:
                return False
            waiting += [child for _, child in children(item)]
    return True


def _attribute_names(holder: _Holder) -> set[str]:
    """The names that matter of what a function may read attributes of."""
    if isinstance(holder, FunctionType):
        return set(vars(holder)) if is_users_code(holder.__code__) else set()
    if isinstance(holder, SimpleNamespace):
        return set(vars(holder))
    if isinstance(holder, ModuleType):
        return set(vars(holder)) if is_users_module(holder) else set()
    return {name for base in _users_classes(holder) for name in vars(base)}


def _users_classes(holder: Any) -> list[type]:
    return (
        [base for base in holder.__mro__ if is_users_class(base)]
        if isinstance(holder, type)
        else []
    )


@lru_cache(512)
def _names_in(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names of globals and of attributes in a function and those that it defines."""
    variables: set[str] = set()
    attributes: set[str] = set()
    bytecode, names = code.co_code, code.co_names
    extended = 0
    for opcode, byte in zip(bytecode[::2], bytecode[1::2], strict=True):
        argument = extended | byte
        extended = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode in _WITH_NAMES:
            found = variables if opcode in _OF_VARIABLES else attributes
            found.add(names[argument >> _FLAG_BITS.get(opcode, 0)])
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names_in(constant)
            variables |= inner[0]
            attributes |= inner[1]
    return frozenset(variables), frozenset(attributes)
