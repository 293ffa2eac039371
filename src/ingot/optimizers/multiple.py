"""Several optimizers for one tree of parameters, each for some of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import ingot.core as mx
from ingot.optimizers.base import Optimizer, State
from ingot.optimizers.description import description_html
from ingot.utils import tree_flatten, tree_merge, tree_unflatten

__all__ = ["MultiOptimizer"]

Filter = Callable[[str, mx.array], bool]


class MultiOptimizer(Optimizer):
    """Gives each parameter to the first optimizer whose filter lets it through.

    Args:
        optimizers: The optimizers; the last one takes what is left.
        filters: For each optimizer but the last, a function of the path of a parameter, such as
            `layers.0.weight`, and its gradient, that says whether the optimizer takes it.
    """

    def __init__(self, optimizers: Sequence[Optimizer], filters: Sequence[Filter] = ()) -> None:
        super().__init__()
        if len(filters) != len(optimizers) - 1:
            raise ValueError(
                f"[MultiOptimizer] {len(optimizers)} optimizers need {len(optimizers) - 1} "
                f"filters, got {len(filters)}: the last optimizer takes what is left."
            )
        self.optimizers = optimizers
        self.filters: list[Filter] = [*filters, lambda path, gradient: True]

    def __repr__(self) -> str:
        lines = [textwrap.indent(repr(optimizer), "  ") for optimizer in self.optimizers]
        return "\n".join(["MultiOptimizer(", *lines, ")"])

    def _repr_html_(self) -> str:
        return description_html(list(self.optimizers))

    def _split(self, tree: dict[str, Any]) -> list[dict[str, Any]]:
        """The subtree that each optimizer takes."""
        if len(self.optimizers) == 1:
            return [tree]
        subtrees: list[list[tuple[str, Any]]] = [[] for _ in self.optimizers]
        for path, leaf in tree_flatten(tree):
            taker = next(n for n, takes in enumerate(self.filters) if takes(path, leaf))
            subtrees[taker].append((path, leaf))
        return [tree_unflatten(subtree) if subtree else {} for subtree in subtrees]

    def init_tree(self, parameters: dict[str, Any]) -> None:
        for optimizer, subtree in zip(self.optimizers, self._split(parameters), strict=True):
            optimizer.init_tree(subtree)

    def apply_tree(self, gradients: dict[str, Any], parameters: Any) -> dict[str, Any]:
        updated: dict[str, Any] = {}
        for optimizer, subtree in zip(self.optimizers, self._split(gradients), strict=True):
            updated = tree_merge(updated, optimizer.apply_tree(subtree, parameters))
        return updated

    @property
    def state(self) -> State:
        """The states of all optimizers, as a list under `states`."""
        return {"states": [optimizer.state for optimizer in self.optimizers]}

    @state.setter
    def state(self, state: State) -> None:
        states = state.get("states")
        if not isinstance(states, (list, tuple)) or len(states) != len(self.optimizers):
            raise ValueError(
                f"[MultiOptimizer] a state has a list of {len(self.optimizers)} states under "
                f"'states', got {state!r}."
            )
        for optimizer, subtree in zip(self.optimizers, states, strict=True):
            optimizer.state = subtree

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the first optimizer. What is assigned to it goes to all."""
        return self.optimizers[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        for optimizer in self.optimizers:
            optimizer.learning_rate = learning_rate
