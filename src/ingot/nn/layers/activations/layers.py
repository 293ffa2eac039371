"""Activation functions as layers, for `nn.Sequential` and for those with parameters."""

from __future__ import annotations

import ingot.core as mx
from ingot.nn.layers.activations import functions
from ingot.nn.module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "HardShrink",
    "HardTanh",
    "Hardswish",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU2",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Step",
    "Tanh",
]


GELU_FUNCTIONS = {
    "none": functions.gelu,
    "precise": functions.gelu_approx,
    "tanh": functions.gelu_approx,
    "fast": functions.gelu_fast_approx,
}


class Sigmoid(Module):
    """`nn.sigmoid` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.sigmoid(x)


class ReLU(Module):
    """`nn.relu` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.relu(x)


class ReLU2(Module):
    """`nn.relu2` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.relu2(x)


class ReLU6(Module):
    """`nn.relu6` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.relu6(x)


class LeakyReLU(Module):
    """`nn.leaky_relu` as a layer.

    Args:
        negative_slope: The slope below 0.
    """

    def __init__(self, negative_slope: float = 1e-2) -> None:
        super().__init__()
        self._negative_slope = negative_slope

    def __call__(self, x: mx.array) -> mx.array:
        return functions.leaky_relu(x, self._negative_slope)


class PReLU(Module):
    """`nn.prelu` as a layer that learns the slopes below 0.

    Args:
        num_parameters: The number of slopes: 1, or one for each feature.
        init: What they are at the beginning.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = mx.full([num_parameters], init)

    def __call__(self, x: mx.array) -> mx.array:
        return functions.prelu(x, self.weight)


class ELU(Module):
    """`nn.elu` as a layer.

    Args:
        alpha: How far below 0 the values go.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return functions.elu(x, self._alpha)


class CELU(Module):
    """`nn.celu` as a layer.

    Args:
        alpha: How far below 0 the values go.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return functions.celu(x, self._alpha)


class SELU(Module):
    """`nn.selu` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.selu(x)


class SiLU(Module):
    """`nn.silu` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.silu(x)


class Mish(Module):
    """`nn.mish` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.mish(x)


class GELU(Module):
    """`nn.gelu` or one of its approximations as a layer.

    Args:
        approx: "none" for `nn.gelu`, "precise" or "tanh" for `nn.gelu_approx`, "fast" for
            `nn.gelu_fast_approx`.
    """

    def __init__(self, approx: str = "none") -> None:
        super().__init__()
        if approx not in GELU_FUNCTIONS:
            raise ValueError(
                f"[GELU] approx must be one of {', '.join(GELU_FUNCTIONS)}, got {approx!r}."
            )
        self._approx = approx

    def __call__(self, x: mx.array) -> mx.array:
        return GELU_FUNCTIONS[self._approx](x)


class GLU(Module):
    """`nn.glu` as a layer.

    Args:
        axis: The axis that is split.
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def __call__(self, x: mx.array) -> mx.array:
        return functions.glu(x, self.axis)


class Softplus(Module):
    """`nn.softplus` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.softplus(x)


class Softsign(Module):
    """`nn.softsign` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.softsign(x)


class Softshrink(Module):
    """`nn.softshrink` as a layer.

    Args:
        lambd: The distance from 0 up to which values become 0.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return functions.softshrink(x, self.lambd)


class HardShrink(Module):
    """`nn.hard_shrink` as a layer.

    Args:
        lambd: The distance from 0 up to which values become 0.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return functions.hard_shrink(x, self.lambd)


class HardTanh(Module):
    """`nn.hard_tanh` between -1 and 1 as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.hard_tanh(x)


class Hardswish(Module):
    """`nn.hardswish` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.hardswish(x)


class LogSigmoid(Module):
    """`nn.log_sigmoid` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.log_sigmoid(x)


class Softmax(Module):
    """`nn.softmax` along the last axis as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.softmax(x)


class Softmin(Module):
    """`nn.softmin` along the last axis as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.softmin(x)


class LogSoftmax(Module):
    """`nn.log_softmax` along the last axis as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.log_softmax(x)


class Step(Module):
    """`nn.step` as a layer.

    Args:
        threshold: From where on the values are 1.
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold

    def __call__(self, x: mx.array) -> mx.array:
        return functions.step(x, self.threshold)


class Tanh(Module):
    """`nn.tanh` as a layer."""

    def __call__(self, x: mx.array) -> mx.array:
        return functions.tanh(x)
