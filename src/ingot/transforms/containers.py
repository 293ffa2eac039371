"""Container arguments of differentiated functions, whose mutations the caller must see.

A transform calls the function with new arrays in copies of the argument's containers, so that other
threads that use the same containers never see traced arrays. When the function has returned or
raised, changes of the copies are applied to the caller's containers. Whatever the function left as
it was given remains the caller's own array or container.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from ingot._native import Node, array, leaves, replace_leaves, same_tree
from ingot.graph.tree import sequence_like
from ingot.runtime.uninterrupted import uninterrupted
from ingot.transforms.tracing import as_outputs, check_arrays, follow

__all__ = ["Followed", "call_followed", "run_on"]

_PLAIN = (dict, list, tuple)


class Followed:
    """An argument whose arrays are replaced by new leaves, which the transform traces.

    Attributes:
        value: The argument for the function.
        nodes: The nodes of the new leaves, in order.
        tree: The new leaves in plain dicts, lists and tuples that the function cannot reach.
    """

    __slots__ = ("_before", "_copies", "_fresh", "_is_plain", "_own", "nodes", "tree", "value")

    def __init__(self, argument: Any, arrays: list[array]) -> None:
        """Replaces `arrays`, which are the leaves of the argument."""
        self._own = arrays
        self._fresh = follow(arrays)
        self.nodes: list[Node] = [leaf._node for leaf in self._fresh]
        self._copies: list[tuple[Any, Any]] = []  # (caller's container, copy), innermost first
        if type(argument) is array:
            self.value: Any = self._fresh[0]
            self.tree: Any = self._fresh[0]
            return
        self.value = replace_leaves(argument, self._fresh, False, self._copies)
        self.tree = replace_leaves(argument, self._fresh, True)
        self._is_plain = True
        # What each of the caller's containers holds now, as a plain copy or as `_Contents`; None
        # for tuples.
        self._before: list[Any] = []
        for own, _ in self._copies:
            kind = type(own)
            if kind is tuple:
                self._before.append(None)
            elif kind is dict or kind is list:
                self._before.append(own.copy())
            else:
                self._is_plain = False
                self._before.append(None if isinstance(own, tuple) else _Contents(own))

    def changes(self) -> list[tuple[Any, _Contents]]:
        """The caller's containers whose copies the function changed, and their new contents."""
        if not self._copies or self._is_as_given():
            return []
        origin = _Origin(self._own, self._fresh, self.nodes)
        for own, copy in self._copies:
            origin.add(own, copy)
        changed = []
        for (own, copy), before in zip(self._copies, self._before, strict=True):
            if before is not None:
                after = _Contents(copy).mapped(origin)
                known = before if type(before) is _Contents else _Contents(before)
                if not after.same_objects(known):
                    changed.append((own, after))
        return changed

    def _is_as_given(self) -> bool:
        """A quick check that the function changed nothing; it may return False if in doubt."""
        return (
            self._is_plain
            and all(map(is_, [leaf._node for leaf in self._fresh], self.nodes))
            and same_tree(self.value, self.tree)
        )

    def copies_of(self, container: Any) -> int:
        """How many copies of one of the caller's containers the function was given."""
        return sum(own is container for own, _ in self._copies)


def call_followed(
    transform: str,
    function: Callable[..., Any],
    followed: Sequence[Followed],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Calls `function` with arguments of which some are traced.

    What it does to the containers among these is applied to the caller's, even if it raises.
    """
    returned = False
    try:
        result = function(*args, **kwargs)
        returned = True
    finally:
        changed = [change for argument in followed for change in argument.changes()]
        if changed:
            if returned:  # if it raised, report that error instead
                _refuse_aliases(transform, followed, [own for own, _ in changed])
            with uninterrupted():
                for own, after in changed:
                    after.put_into(own)
    return result


def run_on(
    name: str, function: Callable[..., Any], primals: Sequence[Any]
) -> tuple[list[Followed], list[array]]:
    """Calls `function` with `primals`, arrays or trees of them, traced; returns these and the
    outputs.
    """
    followed = []
    for primal in primals:
        values = leaves(primal)
        check_arrays(name, "the primals", values, TypeError)
        followed.append(Followed(primal, values))
    arguments = [argument.value for argument in followed]
    return followed, as_outputs(name, call_followed(name, function, followed, arguments, {}))


def _refuse_aliases(transform: str, followed: Sequence[Followed], changed: list[Any]) -> None:
    """Raises ValueError if the function was given several copies of a container that it changed."""
    for own in changed:
        copies = sum(argument.copies_of(own) for argument in followed)
        if copies > 1:
            raise ValueError(
                f"[{transform}] the function changes a {type(own).__name__} that is {copies} times "
                "in its arguments, and is differentiated by each of these apart: pass it once, or "
                "return what is new instead of changing the argument."
            )


class _Origin:
    """Maps the objects that a function was given to those of the caller."""

    def __init__(self, own: list[array], fresh: list[array], nodes: list[Node]) -> None:
        # An array that the function updated in place is a new array to the caller.
        self._origin: dict[int, Any] = {
            id(leaf): array_of_caller
            for leaf, array_of_caller, node in zip(fresh, own, nodes, strict=True)
            if leaf._node is node
        }
        self._seen: set[int] = set()

    def add(self, own: Any, copy: Any) -> None:
        """Adds a container of the caller and its copy, whose items have been added before."""
        self._origin[id(copy)] = self._tuple(own, copy) if isinstance(own, tuple) else own

    def _tuple(self, own: Any, copy: Any) -> Any:
        """`own`, or a new tuple if an array in the copy was updated in place."""
        items = [self(item) for item in copy]
        return own if _same(own, items) else sequence_like(copy, items)

    def __call__(self, item: Any) -> Any:
        """The caller's counterpart of an object. New containers stay, with their items mapped."""
        if id(item) in self._origin:
            return self._origin[id(item)]
        if isinstance(item, tuple):
            return self._tuple(item, item)
        if isinstance(item, (dict, list)) and id(item) not in self._seen:
            self._seen.add(id(item))
            after = _Contents(item).mapped(self)
            if not after.same_objects(_Contents(item)):
                after.put_into(item)
        return item


class _Contents:
    """The items of a list or dict, and its attributes if it has any."""

    __slots__ = ("attributes", "keys", "values")

    def __init__(self, container: Any) -> None:
        is_dict = isinstance(container, dict)
        self.keys: list[Any] | None = list(container) if is_dict else None
        self.values: list[Any] = list(container.values() if is_dict else container)
        is_plain = type(container) in _PLAIN
        self.attributes: dict[str, Any] = (
            {} if is_plain else dict(getattr(container, "__dict__", ()))
        )

    def mapped(self, origin: _Origin) -> _Contents:
        """Maps the items to the caller's objects, in place; returns this."""
        self.values = [origin(value) for value in self.values]
        self.attributes = {name: origin(value) for name, value in self.attributes.items()}
        return self

    def same_objects(self, other: _Contents) -> bool:
        """Whether the keys are equal and all values are identical."""
        return (
            self.keys == other.keys
            and _same(self.values, other.values)
            and list(self.attributes) == list(other.attributes)
            and _same(self.attributes.values(), other.attributes.values())
        )

    def put_into(self, container: Any) -> None:
        """Makes these the contents of a container."""
        if self.keys is None:
            container[:] = self.values
        else:
            _update(container, dict(zip(self.keys, self.values, strict=True)))
        if self.attributes or getattr(container, "__dict__", None):
            _update(container.__dict__, self.attributes)


def _same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _update(container: dict[Any, Any], contents: dict[Any, Any]) -> None:
    """Changes the items that differ, one by one: `update` has another meaning for modules."""
    for key in [key for key in container if key not in contents]:
        del container[key]
    for key, value in contents.items():
        if key not in container or container[key] is not value:
            container[key] = value
    if list(container) != list(contents):
        for key in contents:
            container[key] = container.pop(key)
