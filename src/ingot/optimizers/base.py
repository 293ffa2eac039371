"""What all optimizers share: their state, its tree, schedules, and how parameters are updated.

The state is one dict that lives as long as the optimizer: `step`, `learning_rate` and the like, and
beside them a tree like that of the parameters with a dict in place of each. It holds nothing but
arrays, so `mx.compile` captures it, files store it, and an optimizer to which it is assigned goes
on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ingot.core as mx
from ingot.graph.errors import type_name, value_text
from ingot.graph.reporting.hints import OPTIMIZER, add_hints
from ingot.graph.tree import sequence_like
from ingot.nn.module import Module
from ingot.optimizers.description import description_html, description_text
from ingot.runtime.watched import watch_always
from ingot.utils import refuse_endless, tree_map

__all__ = ["Optimizer"]

Tree = Any  # nested dicts, lists and tuples of arrays
State = dict[str, Any]
Schedule = Callable[[mx.array], mx.array]
Rate = float | mx.array | Schedule

# Where the state of parameters is that are not in a dict: a list of them, or one array.
_UNNAMED = "parameters"


@watch_always
class Optimizer:
    """The base class. Optimizers define `init_single` and `apply_single` for one parameter.

    Args:
        schedulers: Functions of the step by the name of what they change in the state.
    """

    _is_tree = True  # compiled functions look into optimizers that they are given

    def __init__(self, schedulers: dict[str, Schedule] | None = None) -> None:
        self._state: State = {"step": mx.array(0, mx.uint64)}
        self._schedulers: dict[str, Schedule] = dict(schedulers or {})

    def __repr__(self) -> str:
        return description_text(self)

    def _repr_html_(self) -> str:
        return description_html([self])

    def update(self, model: Any, gradients: Tree) -> Any:
        """Take one step.

        Args:
            model: A module, whose parameters are replaced; or a tree of parameters.
            gradients: A tree of gradients like that of the parameters, or a subtree of one.

        Returns:
            None for a module. For a tree, which is not changed, the tree of new parameters.
        """
        self._check_order(model, gradients)
        updated = self.apply_gradients(gradients, model)
        if isinstance(model, Module):
            model.update(updated)
            return None
        return _with_replacements(model, updated)

    def _check_order(self, model: Any, gradients: Tree) -> None:
        """TypeError for arguments in the wrong order, and for what `value_and_grad` returns."""
        name = type(self).__name__
        if isinstance(gradients, Module) and not isinstance(model, Module):
            raise TypeError(
                f"[{name}] gradients must be a tree of arrays, got {type_name(gradients)}. The "
                "model comes first: optimizer.update(model, gradients)."
            )
        if isinstance(model, Module) and not isinstance(gradients, dict):
            raise TypeError(
                f"[{name}] the gradients of a module are a dict like its parameters, got "
                f"{type_name(gradients)}. With value_and_grad, pass the second of its results."
            )

    def init(self, parameters: Tree) -> None:
        """Make the state of parameters that have none yet.

        Taking a step does so too. Call it to have the whole state before the first step.

        Args:
            parameters: A tree of parameters.
        """
        try:
            self.init_tree(_named(parameters))
        except RecursionError:
            refuse_endless(type(self).__name__, parameters)
            raise

    def apply_gradients(self, gradients: Tree, parameters: Tree) -> Tree:
        """Take one step, without changing the parameters.

        Args:
            gradients: A tree of gradients.
            parameters: A tree of parameters, or a module. It may have more than the gradients.

        Returns:
            A tree of new parameters like that of the gradients.
        """
        if isinstance(gradients, dict):
            return self.apply_tree(gradients, parameters)
        return self.apply_tree(_named(gradients), _named(parameters))[_UNNAMED]

    def init_tree(self, parameters: dict[str, Any]) -> None:
        """Makes the missing entries of the state."""
        for key, child in parameters.items():
            existing = self.state.get(key)
            if isinstance(existing, mx.array):
                raise ValueError(
                    f"[{type(self).__name__}] {key!r} cannot be the name of a parameter: the "
                    "optimizer's state has an entry of that name. Put the parameters into a dict "
                    "or a module of their own."
                )
            self.state[key] = self._completed(child, existing)

    def _completed(self, parameters: Tree, state: Any) -> Any:
        """The state of a tree of parameters, made of what is there."""
        if isinstance(parameters, dict):
            branch: State = state if isinstance(state, dict) else {}
            for key, child in parameters.items():
                branch[key] = self._completed(child, branch.get(key))
            return branch
        if isinstance(parameters, (list, tuple)):
            known = state if isinstance(state, list) else list(state or ())
            known.extend([None] * (len(parameters) - len(known)))
            for position, child in enumerate(parameters):
                known[position] = self._completed(child, known[position])
            return known
        if not isinstance(parameters, mx.array):
            raise TypeError(
                f"[{type(self).__name__}] parameters and gradients are trees of arrays, and one "
                f"has {type_name(parameters)}: {value_text(parameters)} in it."
            )
        leaf: State = state if isinstance(state, dict) else {}
        if not leaf:
            self.init_single(parameters, leaf)
        return leaf

    def apply_tree(self, gradients: dict[str, Any], parameters: Any) -> dict[str, Any]:
        """The new parameters, once schedules and the step have moved on."""
        self.init(gradients)
        for name, schedule in self._schedulers.items():
            self.state[name] = self._scheduled(schedule)
        self.state["step"] = self.step + 1
        updated: dict[str, Any] = tree_map(self.apply_single, gradients, parameters, self.state)
        return updated

    def init_single(self, parameter: mx.array, state: State) -> None:
        """Put what the optimizer remembers of one parameter into its empty state.

        Args:
            parameter: The parameter, or its gradient.
            state: The dict to fill.
        """
        raise NotImplementedError(f"[{type(self).__name__}] has no init_single.")

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        """Update one parameter.

        Args:
            gradient: Its gradient.
            parameter: The parameter.
            state: What `init_single` made, to be updated in place.

        Returns:
            The new parameter.
        """
        raise NotImplementedError(f"[{type(self).__name__}] has no apply_single.")

    @property
    def state(self) -> State:
        """The state: a dict of arrays and of nested dicts and lists of arrays."""
        # The state is followed as arrays: comparing all of it at every call would take long.
        state: State = object.__getattribute__(self, "_state")
        return state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    @property
    def step(self) -> mx.array:
        """The number of steps taken."""
        step: mx.array = self.state["step"]
        return step

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate. What is assigned to it is overwritten by a schedule."""
        rate: mx.array = self.state["learning_rate"]
        return rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        self.state["learning_rate"] = mx.array(learning_rate)

    def _maybe_schedule(self, name: str, parameter: Rate) -> None:
        """Keeps a number in the state, or what a schedule makes of the step."""
        if callable(parameter):
            self._schedulers[name] = parameter
            self.state[name] = self._scheduled(parameter)
        else:
            self.state[name] = mx.array(parameter)

    def _scheduled(self, schedule: Schedule) -> mx.array:
        value = schedule(self.step)
        return value if isinstance(value, mx.array) else mx.array(value)

    def _rate_for(self, gradient: mx.array) -> mx.array:
        """The learning rate in the gradient's dtype."""
        return self.learning_rate.astype(gradient.dtype)


def _named(tree: Tree) -> dict[str, Any]:
    return tree if isinstance(tree, dict) else {_UNNAMED: tree}


def _with_replacements(tree: Tree, updated: Tree) -> Tree:
    """A tree like `tree` with what `updated` has instead of what is there."""
    if isinstance(tree, dict):
        return {
            key: _with_replacements(child, updated[key]) if key in updated else child
            for key, child in tree.items()
        }
    if isinstance(tree, (list, tuple)):
        children = [
            _with_replacements(child, updated[position]) if position < len(updated) else child
            for position, child in enumerate(tree)
        ]
        return sequence_like(tree, children)
    return updated


def check_betas(name: str, betas: Any) -> None:
    """ValueError unless all are factors of a running average."""
    for number, beta in enumerate(betas, 1):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"[{name}] beta {number} must be in [0, 1), got {beta}.")


def check_at_least_zero(name: str, parameter: str, value: float) -> None:
    """ValueError for a negative number."""
    if value < 0.0:
        raise ValueError(f"[{name}] {parameter} should be >=0, got {value}.")


def check_above_zero(name: str, parameter: str, value: float) -> None:
    """ValueError for a number that is not positive."""
    if value <= 0.0:
        raise ValueError(f"[{name}] {parameter} should be >0, got {value}.")


add_hints(Optimizer, OPTIMIZER)
