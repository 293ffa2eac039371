"""Loss functions. Each takes `reduction`: "none" for one loss per example, "mean" or "sum"."""

from __future__ import annotations

import math
from typing import Literal

import ingot.core as mx
from ingot.graph.boundary import Size
from ingot.graph.reporting.foreign import name_missing
from ingot.graph.shape import normalize_axis

__all__ = [
    "binary_cross_entropy",
    "cosine_similarity_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_loss",
    "huber_loss",
    "kl_div_loss",
    "l1_loss",
    "log_cosh_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
    "triplet_loss",
]

Reduction = Literal["none", "mean", "sum"]


def _reduce(loss: mx.array, reduction: Reduction) -> mx.array:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return mx.mean(loss)
    if reduction == "sum":
        return mx.sum(loss)
    raise ValueError(f"[losses] reduction must be 'none', 'mean' or 'sum', got {reduction!r}.")


def _check_same_shape(name: str, **arrays: mx.array) -> None:
    if len({x.shape for x in arrays.values()}) > 1:
        shapes = ", ".join(f"{argument} has {x.shape}" for argument, x in arrays.items())
        raise ValueError(f"[{name}] the shapes must be the same: {shapes}.")


def _weighted(name: str, loss: mx.array, weights: mx.array | None) -> mx.array:
    if weights is None:
        return loss
    if weights.shape != loss.shape:
        raise ValueError(
            f"[{name}] weights must have the shape {loss.shape} of the loss, got {weights.shape}."
        )
    return loss * weights


def _picked(values: mx.array, classes: mx.array, axis: int) -> mx.array:
    """The value of the given class along an axis, which is removed."""
    return mx.take_along_axis(values, mx.expand_dims(classes, axis), axis).squeeze(axis)


def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """The cross entropy between distributions given as logits and targets.

    Args:
        logits: Unnormalised logarithms of probabilities.
        targets: The index of the correct class, in the shape of the logits without the axis; or
            probabilities in the shape of the logits.
        weights: A factor for each loss.
        axis: The axis of the classes.
        label_smoothing: How much of the probability is spread over all classes, below 1.
        reduction: "none", "mean" or "sum".

    Example:
        >>> logits = mx.array([[2.0, -1.0], [-1.0, 2.0]])
        >>> nn.losses.cross_entropy(logits, mx.array([0, 1]))
        array([0.0485873, 0.0485873], dtype=float32)
    """
    if not 0 <= label_smoothing < 1:
        raise ValueError(
            "[cross_entropy] label_smoothing must be at least 0 and below 1, got "
            f"{label_smoothing}."
        )
    as_probabilities = targets.ndim == logits.ndim
    expected = list(logits.shape)
    if not as_probabilities:
        expected.pop(normalize_axis("cross_entropy", axis, logits.ndim))
    if targets.shape != tuple(expected):
        raise ValueError(
            f"[cross_entropy] targets of shape {targets.shape} do not fit logits of shape "
            f"{logits.shape} with classes along axis {axis}."
        )
    if not as_probabilities and not mx.issubdtype(targets.dtype, mx.integer):
        raise RuntimeError(
            f"[cross_entropy] targets of shape {targets.shape} are class indices, which must "
            f"be integers, got {targets.dtype.name}. Probabilities have the shape of the logits, "
            f"{logits.shape}."
        )
    # Subtract the largest logit first, so that nothing overflows and the sum keeps its precision.
    shifted = logits - mx.stop_gradient(mx.max(logits, axis=axis, keepdims=True))
    if as_probabilities:
        score = mx.sum(shifted * targets, axis=axis)
    else:
        score = _picked(shifted, targets, axis)
    if label_smoothing > 0:
        mean = mx.mean(shifted, axis=axis)
        score = (1 - label_smoothing) * score + label_smoothing * mean
    loss = mx.logsumexp(shifted, axis=axis) - score
    return _reduce(_weighted("cross_entropy", loss, weights), reduction)


def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> mx.array:
    """The binary cross entropy.

    Args:
        inputs: Logits, or probabilities. Logarithms of probabilities are at least -100.
        targets: The correct labels, 0 or 1.
        weights: A factor for each loss.
        with_logits: Whether the inputs are logits, which is faster and more precise.
        reduction: "none", "mean" or "sum".

    Example:
        >>> logits = mx.array([0.105361, 0.223144, 1.20397, 0.916291])
        >>> nn.losses.binary_cross_entropy(logits, mx.array([0, 0, 1, 1]))
        array(0.539245, dtype=float32)
    """
    _check_same_shape("binary_cross_entropy", inputs=inputs, targets=targets)
    if with_logits:
        loss = mx.logaddexp(0.0, inputs) - inputs * targets
    else:
        log_yes = mx.clip(mx.log(inputs), -100, None)
        log_no = mx.clip(mx.log(1 - inputs), -100, None)
        loss = -(targets * log_yes + (1 - targets) * log_no)
    return _reduce(_weighted("binary_cross_entropy", loss, weights), reduction)


def l1_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """The absolute difference.

    Args:
        predictions: The predicted values.
        targets: The correct values.
        reduction: "none", "mean" or "sum".
    """
    _check_same_shape("l1_loss", predictions=predictions, targets=targets)
    return _reduce(mx.abs(predictions - targets), reduction)


def mse_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """The squared difference.

    Args:
        predictions: The predicted values.
        targets: The correct values.
        reduction: "none", "mean" or "sum".
    """
    _check_same_shape("mse_loss", predictions=predictions, targets=targets)
    return _reduce(mx.square(predictions - targets), reduction)


def nll_loss(
    inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none"
) -> mx.array:
    """The negative logarithm of the probability of the correct class.

    Args:
        inputs: Logarithms of probabilities.
        targets: The indices of the correct classes.
        axis: The axis of the classes.
        reduction: "none", "mean" or "sum".
    """
    return _reduce(-_picked(inputs, targets, axis), reduction)


def gaussian_nll_loss(
    inputs: mx.array,
    targets: mx.array,
    vars: mx.array,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> mx.array:
    """The negative logarithm of the density of a normal distribution at the targets.

    Args:
        inputs: The means.
        targets: The correct values.
        vars: The variances.
        full: Whether to add the constant log(2 pi) / 2.
        eps: The least variance.
        reduction: "none", "mean" or "sum".
    """
    _check_same_shape("gaussian_nll_loss", inputs=inputs, targets=targets, vars=vars)
    variances = mx.maximum(vars, eps)
    loss = 0.5 * (mx.log(variances) + mx.square(targets - inputs) / variances)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def kl_div_loss(
    inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none"
) -> mx.array:
    """The Kullback-Leibler divergence of the inputs from the targets.

    Args:
        inputs: Logarithms of the predicted probabilities.
        targets: Logarithms of the target probabilities.
        axis: The axis of the distributions.
        reduction: "none", "mean" or "sum".
    """
    return _reduce(mx.sum(mx.exp(targets) * (targets - inputs), axis), reduction)


def smooth_l1_loss(
    predictions: mx.array,
    targets: mx.array,
    beta: float = 1.0,
    reduction: Reduction = "mean",
) -> mx.array:
    """The absolute difference d, less `beta` / 2; below `beta`, d squared / (2 * `beta`).

    Args:
        predictions: The predicted values.
        targets: The correct values.
        beta: Where the square ends and the absolute difference begins.
        reduction: "none", "mean" or "sum".
    """
    _check_same_shape("smooth_l1_loss", predictions=predictions, targets=targets)
    difference = mx.abs(predictions - targets)
    squared = 0.5 * mx.square(difference) / beta
    return _reduce(mx.where(difference < beta, squared, difference - 0.5 * beta), reduction)


def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: Size = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
    reduction: Reduction = "none",
) -> mx.array:
    """The triplet loss: max(distance to positives - distance to negatives + margin, 0).

    Args:
        anchors: The anchors.
        positives: What should be near them.
        negatives: What should be far away.
        axis: The axis of the coordinates.
        p: The degree of the norm that measures distances.
        margin: The margin.
        eps: What is added to sums before their root is taken.
        reduction: "none", "mean" or "sum".
    """

    def distance(a: mx.array, b: mx.array) -> mx.array:
        return mx.power(mx.power(mx.abs(a - b), p).sum(axis) + eps, 1.0 / p)

    gap = distance(anchors, positives) - distance(anchors, negatives)
    return _reduce(mx.maximum(gap + margin, 0), reduction)


def hinge_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """1 - `inputs` * `targets`, where that is positive.

    Args:
        inputs: The predicted values.
        targets: The correct labels, -1 or 1.
        reduction: "none", "mean" or "sum".
    """
    return _reduce(mx.maximum(1 - inputs * targets, 0), reduction)


def huber_loss(
    inputs: mx.array,
    targets: mx.array,
    delta: float = 1.0,
    reduction: Reduction = "none",
) -> mx.array:
    """Half of the squared difference, continued linearly beyond `delta`.

    Args:
        inputs: The predicted values.
        targets: The correct values.
        delta: Where the square ends and the line begins.
        reduction: "none", "mean" or "sum".
    """
    difference = mx.abs(inputs - targets)
    quadratic = mx.minimum(difference, delta)
    loss = 0.5 * quadratic**2 + delta * (difference - quadratic)
    return _reduce(loss, reduction)


def log_cosh_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """The logarithm of the hyperbolic cosine of the difference.

    Args:
        inputs: The predicted values.
        targets: The correct values.
        reduction: "none", "mean" or "sum".
    """
    difference = inputs - targets
    return _reduce(mx.logaddexp(difference, -difference) - math.log(2), reduction)


def cosine_similarity_loss(
    x1: mx.array,
    x2: mx.array,
    axis: int = 1,
    eps: float = 1e-8,
    reduction: Reduction = "none",
) -> mx.array:
    """The cosine of the angle between vectors.

    Args:
        x1: Vectors.
        x2: Other vectors.
        axis: The axis of the coordinates.
        eps: The least product of norms to divide by.
        reduction: "none", "mean" or "sum".
    """
    norms = mx.sqrt(mx.sum(mx.square(x1), axis=axis)) * mx.sqrt(mx.sum(mx.square(x2), axis=axis))
    return _reduce(mx.sum(x1 * x2, axis=axis) / mx.maximum(norms, eps), reduction)


def margin_ranking_loss(
    inputs1: mx.array,
    inputs2: mx.array,
    targets: mx.array,
    margin: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """The margin ranking loss: max(-targets * (inputs1 - inputs2) + margin, 0).

    Args:
        inputs1: Scores.
        inputs2: Other scores.
        targets: 1 where the first should be greater, -1 where the second should be.
        margin: The margin.
        reduction: "none", "mean" or "sum".

    Example:
        >>> first, second = mx.array([0.5, 0.2]), mx.array([0.1, 0.9])
        >>> nn.losses.margin_ranking_loss(first, second, mx.array([1, 1]))
        array([0, 0.7], dtype=float32)
    """
    _check_same_shape("margin_ranking_loss", inputs1=inputs1, inputs2=inputs2, targets=targets)
    return _reduce(mx.maximum(0, -targets * (inputs1 - inputs2) + margin), reduction)


name_missing(globals())
