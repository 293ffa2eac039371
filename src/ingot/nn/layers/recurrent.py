"""Recurrent layers: a state that is carried along a sequence.

Inputs have the shape (N, L, D) or (L, D), states (N, H) or (H). The products with the inputs are
one matrix product for the whole sequence; only the product with the state remains for each step, in
a native loop (`mx.scan`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.nn.errors import input_error
from ingot.nn.layers.activations.functions import tanh
from ingot.nn.module import Module

__all__ = ["GRU", "LSTM", "RNN"]


def _projected(layer: Module, x: mx.array, weight: mx.array, bias: mx.array | None) -> mx.array:
    """The products with the inputs of all steps, with the axis of steps first: the loop cuts them
    there, and they are several times as long as the inputs.
    """
    if x.ndim < 2:
        raise ValueError(
            f"[recurrent] a sequence has the shape (..., steps, features), got shape {x.shape}."
        )
    by_step = mx.moveaxis(x, -2, 0)
    try:
        return by_step @ weight.T if bias is None else mx.addmm(bias, by_step, weight.T)
    except ValueError as error:
        raise input_error(layer, x, weight.shape[-1], error) from None


def _scanned(
    step: Callable[[Any, mx.array], tuple[Any, Any]],
    projected: mx.array,
    size: int,
    states: list[mx.array | None],
) -> Any:
    """Scan `step` over the first axis and stack the results along the second to last one; states
    that are None start at 0.
    """
    # The states of all steps have one shape and one dtype, whatever those of the first are.
    zeros = mx.zeros((*projected.shape[1:-1], size), projected.dtype)
    given = [zeros if state is None else mx.array(state) for state in states]
    shape = mx.broadcast_shapes(zeros.shape, *(state.shape for state in given))
    dtype = mx.result_type(projected, *given)
    carry = [mx.broadcast_to(state.astype(dtype), shape) for state in given]
    _, found = mx.scan(step, carry, projected)
    return [mx.moveaxis(each, 0, -2) for each in found]


class RNN(Module):
    """An Elman recurrent layer: `h = tanh(Wxh @ x + Whh @ h + bias)` at each step.

    Args:
        input_size: The number of input features.
        hidden_size: The number of features of the state.
        bias: Whether there is a bias.
        nonlinearity: The function to use instead of tanh.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: Size,
        bias: bool = True,
        nonlinearity: Callable[[mx.array], mx.array] | None = None,
    ) -> None:
        super().__init__()
        if nonlinearity is not None and not callable(nonlinearity):
            raise ValueError(f"[RNN] the nonlinearity must be a function, got {nonlinearity!r}.")
        self.nonlinearity = nonlinearity or tanh
        scale = 1.0 / math.sqrt(hidden_size)
        self.hidden_size = hidden_size
        self.Wxh = mx.random.uniform(-scale, scale, (hidden_size, input_size))
        self.Whh = mx.random.uniform(-scale, scale, (hidden_size, hidden_size))
        self.bias = mx.random.uniform(-scale, scale, (hidden_size,)) if bias else None

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wxh.shape[1]}, hidden_size={self.hidden_size}, "
            f"nonlinearity={self.nonlinearity}, bias={self.bias is not None}"
        )

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """The states after each step.

        Args:
            x: The sequence.
            hidden: The state before the first step; 0 by default.
        """

        def step(carry: list[mx.array], total: mx.array) -> tuple[Any, Any]:
            state = self.nonlinearity(mx.addmm(total, carry[0], self.Whh.T))
            return [state], [state]

        projected = _projected(self, x, self.Wxh, self.bias)
        (states,) = _scanned(step, projected, self.hidden_size, [hidden])
        return states


class GRU(Module):
    """A gated recurrent unit.

    At each step, r and z are sigmoids of sums of products with x and h and a bias,
    n = tanh(Wxn @ x + bn + r * (Whn @ h + bhn)), and the new state is (1 - z) * n + z * h.

    Args:
        input_size: The number of input features.
        hidden_size: The number of features of the state.
        bias: Whether there are biases.
    """

    def __init__(self, input_size: int, hidden_size: Size, bias: bool = True) -> None:
        super().__init__()
        scale = 1.0 / math.sqrt(hidden_size)
        self.hidden_size = hidden_size
        self.Wx = mx.random.uniform(-scale, scale, (3 * hidden_size, input_size))
        self.Wh = mx.random.uniform(-scale, scale, (3 * hidden_size, hidden_size))
        self.b = mx.random.uniform(-scale, scale, (3 * hidden_size,)) if bias else None
        self.bhn = mx.random.uniform(-scale, scale, (hidden_size,)) if bias else None

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, "
            f"bias={self.b is not None}"
        )

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """The states after each step.

        Args:
            x: The sequence.
            hidden: The state before the first step; 0 by default.
        """

        def step(carry: list[mx.array], inputs: mx.array) -> tuple[Any, Any]:
            state = self._next(inputs, carry[0])
            return [state], [state]

        (states,) = _scanned(step, _projected(self, x, self.Wx, self.b), self.hidden_size, [hidden])
        return states

    def _next(self, inputs: mx.array, hidden: mx.array) -> mx.array:
        split = 2 * self.hidden_size
        products = hidden @ self.Wh.T
        gates = inputs[..., :split] + products[..., :split]
        recurrent = products[..., split:]
        if self.bhn is not None:
            recurrent = recurrent + self.bhn
        reset, update = mx.split(mx.sigmoid(gates), 2, axis=-1)
        new = mx.tanh(inputs[..., split:] + reset * recurrent)
        return (1 - update) * new + update * hidden


class LSTM(Module):
    """A long short-term memory layer.

    At each step, i, f and o are sigmoids and g is the tanh of sums of products with x and h and a
    bias; the new cell is f * c + i * g, and the new state is o * tanh(c).

    Args:
        input_size: The number of input features.
        hidden_size: The number of features of the state.
        bias: Whether there is a bias.
    """

    def __init__(self, input_size: int, hidden_size: Size, bias: bool = True) -> None:
        super().__init__()
        scale = 1.0 / math.sqrt(hidden_size)
        self.hidden_size = hidden_size
        self.Wx = mx.random.uniform(-scale, scale, (4 * hidden_size, input_size))
        self.Wh = mx.random.uniform(-scale, scale, (4 * hidden_size, hidden_size))
        self.bias = mx.random.uniform(-scale, scale, (4 * hidden_size,)) if bias else None

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, "
            f"bias={self.bias is not None}"
        )

    def __call__(
        self, x: mx.array, hidden: mx.array | None = None, cell: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """The states and the cells after each step.

        Args:
            x: The sequence.
            hidden: The state before the first step; 0 by default.
            cell: The cell before the first step; 0 by default.
        """

        def step(carry: list[mx.array], total: mx.array) -> tuple[Any, Any]:
            gates = mx.addmm(total, carry[0], self.Wh.T)
            enter, keep, new, leave = mx.split(gates, 4, axis=-1)
            cell = mx.sigmoid(keep) * carry[1] + mx.sigmoid(enter) * mx.tanh(new)
            state = mx.sigmoid(leave) * mx.tanh(cell)
            return [state, cell], [state, cell]

        projected = _projected(self, x, self.Wx, self.bias)
        states, cells = _scanned(step, projected, self.hidden_size, [hidden, cell])
        return states, cells
