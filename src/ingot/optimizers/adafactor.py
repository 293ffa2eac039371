"""Adafactor: second moments of matrices as products of those of rows and columns."""

from __future__ import annotations

import ingot.core as mx
from ingot.optimizers.base import Optimizer, Rate, State

__all__ = ["Adafactor"]

_LARGEST_STEP = 1e-2
_WARM_UP = 1e-6  # how much the largest step grows with each, from 0 on


class Adafactor(Optimizer):
    """The gradient divided by its running size, which takes memory for rows and columns only.

    Args:
        learning_rate: A number or a function of the step, used if `relative_step` is False.
        eps: What is added to the square of the gradient, and the smallest size of a parameter by
            which steps are scaled.
        clip_threshold: The largest root mean square of a step before it is scaled.
        decay_rate: The power of the step by which the weight of the newest square decays.
        beta_1: How much of the average of steps is kept; None takes no average.
        weight_decay: The weight decay, which is multiplied by the learning rate.
        scale_parameter: Whether steps grow with the size of the parameter.
        relative_step: Whether the learning rate is the inverse root of the step, up to 0.01.
        warmup_init: Whether that limit grows from 0 instead.
    """

    def __init__(
        self,
        learning_rate: Rate | None = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta_1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
    ) -> None:
        super().__init__()
        if learning_rate is not None:
            self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta_1 = beta_1
        self.weight_decay = weight_decay
        self.scale_parameter = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init

    def init_single(self, parameter: mx.array, state: State) -> None:
        if parameter.ndim >= 2:
            *front, rows, columns = parameter.shape
            state["exp_avg_sq_row"] = mx.zeros((*front, rows), parameter.dtype)
            state["exp_avg_sq_col"] = mx.zeros((*front, columns), parameter.dtype)
        else:
            state["exp_avg_sq"] = mx.zeros_like(parameter)
        if self.beta_1 is not None:
            state["exp_avg"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        size = self._compute_rms(parameter)
        rate = self._compute_learning_rate(self.step, size)
        newest = (self.step**self.decay_rate).astype(size.dtype)
        change = self._inverse_root(gradient, state, newest) * gradient
        change = rate * change / mx.maximum(1.0, self._compute_rms(change) / self.clip_threshold)
        if self.beta_1 is not None:
            change = self.beta_1 * state["exp_avg"] + (1 - self.beta_1) * change
            state["exp_avg"] = change
        if self.weight_decay != 0:
            parameter = parameter * (1 - self.weight_decay * rate)
        return parameter - change

    # The names of MLX's helpers, which programs that extend the optimizer call.

    def _compute_rms(self, inputs: mx.array) -> mx.array:
        """The root mean square."""
        return mx.sqrt(mx.square(inputs).mean())

    def _compute_learning_rate(self, step: mx.array, parameter_rms: mx.array) -> mx.array:
        """The learning rate of a parameter of that root mean square."""
        size = parameter_rms
        if self.relative_step:
            limit = _WARM_UP * step if self.warmup_init else _LARGEST_STEP
            rate = mx.minimum(limit, mx.rsqrt(step))
        else:
            rate = self.learning_rate
        rate = rate.astype(size.dtype)
        return mx.maximum(self.eps[1], size) * rate if self.scale_parameter else rate

    def _inverse_root(self, gradient: mx.array, state: State, newest: mx.array) -> mx.array:
        """One divided by the root of the averages of the squared gradient, which are updated.

        `newest` is the weight of the newest square.
        """
        square = mx.square(gradient) + self.eps[0]

        def averaged(name: str, added: mx.array) -> mx.array:
            state[name] = (1 - newest) * state[name] + newest * added
            average: mx.array = state[name]
            return average

        if gradient.ndim < 2:
            return mx.rsqrt(averaged("exp_avg_sq", square))
        rows = averaged("exp_avg_sq_row", square.mean(-1))
        columns = averaged("exp_avg_sq_col", square.mean(-2))
        return self._approximate_exp_moving_avg(rows, columns)

    def _approximate_exp_moving_avg(
        self, exp_avg_sq_row: mx.array, exp_avg_sq_col: mx.array
    ) -> mx.array:
        """One divided by the root of a matrix, given the means of its rows and columns."""
        of_rows = mx.rsqrt(exp_avg_sq_row / exp_avg_sq_row.mean(-1, keepdims=True))
        return mx.expand_dims(of_rows, -1) * mx.expand_dims(mx.rsqrt(exp_avg_sq_col), -2)
