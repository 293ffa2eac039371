"""Activation functions: plain array expressions, which `mx.compile` fuses with their
surroundings.
"""

from __future__ import annotations

import math

import ingot.core as mx

__all__ = [
    "celu",
    "elu",
    "gelu",
    "gelu_approx",
    "gelu_fast_approx",
    "glu",
    "hard_shrink",
    "hard_tanh",
    "hardswish",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "relu2",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "step",
    "tanh",
]


def sigmoid(x: mx.array) -> mx.array:
    """The logistic function, 1 / (1 + exp(-x))."""
    return mx.sigmoid(x)


def relu(x: mx.array) -> mx.array:
    """The rectified linear unit: x where it is positive, otherwise 0."""
    return mx.maximum(x, 0)


def relu2(x: mx.array) -> mx.array:
    """The square of the rectified linear unit."""
    return mx.square(relu(x))


def relu6(x: mx.array) -> mx.array:
    """The rectified linear unit, at most 6."""
    return mx.minimum(relu(x), 6.0)


def leaky_relu(x: mx.array, negative_slope: float = 0.01) -> mx.array:
    """The leaky rectified linear unit: the larger one of x and `negative_slope` * x."""
    return mx.maximum(negative_slope * x, x)


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """The parametric rectified linear unit: x where it is positive, otherwise `alpha` * x."""
    return mx.maximum(0, x) + alpha * mx.minimum(0, x)


def elu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """The exponential linear unit: x where it is positive, otherwise `alpha` * (exp(x) - 1)."""
    return mx.where(x > 0, x, alpha * (mx.exp(x) - 1))


def celu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """The exponential linear unit with a continuous derivative.

    It is x where that is positive, otherwise `alpha` * (exp(x / `alpha`) - 1).
    """
    return mx.maximum(x, 0.0) + alpha * (mx.exp(mx.minimum(x, 0.0) / alpha) - 1)


def selu(x: mx.array) -> mx.array:
    """The scaled exponential linear unit: 1.0507 * elu(x, 1.67326)."""
    return elu(x, 1.67326) * 1.0507


def silu(x: mx.array) -> mx.array:
    """The sigmoid linear unit, x * sigmoid(x), also known as swish."""
    return x * mx.sigmoid(x)


def mish(x: mx.array) -> mx.array:
    """The mish function, x * tanh(softplus(x))."""
    return x * mx.tanh(softplus(x))


def gelu(x: mx.array) -> mx.array:
    """The Gaussian error linear unit: x times the normal distribution function at x."""
    return x * (1 + mx.erf(x * math.sqrt(0.5))) / 2  # division takes several times as long


def gelu_approx(x: mx.array) -> mx.array:
    """The tanh approximation of GELU; the error is below 0.0005 between -6 and 6."""
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_fast_approx(x: mx.array) -> mx.array:
    """The sigmoid approximation of GELU; the error is below 0.015 between -6 and 6."""
    return x * mx.sigmoid(1.702 * x)


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """The gated linear unit: the first half of x along an axis times sigmoid of the second.

    Args:
        x: The array, with an even length along the axis.
        axis: The axis that is split.
    """
    values, gates = mx.split(x, 2, axis=axis)
    return values * mx.sigmoid(gates)


def softplus(x: mx.array) -> mx.array:
    """The smooth rectifier, log(1 + exp(x))."""
    return mx.logaddexp(x, 0)


def softsign(x: mx.array) -> mx.array:
    """The soft sign, x / (1 + |x|)."""
    return mx.divide(x, 1 + mx.abs(x))


def softshrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """x moved towards 0 by `lambd`, and 0 where |x| is at most that."""
    return mx.where(mx.abs(x) > lambd, x - mx.sign(x) * lambd, 0)


def hard_shrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """x where |x| is greater than `lambd`, otherwise 0."""
    return mx.where(mx.abs(x) > lambd, x, 0)


def hard_tanh(x: mx.array, min_val: float = -1.0, max_val: float = 1.0) -> mx.array:
    """x, at least `min_val` and at most `max_val`."""
    return mx.minimum(mx.maximum(x, min_val), max_val)


def hardswish(x: mx.array) -> mx.array:
    """A piecewise approximation of swish: x times (x + 3) / 6, which is kept between 0 and 1."""
    return x * mx.minimum(mx.maximum(x + 3, 0), 6) / 6


def log_sigmoid(x: mx.array) -> mx.array:
    """The logarithm of the logistic function, -log(1 + exp(-x))."""
    return -softplus(-x)


def softmax(x: mx.array, axis: int = -1) -> mx.array:
    """exp(x), divided by its sum along an axis."""
    return mx.softmax(x, axis=axis)


def softmin(x: mx.array, axis: int = -1) -> mx.array:
    """exp(-x), divided by its sum along an axis."""
    return mx.softmax(-x, axis=axis)


def log_softmax(x: mx.array, axis: int = -1) -> mx.array:
    """The logarithm of softmax along an axis."""
    # Subtract the largest value first: next to it, the logarithm of the sum would be rounded away.
    x = x if mx.issubdtype(x.dtype, mx.inexact) else x.astype(mx.float32)
    shifted = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    return shifted - mx.logsumexp(shifted, axis=axis, keepdims=True)


def step(x: mx.array, threshold: float = 0.0) -> mx.array:
    """1 where x is at least `threshold`, otherwise 0."""
    return mx.where(x >= threshold, 1, 0)


def tanh(x: mx.array) -> mx.array:
    """The hyperbolic tangent."""
    return mx.tanh(x)
