"""Traces the user's functions for loops and branches.

Input: a function and the arrays to call it with. Output: the arrays that it returned, as a tree,
and its updates of implicit states such as the random state, which become loop-carried values and
outputs of branches. Traced arrays that a function stores in objects would stay there without
values, so that is refused with an error that says where.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Node, array, leaves, placeholder, replace_leaves, wrap
from ingot.compiler.trace.reach import listed, reachable
from ingot.graph.dtype import promote
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.reporting.source import SourceRecorder
from ingot.graph.shape import shape_text
from ingot.graph.state import Follower, State, followed_states
from ingot.ops.elementwise.casting import astype
from ingot.transforms.control.stored import Outside

__all__ = [
    "States",
    "Tree",
    "as_carried",
    "check_leaves",
    "check_same",
    "check_spec",
    "flat",
    "names_of",
    "run",
    "structure_text",
    "with_dtypes_of",
]


@dataclass(frozen=True, eq=False)
class Tree:
    """The structure of a tree. Its leaves are arrays, and others, which are kept as they are."""

    tree: Any
    is_array: tuple[bool, ...]

    def filled(self, values: Sequence[Any]) -> Any:
        """The tree with other arrays as leaves."""
        remaining = iter(values)
        mixed = [
            next(remaining) if is_array else leaf
            for leaf, is_array in zip(leaves(self.tree), self.is_array, strict=True)
        ]
        return replace_leaves(self.tree, mixed, False)

    @property
    def values(self) -> list[Any]:
        """The leaves that are arrays or numbers."""
        flags = zip(leaves(self.tree), self.is_array, strict=True)
        return [leaf for leaf, is_array in flags if is_array]

    @property
    def skeleton(self) -> Any:
        """The structure in plain containers, for comparisons."""
        return replace_leaves(
            self.tree,
            [
                0 if is_array else leaf
                for leaf, is_array in zip(leaves(self.tree), self.is_array, strict=True)
            ],
            True,
        )


def flat(tree: Any) -> tuple[list[array], Tree]:
    """The arrays of a tree, including its numbers as arrays, and its structure."""
    found: list[array] = []
    flags = []
    for leaf in leaves(tree):
        is_array = _is_value(leaf)
        flags.append(is_array)
        if is_array:
            found.append(leaf if isinstance(leaf, array) else array(leaf))
    return found, Tree(tree, tuple(flags))


def check_leaves(name: str, tree: Any, root: str) -> None:
    """Raises ValueError if a tree contains anything but arrays, numbers and None."""
    for path, leaf in _paths(tree, root):
        if leaf is not None and not _is_value(leaf):
            raise ValueError(
                f"[{name}] {path} is a {type(leaf).__name__}, and a loop carries arrays, numbers "
                "and trees of those: let the body close over it."
            )


def names_of(tree: Any, root: str) -> list[str]:
    """The expression by which the user would refer to each array of a tree: `carry["h"][0]`."""
    return [path for path, leaf in _paths(tree, root) if _is_value(leaf)]


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, (array, bool, int, float, complex, np.ndarray, np.generic))


def _paths(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key, child in tree.items():
            yield from _paths(child, f"{path}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for number, child in enumerate(tree):
            yield from _paths(child, f"{path}[{number}]")
    else:
        yield path, tree


def check_same(what: str, expected: Tree, found: Tree, name: str) -> None:
    """Raises ValueError unless two trees have the same structure."""
    if expected.skeleton != found.skeleton:
        path, before, after = _difference(_shown(expected), _shown(found), what)
        raise ValueError(
            f"[{name}] {what} must keep its structure, but {path} is {before!r} before and "
            f"{after!r} after."
        )


def _difference(before: Any, after: Any, path: str) -> tuple[str, Any, Any]:
    """The innermost subtrees in which two trees differ, and the path to them."""
    children: list[tuple[Any, str]] = []
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        children = [(key, f"{path}[{key!r}]") for key in before]
    elif isinstance(before, (list, tuple)) and type(before) is type(after):
        same = len(before) == len(after)
        children = [(n, f"{path}[{n}]") for n in range(len(before))] if same else []
    for key, inner in children:
        if repr(before[key]) != repr(after[key]):
            return _difference(before[key], after[key], inner)
    return path, before, after


def _shown(tree: Tree) -> Any:
    return tree.filled([_ARRAY] * sum(tree.is_array))


def structure_text(tree: Tree) -> str:
    """A tree as shown in errors, with the word array for each array."""
    return repr(_shown(tree))


class _Mark:
    def __repr__(self) -> str:
        return "array"


_ARRAY = _Mark()


def as_carried(news: Sequence[array], carries: Sequence[array], tree: Tree) -> list[array]:
    """The results of a body, with numbers cast to the dtypes of the carries where these can hold
    them.
    """
    return [
        astype(new, carry.dtype)
        if not isinstance(leaf, array) and promote(new.dtype, carry.dtype) is carry.dtype
        else new
        for new, carry, leaf in zip(news, carries, tree.values, strict=True)
    ]


def with_dtypes_of(
    news: Sequence[array], carries: Sequence[array], tree: Tree
) -> list[array] | None:
    """The carries with Python numbers among them in the dtypes that a body gives them, as in other
    operations; None if all have these.
    """
    weak = [
        not isinstance(leaf, array) and new.shape == carry.shape and new.dtype is not carry.dtype
        for leaf, new, carry in zip(tree.values, news, carries, strict=True)
    ]
    if not any(weak):
        return None
    return [
        astype(carry, new.dtype) if is_weak else carry
        for is_weak, new, carry in zip(weak, news, carries, strict=True)
    ]


def check_spec(name: str, leaf: str, expected: array, found: array) -> None:
    """Raises ValueError unless an array has kept its shape and dtype."""
    if expected.shape != found.shape or expected.dtype is not found.dtype:
        raise ValueError(
            f"[{name}] {leaf} goes into the body as {expected.dtype.name} of shape "
            f"{shape_text(expected.shape)} and comes out as {found.dtype.name} of shape "
            f"{shape_text(found.shape)}: both must be the same. Cast or reshape it in the body, or "
            "start with what the body returns."
        )


class States:
    """The implicit states that traced functions read. Each of their arrays has a placeholder, whose
    value is that of the state outside.
    """

    def __init__(self) -> None:
        self.outside: Follower | None = None
        self._found: dict[int, tuple[State, State, list[Node]]] = {}

    def __call__(self, state: State, name: str) -> State:
        assert self.outside is not None
        if id(state) not in self._found:
            outer = self.outside(state, name)
            stand_ins = [placeholder(x.shape, x.dtype) for x in outer]
            self._found[id(state)] = outer, stand_ins, [x._node for x in stand_ins]
        return self._found[id(state)][1]

    @property
    def leaves(self) -> list[Node]:
        """The placeholders."""
        return [node for _, _, nodes in self._found.values() for node in nodes]

    @property
    def values(self) -> list[array]:
        """The values of the placeholders."""
        return [wrap(x) for outer, _, _ in self._found.values() for x in outer]

    def updated(self) -> list[array]:
        """The states as a function left them; the placeholders are restored for the next one."""
        found = []
        for _, stand_ins, nodes in self._found.values():
            found += [wrap(x) for x in stand_ins]
            stand_ins[:] = map(wrap, nodes)
        return found

    def assign(self, values: Sequence[array]) -> None:
        """Assigns new values to the states outside."""
        remaining = iter(values)
        for outer, _, _ in self._found.values():
            for position in range(len(outer)):
                outer[position] = next(remaining)


def run(
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    states: States,
    recorder: SourceRecorder | None = None,
) -> Any:
    """Calls a function on placeholders; the nodes that it builds belong to `recorder`."""
    recorder = recorder or SourceRecorder()
    outside = Outside(function)
    given = {x._node for x in leaves(list(arguments)) if isinstance(x, array)}

    def is_traced(node: Node) -> bool:
        return node in given or (node.trace is recorder and node.tracer)

    before = _native.set_source_recorder(recorder)
    try:
        with _native.tracing, followed_states(states) as follower:
            states.outside = follower
            result = function(*arguments)
    except BaseException:
        outside.put_back(is_traced)
        raise
    finally:
        _native.set_source_recorder(before)
    _refuse_updates(name, function, recorder, outside)
    own = {id(x) for x in leaves([result, list(arguments)])}
    if sys.getrefcount(recorder) > 3 or outside.holds(is_traced):
        _refuse_escapes(name, function, own, is_traced, outside)
    return result


def _refuse_updates(
    name: str, function: Callable[..., Any], recorder: SourceRecorder, outside: Outside
) -> None:
    """Raises ValueError if the function replaced arrays outside it by others that it computed
    from them, after restoring them.
    """
    updated = {
        now._node
        for before, now in outside.updates()
        if _is_computed_from(now._node, before, recorder)
    }
    if not updated:
        return
    paths = [found.path for found, x in reachable(function, {}) if x._node in updated]
    outside.put_back(lambda node: node.trace is recorder)
    raise ValueError(
        f"[{name}] the function updates {listed(paths)}, which would happen once, when it is "
        "traced, and not in each step: carry it, or update it outside of the loop or branch."
    )


def _is_computed_from(node: Node, source: Node, recorder: SourceRecorder) -> bool:
    """Whether nodes of this trace, with values or not, lead from one node to another."""
    waiting, seen = [node], {node}
    while waiting:
        each = waiting.pop()
        for given in each.inputs if each.trace is recorder else ():
            if given is source:
                return True
            if given not in seen:
                seen.add(given)
                waiting.append(given)
    return False


def _refuse_escapes(
    name: str,
    function: Callable[..., Any],
    own: set[int],
    is_traced: Callable[[Node], bool],
    outside: Outside,
) -> None:
    """Raises ValueError if objects that the function can reach hold traced arrays, after restoring
    their previous contents.
    """
    is_stored = outside.holds(is_traced)
    paths = [
        found.path
        for found, x in reachable(function, {})
        if is_traced(x._node) and (is_stored or id(x) not in own)
    ]
    outside.put_back(is_traced)
    if paths:
        raise ValueError(
            f"[{name}] the function stores arrays in {listed(paths)}, which have no values outside"
            " of the loop or branch: return them, as a part of what is carried on."
        )
