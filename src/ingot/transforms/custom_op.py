"""The op behind `custom_function` and `checkpoint`: a function with rules of its own.

The function is called with its arguments detached from the gradient, and the graph that it builds
is recorded. An op over arguments and outputs then carries the rules; where there is no rule, it
transforms the recording. When evaluated, the op passes the outputs through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ingot import _native
from ingot._native import Dtype, array, leaves, placeholder, wrap
from ingot.graph.dtype import is_inexact
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, shape_text
from ingot.graph.tree import arrays_in, tree_map
from ingot.ops.dependencies import depends
from ingot.ops.elementwise.casting import astype, stop_gradient
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.movement import moveaxis
from ingot.transforms.jvp import forward
from ingot.transforms.recording import Recording, record
from ingot.transforms.tracing import follow
from ingot.transforms.vmap import Batch, batch, current_batch, repeated, spread

__all__ = ["CustomFunction", "Rules", "call_with_rules"]


class _Mark:
    """A placeholder for an array in a tree that must not keep the array alive."""

    def __repr__(self) -> str:
        return "array"


_MARK = _Mark()


@dataclass(frozen=True)
class Rules:
    """User-defined rules; where one is None, the function itself is transformed.

    `arguments` is a pair of args and kwargs. vjp(arguments, cotangents, outputs) returns a tree
    with the structure of the args, jvp(arguments, tangents of the args) one with that of the
    outputs, and vmap(arguments, axes of the args) the outputs and their axes.
    """

    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    vmap: Callable[..., Any] | None = None


@dataclass(frozen=True, eq=False)
class CustomFunction(Host):
    """The outputs of a function with rules. Inputs: arguments, captured arrays, outputs."""

    several_outputs = True
    why_host = "it passes the outputs of a function through"

    recording: Recording  # of the function; takes the arguments and captured arrays
    rules: Rules
    late: bool  # whether to recompute intermediate values when the gradient is computed
    arguments: Any  # args and kwargs, with a mark in place of each array
    outputs: Any  # the tree of outputs, likewise
    positional: int  # how many inputs are in the args
    count: int  # how many inputs are arguments; captured arrays and outputs follow

    def infer(self, *inputs: array) -> tuple[tuple[Shape, Dtype], ...]:
        outputs = inputs[self.recording.input_count :]
        return tuple((output.shape, output.dtype) for output in outputs)

    def evaluate(self, *inputs: Any) -> Any:
        return inputs[self.recording.input_count :]

    def passed_input(self, index: int) -> int:
        return self.recording.input_count + index

    def vjp(
        self, cotangents: list[array | None], outs: tuple[array, ...], *inputs: array
    ) -> tuple[Any, ...]:
        nothing = (None,) * len(outs)
        if self.rules.vjp is None:
            return (*self.followed_back(cotangents, inputs), *nothing)
        shares = _call_of_user(
            self.rules.vjp,
            _filled(self.arguments, inputs[: self.count]),
            _filled(self.outputs, _zeros_for_none(cotangents, outs)),
            _filled(self.outputs, outs),
        )
        by_keyword = (_refuse_keywords,) * (self.count - self.positional)
        captured = (None,) * (self.recording.input_count - self.count)
        return (*self.like_arguments(shares, inputs), *by_keyword, *captured, *nothing)

    def followed_back(
        self, cotangents: list[array | None], inputs: tuple[array, ...]
    ) -> list[array | None]:
        """The cotangents of the recording's inputs, by differentiating it."""
        values = list(inputs[: self.recording.input_count])
        if self.late:
            # Whatever is computed from these copies waits for the cotangents, and cannot be merged
            # with what was computed the first time.
            values = depends(values, [x for x in cotangents if x is not None])
        taken = follow(values)
        outputs = self.recording.again(*taken)
        return _native.backward(outputs, cotangents, taken)

    def jvp(
        self, tangents: tuple[array | None, ...], outs: tuple[array, ...], *inputs: array
    ) -> tuple[array | None, ...]:
        taken = self.recording.input_count
        if self.rules.jvp is None:
            primals = follow(list(inputs[:taken]))
            outputs = self.recording.again(*primals)
            return tuple(forward(outputs, [x._node for x in primals], tangents[:taken]))
        if any(tangent is not None for tangent in tangents[self.positional : self.count]):
            raise ValueError(
                "[custom_function] the jvp rule takes no tangents of keyword arguments: "
                "pass what is differentiated by position."
            )
        filled = _zeros_for_none(tangents[: self.positional], inputs[: self.positional])
        result = _call_of_user(
            self.rules.jvp,
            _filled(self.arguments, inputs[: self.count]),
            _filled(self.arguments[0], filled),
        )
        return tuple(self.like_outputs("jvp", result, [out.shape for out in outs], outs))

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        if self.rules.vmap is not None:
            return self.vmapped_by_rule(size, batched, inputs)
        # Rules take all arguments with the batch axis, so arguments without it are repeated.
        has_rules = self.rules.vjp is not None or self.rules.jvp is not None
        taken = self.recording.input_count
        whole = [
            x if is_batched or (index < taken and not has_rules) else repeated(size, x)
            for index, (x, is_batched) in enumerate(zip(inputs, batched, strict=True))
        ]
        flags = (True,) * taken if has_rules else batched[:taken]
        rules = Rules(
            vjp=_mapped(self.rules.vjp, current_batch()),
            jvp=_mapped(self.rules.jvp, current_batch()),
        )
        recording = _vectorised(self.recording, size, flags, whole[:taken])
        return apply_multiple(replace(self, recording=recording, rules=rules), *whole)

    def vmapped_by_rule(
        self, size: int, batched: tuple[bool, ...], inputs: tuple[array, ...]
    ) -> tuple[array, ...]:
        """The outputs of the user's vmap rule."""
        if any(batched[self.positional : self.count]):
            raise ValueError(
                "[custom_function] the vmap rule takes no axes of keyword arguments: "
                "pass what is mapped by position."
            )
        axes = [0 if is_batched else None for is_batched in batched[: self.positional]]
        arguments = _filled(self.arguments, inputs[: self.count])
        marks = tree_map(lambda leaf: leaf if leaf is _MARK else None, self.arguments[0])
        result = _call_of_user(self.rules.vmap, arguments, _filled(marks, axes))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ValueError(
                "[custom_function] the vmap rule must return the outputs and their axes, "
                f"got {result!r}."
            )
        found, out_axes = result
        outputs = [
            repeated(size, output) if axis is None else moveaxis(output, axis, 0)
            for output, axis in zip(leaves(found), spread("out_axes", out_axes, found), strict=True)
        ]
        traced = inputs[self.recording.input_count :]
        shapes = [
            x.shape if is_batched else (size, *x.shape)
            for x, is_batched in zip(traced, batched[-len(traced) :], strict=True)
        ]
        return tuple(self.like_outputs("vmap", outputs, shapes, traced))

    def like_arguments(self, tree: Any, inputs: Sequence[array]) -> list[array | None]:
        """The cotangents that a vjp rule returned, one for each array in the args."""
        args = self.arguments[0]
        shares = _matched(args, tree)
        if shares is None and len(args) == 1:
            shares = _matched(args[0], tree)
        if shares is None:
            shares = arrays_in(tree)
        if len(shares) != self.positional:
            raise ValueError(
                "[custom_function] the vjp rule must return a cotangent for each of the "
                f"{self.positional} arrays among the arguments, shaped like these, got {tree!r}."
            )
        return [
            _checked("vjp", share, x.shape, x) if is_inexact(x.dtype) else None
            for share, x in zip(shares, inputs, strict=False)
        ]

    def like_outputs(
        self, rule: str, tree: Any, shapes: list[Shape], outs: Sequence[array]
    ) -> list[array]:
        """The arrays that a rule returned, one for each output."""
        found = arrays_in(tree)
        if len(found) != len(outs):
            raise ValueError(
                f"[custom_function] the {rule} rule must return {len(outs)} arrays, shaped like "
                f"the outputs, got {tree!r}."
            )
        checked = (
            _checked(rule, x, shape, out) for x, shape, out in zip(found, shapes, outs, strict=True)
        )
        return [x for x in checked if x is not None]


def _refuse_keywords() -> array:
    raise ValueError(
        "[custom_function] the vjp rule gives no cotangents for keyword arguments: "
        "pass what is differentiated by position."
    )


def _checked(rule: str, found: Any, shape: Shape, like: array) -> array | None:
    """Checks the shape of what a rule returned for `like`, and casts it to the dtype of `like`."""
    if found is None:
        return None
    if not isinstance(found, array) or found.shape != shape:
        text = f"shape {shape_text(found.shape)}" if isinstance(found, array) else repr(found)
        raise ValueError(
            f"[custom_function] the {rule} rule returned {text} where an array of shape "
            f"{shape_text(shape)} belongs."
        )
    return astype(found, like.dtype)


def _matched(structure: Any, tree: Any) -> list[Any] | None:
    """The leaves of `tree` at the marks of `structure`; None if their structures differ."""
    if structure is _MARK:
        return [tree] if tree is None or isinstance(tree, array) else None
    if isinstance(structure, dict):
        if not isinstance(tree, dict) or tree.keys() != structure.keys():
            return None
        pairs = [(structure[key], tree[key]) for key in structure]
    elif isinstance(structure, (list, tuple)):
        if not isinstance(tree, (list, tuple)) or len(tree) != len(structure):
            return None
        pairs = list(zip(structure, tree, strict=True))
    else:
        return []
    found: list[Any] = []
    for prefix, subtree in pairs:
        matched = _matched(prefix, subtree)
        if matched is None:
            return None
        found += matched
    return found


def _structure(tree: Any) -> Any:
    """`tree` with a mark in place of each array."""
    return tree_map(lambda leaf: _MARK if isinstance(leaf, array) else leaf, tree)


def _filled(structure: Any, values: Sequence[Any]) -> Any:
    """`structure` with its marks replaced, in order."""
    remaining = iter(values)
    return tree_map(lambda leaf: next(remaining) if leaf is _MARK else leaf, structure)


def _zeros_for_none(vectors: Sequence[array | None], like: Sequence[array]) -> list[array]:
    return [
        zeros(x.shape, x.dtype) if vector is None else vector
        for vector, x in zip(vectors, like, strict=True)
    ]


def _vectorised(
    recording: Recording, size: int, batched: tuple[bool, ...], inputs: Sequence[array]
) -> Recording:
    """The recording for a batch: batched inputs have the batch axis first."""
    values = []
    over = Batch(size, [], [])
    examples = []
    for x, has_batch in zip(inputs, batched, strict=True):
        shape = x.shape
        value = placeholder(shape, x.dtype)
        values.append(value)
        if has_batch:
            example = placeholder(shape[1:], x.dtype)
            over.leaves.append(example._node)
            over.values.append(value)
            examples.append(example)
        else:
            examples.append(value)
    outputs = recording(*examples)
    rebuilt = [
        repeated(size, output) if found is None else found
        for output, found in zip(outputs, batch(outputs, over), strict=True)
    ]
    return record(rebuilt, [value._node for value in values])[0]


def _mapped(rule: Callable[..., Any] | None, within: Batch) -> Callable[..., Any] | None:
    """`rule` for a batch: all its arrays have the batch axis first.

    Arrays that the rule captured from the function being vectorised are batched too.
    """
    if rule is None:
        return None

    def batched_rule(*trees: Any) -> Any:
        over = Batch(within.size, list(within.leaves), list(within.values))

        def example(leaf: Any) -> Any:
            if not isinstance(leaf, array):
                return leaf
            one = placeholder(leaf.shape[1:], leaf.dtype)
            over.leaves.append(one._node)
            over.values.append(wrap(leaf))
            return one

        with _native.tracing:
            result = rule(*tree_map(example, trees))
            outputs = arrays_in(result)
            rebuilt = [
                repeated(over.size, output) if found is None else found
                for output, found in zip(outputs, batch(outputs, over), strict=True)
            ]
        return _filled(_structure(result), rebuilt)

    return batched_rule


def _call_of_user(rule: Any, *arguments: Any) -> Any:
    """Calls a user's rule so that the arrays it builds are attributed to its own source lines."""
    line = _native.take_line_of(None)
    try:
        return rule(*arguments)
    finally:
        _native.take_line_of(line)


def call_with_rules(
    function: Callable[..., Any], rules: Rules, late: bool, args: Any, kwargs: Any
) -> Any:
    """Calls `function`, with rules in place of its derivatives."""
    positional = len(arrays_in(args))
    followed = arrays_in((args, kwargs))
    arguments = _structure((args, kwargs))
    with _native.tracing:
        # These copies represent the arguments in the recording.
        inside = follow([stop_gradient(x) for x in followed])
        inside_nodes = [x._node for x in inside]
        inside_args, inside_kwargs = _filled(arguments, inside)
        result = function(*inside_args, **inside_kwargs)
        outputs = arrays_in(result)
        if not outputs:
            return result
        recording, captured = record(outputs, inside_nodes)
    op = CustomFunction(
        recording, rules, late, arguments, _structure(result), positional, len(followed)
    )
    return _filled(op.outputs, apply_multiple(op, *followed, *map(wrap, captured), *outputs))
