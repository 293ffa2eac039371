"""Gradients by a model's parameters, checkpoints, and gradients of several processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.both import BOTH, INGOT, assert_same, flat, numbers

import ingot.core as mx
import ingot.nn as nn
from ingot.nn.utils import average_gradients, checkpoint, clip_grad_norm_sharded
from ingot.utils import tree_flatten


def test_value_and_grad_equals_mlx() -> None:
    x = numbers(5, 3)
    results = []
    for library in BOTH:
        library.mx.random.seed(1)
        nn = library.nn
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.ReLU(), nn.Linear(4, 2))
        model.layers[0].freeze(keys="bias")

        def loss(model: Any, x: Any, power: int) -> Any:
            y = model(x)
            return (y**power).sum(), y

        (value, rest), gradients = nn.value_and_grad(model, loss)(
            model, library.mx.array(x), power=2
        )
        results.append(flat(library, [value, rest, gradients, model.parameters()]))
    assert_same(*results, rtol=1e-4, atol=1e-5)


def test_the_model_has_its_own_parameters_again() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4))
    before = dict(tree_flatten(model.parameters()))
    x = mx.array(numbers(5, 3))
    nn.value_and_grad(model, lambda x: model(x).sum())(x)
    after = dict(tree_flatten(model.parameters()))
    changed = [path for path, value in after.items() if value is not before[path]]
    assert changed == ["layers.1.running_mean", "layers.1.running_var"]

    def failing(x: mx.array) -> mx.array:
        raise RuntimeError("asked for")

    before = dict(tree_flatten(model.parameters()))
    with pytest.raises(RuntimeError, match="asked for"):
        nn.value_and_grad(model, failing)(x)
    assert all(value is before[path] for path, value in tree_flatten(model.parameters()))


def test_what_the_function_does_to_the_model_stays() -> None:
    model = nn.Linear(2, 1, bias=False)

    def loss(x: mx.array) -> mx.array:
        value = model(x).sum()
        model.weight = model.weight * 0 + 3
        return value

    def in_place(x: mx.array) -> mx.array:
        value = model(x).sum()
        model.weight += 1
        return value

    nn.value_and_grad(model, loss)(mx.ones((2,)))
    assert model.weight.tolist() == [[3.0, 3.0]]
    nn.value_and_grad(model, in_place)(mx.ones((2,)))
    assert model.weight.tolist() == [[4.0, 4.0]]


def test_value_and_grad_needs_parameters() -> None:
    with pytest.raises(ValueError, match="no array to differentiate by"):
        nn.value_and_grad(nn.ReLU(), lambda x: x.sum())(mx.ones((3,)))


def test_wrappers_keep_the_name() -> None:
    model = nn.Linear(1, 1)

    def loss(x: mx.array) -> mx.array:
        """A loss."""
        return model(x).sum()

    for wrapper in (nn.value_and_grad(model, loss), checkpoint(model, loss)):
        assert wrapper.__name__ == "loss"
        assert wrapper.__doc__ == "A loss."


@pytest.mark.parametrize("given", [False, True])
def test_checkpoint_equals_the_function(given: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = mx.array(numbers(5, 3))

    def plain(x: mx.array) -> mx.array:
        return mx.square(model(x)).sum()

    inner = checkpoint(model, lambda x: model(x)) if given else checkpoint(model)

    def remembered(x: mx.array) -> mx.array:
        return mx.square(inner(x)).sum()

    before = [value for _, value in tree_flatten(model.parameters())]
    for function in (lambda f: nn.value_and_grad(model, f), lambda f: mx.value_and_grad(f)):
        assert_same(
            flat(INGOT, function(remembered)(x)), flat(INGOT, function(plain)(x)), 1e-5, 1e-6
        )
    after = [value for _, value in tree_flatten(model.parameters())]
    assert all(a is b for a, b in zip(after, before, strict=True))


def test_gradients_of_a_single_process() -> None:
    gradients = {"a": mx.array([3.0, 4.0]), "b": [mx.array([[12.0]])]}
    assert average_gradients(gradients) is gradients
    assert nn.average_gradients(gradients, mx.distributed.init()) is gradients
    clipped, norm = clip_grad_norm_sharded(gradients, 6.5)
    assert norm.item() == pytest.approx(13)
    np.testing.assert_allclose(np.array(clipped["a"]), [1.5, 2.0], rtol=1e-5)
    assert clip_grad_norm_sharded(gradients, 20.0)[0]["b"][0].item() == pytest.approx(12)
