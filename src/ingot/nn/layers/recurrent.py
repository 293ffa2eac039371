"""Recurrent layers: a state that is carried along a sequence.

Inputs have the shape (N, L, D) or (L, D), states (N, H) or (H). The products with the inputs are
one product for the whole sequence; what is left for each step is the product with the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.nn.layers.activations.functions import tanh
from ingot.nn.module import Module

__all__ = ["GRU", "LSTM", "RNN"]


def _projected(x: mx.array, weight: mx.array, bias: mx.array | None) -> mx.array:
    return x @ weight.T if bias is None else mx.addmm(bias, x, weight.T)


def _steps(x: mx.array) -> list[mx.array]:
    """The elements of a sequence.

    The sequence is halved recursively. The cotangent of a slice is padded to the length of what it
    was sliced from, so each element's cotangent is padded to that of its half, not at once to that
    of the whole sequence: n log n elements in all instead of n squared.
    """
    if x.ndim < 2:
        raise ValueError(
            f"[recurrent] a sequence has the shape (..., steps, features), got shape {x.shape}."
        )
    length = x.shape[-2]
    if length <= 1:
        return [x.squeeze(-2)] * length
    middle = length // 2
    return [*_steps(x[..., :middle, :]), *_steps(x[..., middle:, :])]


class RNN(Module):
    """Elman's recurrent layer: `h = tanh(Wxh @ x + Whh @ h + bias)` at each step.

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
        states = []
        for total in _steps(_projected(x, self.Wxh, self.bias)):
            if hidden is not None:
                total = mx.addmm(total, hidden, self.Whh.T)
            hidden = self.nonlinearity(total)
            states.append(hidden)
        return mx.stack(states, axis=-2)


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
        states = []
        for inputs in _steps(_projected(x, self.Wx, self.b)):
            hidden = self._next(inputs, hidden)
            states.append(hidden)
        return mx.stack(states, axis=-2)

    def _next(self, inputs: mx.array, hidden: mx.array | None) -> mx.array:
        split = 2 * self.hidden_size
        gates, candidate = inputs[..., :split], inputs[..., split:]
        recurrent = self.bhn
        if hidden is not None:
            products = hidden @ self.Wh.T
            gates = gates + products[..., :split]
            recurrent = products[..., split:]
            if self.bhn is not None:
                recurrent = recurrent + self.bhn
        reset, update = mx.split(mx.sigmoid(gates), 2, axis=-1)
        if recurrent is not None:
            candidate = candidate + reset * recurrent
        new = (1 - update) * mx.tanh(candidate)
        return new if hidden is None else new + update * hidden


class LSTM(Module):
    """A layer with long short-term memory.

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
        states = []
        cells = []
        for gates in _steps(_projected(x, self.Wx, self.bias)):
            if hidden is not None:
                gates = mx.addmm(gates, hidden, self.Wh.T)
            enter, keep, new, leave = mx.split(gates, 4, axis=-1)
            added = mx.sigmoid(enter) * mx.tanh(new)
            cell = added if cell is None else mx.sigmoid(keep) * cell + added
            hidden = mx.sigmoid(leave) * mx.tanh(cell)
            states.append(hidden)
            cells.append(cell)
        return mx.stack(states, axis=-2), mx.stack(cells, axis=-2)
