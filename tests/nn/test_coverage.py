"""Every layer, function, loss and initialiser of `nn` has a case that compares it with MLX's."""

from __future__ import annotations

import inspect

import mlx.nn
import mlx.nn.init
import mlx.nn.losses
from tests.nn import test_activations, test_convolution, test_init, test_layers, test_losses

import ingot.nn

# Layers that cannot be compared: what tests them instead.
WITHOUT_CASE = {
    "Module": "tests/nn/test_module.py: the base class",
    "QQLinear": "tests/nn/test_quantized.py: MLX computes it on the GPU only",
}


def public(module: object) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def compared_layers() -> set[str]:
    makers = [case.make for case in (*test_layers.CASES, *test_convolution.CASES)]
    models = [make(ingot.nn) for make in (*makers, *test_activations.LAYERS)]
    return {type(part).__name__ for model in models for part in model.modules()}


def test_every_layer_is_compared() -> None:
    layers = {
        name
        for name, value in public(mlx.nn).items()
        if inspect.isclass(value) and issubclass(value, mlx.nn.Module)
    }
    assert len(layers) > 70
    assert sorted(layers - compared_layers() - set(WITHOUT_CASE)) == []
    assert sorted(compared_layers() & set(WITHOUT_CASE)) == []


def test_every_activation_is_compared() -> None:
    functions = {
        name
        for name, value in public(mlx.nn.layers.activations).items()
        if inspect.isfunction(value)
    }
    functions = {name for name in functions if name in public(mlx.nn)}
    compared = {name for name, _ in test_activations.FUNCTIONS} | {"prelu"}  # a layer of its own
    assert "PReLU" in compared_layers()
    assert sorted(functions - compared) == []


def test_every_loss_is_compared() -> None:
    losses = {
        name for name, value in public(mlx.nn.losses).items() if name.endswith(("_loss", "entropy"))
    }
    assert len(losses) >= 14
    assert sorted(losses - {name for name, _, _ in test_losses.CASES}) == []


def test_every_initializer_is_compared() -> None:
    initializers = {
        name
        for name, value in public(mlx.nn.init).items()
        if inspect.isfunction(value) and value.__module__ == "mlx.nn.init"
    }
    compared = {name for name, *_ in test_init.CASES}
    # Orthogonal matrices depend on the signs that a decomposition chooses: tested as such.
    assert sorted(initializers - compared) == ["orthogonal"]
