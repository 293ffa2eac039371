"""Optimizers that divide by a running size of the gradient: RMSprop, Adam and their relatives."""

from __future__ import annotations

import ingot.core as mx
from ingot.optimizers.base import (
    Optimizer,
    Rate,
    State,
    check_above_zero,
    check_at_least_zero,
    check_betas,
)

__all__ = ["AdaDelta", "Adagrad", "Adam", "AdamW", "Adamax", "RMSprop"]


class RMSprop(Optimizer):
    """The gradient divided by the root of a running average of its square.

    Args:
        learning_rate: A number, or a function of the step.
        alpha: The decay rate of the running average.
        eps: Added to the divisor for numerical stability.
    """

    def __init__(self, learning_rate: Rate, alpha: float = 0.99, eps: float = 1e-8) -> None:
        super().__init__()
        check_at_least_zero("RMSprop", "alpha", alpha)
        check_above_zero("RMSprop", "epsilon", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.alpha = alpha
        self.eps = eps

    def init_single(self, parameter: mx.array, state: State) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        square = self.alpha * state["v"] + (1 - self.alpha) * mx.square(gradient)
        state["v"] = square
        return parameter - self._rate_for(gradient) * gradient / (mx.sqrt(square) + self.eps)


class Adagrad(Optimizer):
    """The gradient divided by the root of the sum of its squares so far.

    Args:
        learning_rate: A number, or a function of the step.
        eps: Added to the divisor for numerical stability.
    """

    def __init__(self, learning_rate: Rate, eps: float = 1e-8) -> None:
        super().__init__()
        check_above_zero("Adagrad", "epsilon", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps

    def init_single(self, parameter: mx.array, state: State) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        total = state["v"] + mx.square(gradient)
        state["v"] = total
        return parameter - self._rate_for(gradient) * gradient / (mx.sqrt(total) + self.eps)


class AdaDelta(Optimizer):
    """The gradient times the root of the ratio of running averages: of squared steps and gradients.

    Args:
        learning_rate: A number, or a function of the step.
        rho: The decay rate of the running averages.
        eps: Added to both averages for numerical stability.
    """

    def __init__(self, learning_rate: Rate, rho: float = 0.9, eps: float = 1e-6) -> None:
        super().__init__()
        check_at_least_zero("AdaDelta", "rho", rho)
        check_above_zero("AdaDelta", "epsilon", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.rho = rho
        self.eps = eps

    def init_single(self, parameter: mx.array, state: State) -> None:
        state["v"] = mx.zeros_like(parameter)
        state["u"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        kept, added = self.rho, 1 - self.rho
        of_gradients = kept * state["v"] + added * mx.square(gradient)
        of_steps = state["u"]
        change = mx.sqrt(of_steps + self.eps) / mx.sqrt(of_gradients + self.eps) * gradient
        state["v"] = of_gradients
        state["u"] = kept * of_steps + added * mx.square(change)
        return parameter - self._rate_for(gradient) * change


class Adam(Optimizer):
    """A running average of the gradient, divided by the root of one of its square.

    Args:
        learning_rate: A number, or a function of the step.
        betas: The decay rates of the running averages of the gradient and of its square.
        eps: Added to the divisor for numerical stability.
        bias_correction: Whether to correct the averages for starting at 0.
    """

    def __init__(
        self,
        learning_rate: Rate,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        super().__init__()
        check_betas(type(self).__name__, betas)
        check_at_least_zero(type(self).__name__, "epsilon", eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.eps = eps
        self.bias_correction = bias_correction

    def init_single(self, parameter: mx.array, state: State) -> None:
        state["m"] = mx.zeros_like(parameter)
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        rate = self._rate_for(gradient)
        of_mean, of_square = self.betas
        mean: mx.array = of_mean * state["m"] + (1 - of_mean) * gradient
        square = of_square * state["v"] + (1 - of_square) * mx.square(gradient)
        state["m"] = mean
        state["v"] = square
        if not self.bias_correction:
            return parameter - rate * mean / (mx.sqrt(square) + self.eps)
        corrected = (rate / (1 - of_mean**self.step)).astype(gradient.dtype)
        square_correction = mx.rsqrt(1 - of_square**self.step).astype(gradient.dtype)
        return parameter - corrected * mean / (mx.sqrt(square) * square_correction + self.eps)


class AdamW(Adam):
    """Adam with weight decay that does not pass through the averages.

    Args:
        learning_rate: A number, or a function of the step.
        betas: The decay rates of the running averages of the gradient and of its square.
        eps: Added to the divisor for numerical stability.
        weight_decay: The weight decay, which is multiplied by the learning rate.
        bias_correction: Whether to correct the averages for starting at 0.
    """

    def __init__(
        self,
        learning_rate: Rate,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(learning_rate, betas, eps, bias_correction)
        self.weight_decay = weight_decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        shrunk = parameter * (1 - self._rate_for(gradient) * self.weight_decay)
        return super().apply_single(gradient, shrunk, state)


class Adamax(Adam):
    """A running average of the gradient, divided by a running maximum of its size.

    Args:
        learning_rate: A number, or a function of the step.
        betas: The decay rates of the average and of the maximum.
        eps: Added to the divisor for numerical stability.
    """

    def __init__(
        self, learning_rate: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__(learning_rate, betas, eps)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        of_mean, of_maximum = self.betas
        mean: mx.array = of_mean * state["m"] + (1 - of_mean) * gradient
        maximum = mx.maximum(of_maximum * state["v"], mx.abs(gradient))
        state["m"] = mean
        state["v"] = maximum
        return parameter - self._rate_for(gradient) * mean / (maximum + self.eps)
