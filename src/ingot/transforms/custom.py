"""Functions with rules of their own: `mx.custom_function` and `mx.checkpoint`.

The function runs on its arguments with the derivative cut off; an op over the arguments and the outputs then carries the
rules. Evaluated, that op passes the outputs through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any

from ingot._native import Dtype, array
from ingot.graph.op import Op, apply_multiple, no_rule
from ingot.graph.shape import Shape
from ingot.graph.tree import arrays_in, tree_map
from ingot.ops.casting import stop_gradient
from ingot.ops.creation import zeros
from ingot.ops.dependencies import depends
from ingot.ops.movement import broadcast_to, moveaxis
from ingot.transforms.jvp import jvp
from ingot.transforms.tracing import check_callable
from ingot.transforms.vjp import vjp
from ingot.transforms.vmap import _spread, vmap

__all__ = ["checkpoint", "custom_function"]


class _Leaf:
    """Marks the place of an array in a tree that must not keep the array itself alive."""

    def __repr__(self) -> str:
        return "array"


_LEAF = _Leaf()


@dataclass(frozen=True)
class Rules:
    """What to do instead of following the function, each on trees; None: follow the function.

    vjp(arguments, cotangents, outputs) and jvp(arguments, tangents) take and return trees shaped like the arguments
    (a tuple) and the outputs; vmap(arguments, axes) returns outputs and their axes.
    """

    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    vmap: Callable[..., Any] | None = None


@dataclass(frozen=True, eq=False)
class CustomFunction(Op):
    """The outputs of a user's function, given after its arguments, with the user's rules."""

    several_outputs = True

    function: Callable[..., Any]
    rules: Rules
    arguments: Any  # the tuple of arguments, with a mark where an array goes
    outputs: Any  # the tree of outputs, likewise
    count: int  # how many of the inputs are arguments

    def infer(self, *inputs: array) -> tuple[tuple[Shape, Dtype], ...]:
        return tuple((output.shape, output.dtype) for output in inputs[self.count :])

    def evaluate(self, *inputs: Any) -> Any:
        return inputs[self.count :]

    def vjp(
        self, cotangents: list[array | None], outs: tuple[array, ...], *inputs: array
    ) -> tuple[array | None, ...]:
        arguments = inputs[: self.count]
        filled = [
            zeros(out.shape, out.dtype) if cotangent is None else cotangent
            for out, cotangent in zip(outs, cotangents, strict=True)
        ]
        if self.rules.vjp is None:
            shares: list[array | None] = list(vjp(self._flat_function(), arguments, filled)[1])
        else:
            tree = self.rules.vjp(
                self._argument_tree(arguments),
                _filled(self.outputs, filled),
                _filled(self.outputs, outs),
            )
            shares = self._like_arguments("vjp", tree, arguments)
        return (*shares, *(None,) * len(outs))

    def jvp(
        self, tangents: tuple[array | None, ...], outs: tuple[array, ...], *inputs: array
    ) -> tuple[array, ...]:
        arguments = inputs[: self.count]
        filled = [
            zeros(argument.shape, argument.dtype) if tangent is None else tangent
            for argument, tangent in zip(arguments, tangents, strict=False)
        ]
        if self.rules.jvp is None:
            return tuple(jvp(self._flat_function(), arguments, filled)[1])
        tree = self.rules.jvp(self._argument_tree(arguments), self._argument_tree(filled))
        return tuple(self._like_outputs("jvp", tree, outs))

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        arguments = inputs[: self.count]
        if self.rules.vmap is not None:
            axes = [0 if flag else None for flag in batched[: self.count]]
            tree, out_axes = self.rules.vmap(
                self._argument_tree(arguments), self._argument_tree(axes)
            )
            placed = zip(arrays_in(tree), _spread("vmap", out_axes, tree), strict=True)
            return tuple(
                _repeated(size, output) if axis is None else moveaxis(output, axis, 0)
                for output, axis in placed
            )
        whole = [x if flag else _repeated(size, x) for x, flag in zip(inputs, batched, strict=True)]
        mapped = Rules(
            vjp=None if self.rules.vjp is None else self._mapped(self.rules.vjp),
            jvp=None if self.rules.jvp is None else self._mapped(self.rules.jvp),
        )
        op = CustomFunction(
            self._mapped(self.function), mapped, self.arguments, self.outputs, self.count
        )
        return apply_multiple(op, *whole)

    emit = no_rule("it passes the outputs of the function through, which are emitted themselves")

    def _mapped(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """`rule` for a batch: its arrays have the batch axis first; other leaves stay as they are."""

        def batched_rule(*trees: Any) -> Any:
            axes = tree_map(lambda leaf: 0 if isinstance(leaf, array) else None, trees)
            return vmap(rule, in_axes=axes)(*trees)

        return batched_rule

    def _flat_function(self) -> Callable[..., Any]:
        return lambda *arguments: arrays_in(self.function(*self._argument_tree(arguments)))

    def _argument_tree(self, leaves: Any) -> Any:
        return _filled(self.arguments, leaves)

    def _like_arguments(self, rule: str, tree: Any, arguments: Any) -> list[array | None]:
        """The shares that a rule returned, in the order of the arguments."""
        if len(self.arguments) == 1 and not (isinstance(tree, tuple) and len(tree) == 1):
            tree = (tree,)
        shares: list[array | None] = []

        def collect(argument: Any, share: Any) -> None:
            if argument is _LEAF:
                shares.append(share)

        try:
            tree_map(collect, self.arguments, tree)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"[custom_function] the {rule} rule must return a tree shaped like the arguments, "
                f"got {tree!r}."
            ) from error
        for argument, share in zip(arguments, shares, strict=True):
            if share is not None and share.shape != argument.shape:
                raise ValueError(
                    f"[custom_function] the {rule} rule returned shape {share.shape} for an argument "
                    f"of shape {argument.shape}."
                )
        return shares

    def _like_outputs(self, rule: str, tree: Any, outs: tuple[array, ...]) -> list[array]:
        found = arrays_in(tree)
        if [x.shape for x in found] != [out.shape for out in outs]:
            raise ValueError(
                f"[custom_function] the {rule} rule must return a tree shaped like the outputs, "
                f"got {tree!r}."
            )
        return found


def _structure(tree: Any) -> Any:
    """`tree` with a mark in place of each array."""
    return tree_map(lambda leaf: _LEAF if isinstance(leaf, array) else leaf, tree)


def _filled(structure: Any, leaves: Any) -> Any:
    """`structure` with its marks replaced, in order."""
    replacements = iter(leaves)
    return tree_map(lambda leaf: next(replacements) if leaf is _LEAF else leaf, structure)


def _repeated(size: int, x: array) -> array:
    return broadcast_to(x, (size, *x.shape))


def _call_with_rules(function: Callable[..., Any], rules: Rules, arguments: tuple[Any, ...]) -> Any:
    followed = arrays_in(arguments)
    structure = _structure(arguments)
    result = function(*_filled(structure, map(stop_gradient, followed)))
    outputs = arrays_in(result)
    if not outputs:
        return result
    op = CustomFunction(function, rules, structure, _structure(result), len(followed))
    return _filled(op.outputs, apply_multiple(op, *followed, *outputs))


class custom_function:
    """A function whose derivative or vectorisation is given instead of followed.

    Use it as a decorator; then give rules with the decorators `vjp`, `jvp` and `vmap` of the result. Without rules it
    behaves like the function.

    Example:
        >>> @mx.custom_function
        ... def clipped_exp(x):
        ...     return mx.exp(mx.minimum(x, 10.0))
        >>> @clipped_exp.vjp
        ... def clipped_exp_vjp(primals, cotangent, output):
        ...     return cotangent * output
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        check_callable("custom_function", f)
        self._function = f
        self._rules = Rules()
        update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rules == Rules():
            return self._function(*args, **kwargs)
        if kwargs:
            bound = inspect.signature(self._function).bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        function = partial(self._function, **kwargs) if kwargs else self._function
        return _call_with_rules(function, self._rules, args)

    def vjp(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule `f(primals, cotangents, outputs)` that returns the cotangents of the primals.

        `primals` is the argument, or the tuple of arguments if there are several; the others are shaped like the output.
        """
        check_callable("custom_function.vjp", f)
        rule = lambda arguments, cotangents, outputs: f(_unwrapped(arguments), cotangents, outputs)  # noqa: E731
        self._rules = Rules(rule, self._rules.jvp, self._rules.vmap)
        return f

    def jvp(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule `f(primals, tangents)` that returns the tangents of the outputs."""
        check_callable("custom_function.jvp", f)
        rule = lambda arguments, tangents: f(_unwrapped(arguments), _unwrapped(tangents))  # noqa: E731
        self._rules = Rules(self._rules.vjp, rule, self._rules.vmap)
        return f

    def vmap(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule `f(inputs, axes)` that returns the outputs for a batch and their axes."""
        check_callable("custom_function.vmap", f)
        rule = lambda arguments, axes: f(_unwrapped(arguments), _unwrapped(axes))  # noqa: E731
        self._rules = Rules(self._rules.vjp, self._rules.jvp, rule)
        return f


def _unwrapped(arguments: tuple[Any, ...]) -> Any:
    return arguments[0] if len(arguments) == 1 else arguments


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that forgets its intermediate values and computes them again for the gradient.

    Args:
        fun: A function of arrays and trees of arrays.

    Returns:
        A function with the same results whose gradient needs less memory and more time.
    """
    check_callable("checkpoint", fun)

    def recomputed(arguments: Any, cotangents: Any, outputs: Any) -> Any:
        # The copies depend on the cotangents: the second run starts only when the gradient has come this far, and it cannot
        # be merged with the first.
        structure = _structure(arguments)
        vectors = arrays_in(cotangents)
        late = depends(arrays_in(arguments), vectors)

        def flat(*leaves: array) -> list[array]:
            return arrays_in(called(*_filled(structure, leaves)))

        return _filled(structure, vjp(flat, late, vectors)[1])

    def called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return fun(*args, **kwargs)

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return _call_with_rules(called, Rules(vjp=recomputed), (args, kwargs))

    return (
        update_wrapper(checkpointed, fun, updated=()) if hasattr(fun, "__name__") else checkpointed
    )
