"""Optimizers that follow the gradient, or a running average of it: SGD, Lion and Muon."""

from __future__ import annotations

from typing import Annotated

import ingot.core as mx
from ingot.graph.boundary import Between
from ingot.optimizers.base import Optimizer, Rate, State, check_betas

__all__ = ["SGD", "Lion", "Muon"]

# The polynomial a x + b x^3 + c x^5 brings singular values near 1 within a few repetitions.
_TOWARDS_ONE = (3.4445, -4.7750, 2.0315)
MAX_STEPS = 1000  # of these repetitions, of which a graph is made


class SGD(Optimizer):
    """Stochastic gradient descent.

    `v = momentum * v + (1 - dampening) * gradient`, then `parameter -= learning_rate * v`.

    Args:
        learning_rate: A number, or a function of the step.
        momentum: The fraction of the last step that is kept.
        weight_decay: The multiple of the parameter that is added to its gradient.
        dampening: The fraction of the gradient that is left out of the momentum.
        nesterov: Whether to look one step ahead, which needs momentum and no dampening.
    """

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "[SGD] nesterov needs momentum and no dampening, got momentum "
                f"{momentum} and dampening {dampening}."
            )
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.dampening = dampening
        self.nesterov = nesterov

    def init_single(self, parameter: mx.array, state: State) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        rate = self._rate_for(gradient)
        if self.momentum <= 0:
            return parameter - rate * gradient
        share = (1 - self.dampening) * gradient if self.dampening > 0 else gradient
        velocity: mx.array = self.momentum * state["v"] + share
        state["v"] = velocity
        change = gradient + self.momentum * velocity if self.nesterov else velocity
        return parameter - rate * change


class Lion(Optimizer):
    """Steps of equal size in each coordinate, along the sign of a running average.

    The learning rate should be three to ten times smaller than that of AdamW, the weight decay as
    much larger.

    Args:
        learning_rate: A number, or a function of the step.
        betas: How much of the average is kept: for the direction, and for the next step.
        weight_decay: The weight decay, which is multiplied by the learning rate.
    """

    def __init__(
        self,
        learning_rate: Rate,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        check_betas("Lion", betas)
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.weight_decay = weight_decay

    def init_single(self, parameter: mx.array, state: State) -> None:
        state["m"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        rate = self._rate_for(gradient)
        for_direction, for_next = self.betas
        average = state["m"]
        direction = for_direction * average + (1 - for_direction) * gradient
        state["m"] = for_next * average + (1 - for_next) * gradient
        if self.weight_decay > 0:
            parameter = (1 - rate * self.weight_decay) * parameter
        return parameter - rate * mx.sign(direction)


class Muon(Optimizer):
    """Momentum whose matrices are made orthogonal, for the matrices of hidden layers.

    Embeddings, the last layer, biases and the like are better left to another optimizer. Arrays
    of more than two axes count as matrices with the last ones merged.

    Args:
        learning_rate: A number, or a function of the step.
        momentum: The fraction of the last step that is kept.
        weight_decay: The multiple of the parameter that is added to its gradient.
        nesterov: Whether to look one step ahead.
        ns_steps: The number of Newton-Schulz iterations towards an orthogonal matrix.
    """

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: Annotated[int, Between(0, MAX_STEPS)] = 5,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.ns_steps = ns_steps

    def init_single(self, parameter: mx.array, state: State) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        kept, added = self.momentum, 1 - self.momentum
        velocity: mx.array = kept * state["v"] + added * gradient
        state["v"] = velocity
        change = gradient * added + velocity * kept if self.nesterov else velocity
        rate = self._rate_for(gradient)
        if change.ndim >= 2:
            shape = change.shape
            matrix = change.reshape(shape[0], -1)
            change = _near_orthogonal(matrix, self.ns_steps).reshape(shape)
            rate = rate * max(1, shape[-2] / shape[-1]) ** 0.5
        return parameter - rate * change


def _near_orthogonal(matrix: mx.array, steps: int) -> mx.array:
    """A matrix with the singular vectors of `matrix` and singular values near 1."""
    rows, columns = matrix.shape
    x = matrix.T if rows > columns else matrix
    x = x / (mx.linalg.norm(x, keepdims=True) + 1e-7)
    a, b, c = _TOWARDS_ONE
    for _ in range(steps):
        square = x @ x.T
        factor = mx.addmm(b * square, square, square, alpha=c)
        x = mx.addmm(a * x, factor, x)
    return x.T if rows > columns else x
