"""Every loss against the real one: all reductions and options, values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.both import BOTH, as_inputs, assert_same, flat, numbers

import ingot.core as mx
import ingot.nn as nn

CLASSES = np.array([1, 0, 3, 2], dtype=np.int32)
SIGNS = np.array([1, -1, -1, 1], dtype=np.int32)
REDUCTIONS = ["none", "mean", "sum"]


def probabilities(*shape: int) -> np.ndarray:
    values = numbers(*shape, low=0.1, high=1.0)
    return values / values.sum(-1, keepdims=True)


def logarithms(*shape: int) -> np.ndarray:
    return np.log(probabilities(*shape))


CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("cross_entropy", [numbers(4, 5, high=20.0), CLASSES], {}),
    ("cross_entropy", [numbers(4, 5), CLASSES], {"label_smoothing": 0.2}),
    ("cross_entropy", [numbers(4, 5), probabilities(4, 5)], {}),
    ("cross_entropy", [numbers(4, 5), probabilities(4, 5)], {"label_smoothing": 0.2}),
    ("cross_entropy", [numbers(4, 5), CLASSES, numbers(4, low=0)], {}),
    ("cross_entropy", [numbers(5, 4), CLASSES], {"axis": 0}),
    ("cross_entropy", [numbers(2, 5, 3), np.ones((2, 3), np.int32)], {"axis": 1}),
    ("binary_cross_entropy", [numbers(4, 3), np.eye(4, 3, dtype=np.float32)], {}),
    ("binary_cross_entropy", [numbers(4), (SIGNS + 1) // 2, numbers(4)], {}),
    (
        "binary_cross_entropy",
        [np.array([0.0, 0.3, 0.8, 1.0], np.float32), np.array([0.0, 1.0, 1.0, 0.0], np.float32)],
        {"with_logits": False},
    ),
    ("l1_loss", [numbers(4, 3), numbers(4, 3)], {}),
    ("mse_loss", [numbers(4, 3), numbers(4, 3)], {}),
    ("nll_loss", [logarithms(4, 5), CLASSES], {}),
    ("nll_loss", [logarithms(5, 4), CLASSES], {"axis": 0}),
    ("gaussian_nll_loss", [numbers(4, 3), numbers(4, 3), numbers(4, 3, low=-0.1)], {}),
    ("gaussian_nll_loss", [numbers(4), numbers(4), numbers(4)], {"full": True, "eps": 0.1}),
    ("kl_div_loss", [logarithms(4, 5), logarithms(4, 5)], {}),
    ("kl_div_loss", [logarithms(4, 5), logarithms(4, 5)], {"axis": 0}),
    ("smooth_l1_loss", [numbers(4, 3), numbers(4, 3)], {}),
    ("smooth_l1_loss", [numbers(4, 3), numbers(4, 3)], {"beta": 0.4}),
    ("triplet_loss", [numbers(4, 3), numbers(4, 3), numbers(4, 3)], {}),
    (
        "triplet_loss",
        [numbers(4, 3), numbers(4, 3), numbers(4, 3)],
        {"axis": 0, "p": 3, "margin": 0.2, "eps": 1e-3},
    ),
    ("hinge_loss", [numbers(4), SIGNS], {}),
    ("huber_loss", [numbers(4, 3), numbers(4, 3)], {}),
    ("huber_loss", [numbers(4, 3), numbers(4, 3)], {"delta": 0.3}),
    ("log_cosh_loss", [numbers(4, 3, high=90.0), numbers(4, 3)], {}),
    ("cosine_similarity_loss", [numbers(4, 3), numbers(4, 3)], {}),
    ("cosine_similarity_loss", [numbers(4, 3), numbers(4, 3)], {"axis": 0, "eps": 2.0}),
    ("margin_ranking_loss", [numbers(4), numbers(4), SIGNS], {}),
    ("margin_ranking_loss", [numbers(4), numbers(4), SIGNS], {"margin": 0.3}),
]


@pytest.mark.parametrize(("name", "arrays", "options"), CASES)
def test_loss_equals_mlx(name: str, arrays: list[Any], options: dict[str, Any]) -> None:
    positions = [i for i, x in enumerate(arrays) if x.dtype == np.float32]
    results = []
    for library in BOTH:
        function = getattr(library.nn.losses, name)
        inputs = as_inputs(library, arrays)
        values = [function(*inputs, **options)]  # the default reduction
        values += [function(*inputs, reduction=reduction, **options) for reduction in REDUCTIONS]

        def total(*inputs: Any, function: Any = function) -> Any:
            losses = function(*inputs, reduction="none", **options)
            return (losses * (1 + losses)).sum()

        gradients = library.mx.grad(total, argnums=positions)(*inputs)
        results.append(flat(library, [values, gradients]))
    assert_same(*results, rtol=2e-5, atol=1e-5)


def test_cross_entropy_compiles() -> None:
    logits, targets = mx.array(numbers(4, 5)), mx.array(CLASSES)
    gradient = mx.grad(lambda x: nn.losses.cross_entropy(x, targets, reduction="mean"))
    np.testing.assert_allclose(
        np.array(mx.compile(gradient)(logits)), np.array(gradient(logits)), rtol=1e-5, atol=1e-7
    )


ZEROS = mx.zeros((4, 5))
ERRORS = [
    (lambda loss: loss.mse_loss(ZEROS, ZEROS, reduction="max"), "reduction must be .* got 'max'"),
    (lambda loss: loss.mse_loss(ZEROS, ZEROS[0]), r"predictions has \(4, 5\), targets has \(5,\)"),
    (lambda loss: loss.l1_loss(ZEROS, ZEROS[0]), r"\[l1_loss\] the shapes must be the same"),
    (lambda loss: loss.smooth_l1_loss(ZEROS, ZEROS[0]), "the shapes must be the same"),
    (lambda loss: loss.gaussian_nll_loss(ZEROS, ZEROS, ZEROS[0]), r"vars has \(5,\)"),
    (lambda loss: loss.margin_ranking_loss(ZEROS, ZEROS, ZEROS[0]), "the shapes must be the same"),
    (lambda loss: loss.binary_cross_entropy(ZEROS, ZEROS[0]), "the shapes must be the same"),
    (lambda loss: loss.cross_entropy(ZEROS, ZEROS[0]), r"shape \(5,\) do not fit logits of shape"),
    (lambda loss: loss.cross_entropy(ZEROS, ZEROS, label_smoothing=1), "below 1, got 1"),
    (lambda loss: loss.cross_entropy(ZEROS, ZEROS, ZEROS), r"weights must have the shape \(4,\)"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_error_says_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(nn.losses)
