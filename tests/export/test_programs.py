"""Whole programs cross: the examples, a transformer block, a step of training."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import mlx.core as mlx
import mlx.nn as mlx_nn
import mlx.optimizers as mlx_optim
import mlx.utils as mlx_utils
import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim
import ingot.utils as utils


@pytest.fixture(autouse=True)
def same_random_state() -> Iterator[None]:
    before = list(mx.random.state)
    yield
    mx.random.state[:] = before


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PACKAGES = {
    "mlx": (mlx, mlx_nn, mlx_optim, mlx_utils),
    "ingot": (mx, nn, optim, utils),
}


def example(name: str, package: str) -> ModuleType:
    """An example as a module of a package, and the modules that it imports with it."""
    with pytest.MonkeyPatch.context() as patch:
        for helper in ("show", "digits", "character_transformer"):
            if helper != name:
                patch.setitem(sys.modules, helper, _loaded(helper, package))
        return _loaded(name, package)


def _loaded(name: str, package: str) -> ModuleType:
    text = (EXAMPLES / f"{name}.py").read_text().replace("import ingot.", f"import {package}.")
    specification = importlib.util.spec_from_loader(name, None)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    module.__file__ = str(EXAMPLES / f"{name}.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        exec(compile(text, module.__file__, "exec"), module.__dict__)
    return module


def step(
    package: str, model: Any, loss: Callable[..., Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """One step of gradient descent as a function of the parameters and the data."""
    core, modules, _, trees = PACKAGES[package]
    flat = trees.tree_flatten(model.trainable_parameters())
    names = [name for name, _ in flat]

    def function(*inputs: Any) -> list[Any]:
        parameters, data = inputs[: len(names)], inputs[len(names) :]
        model.update(trees.tree_unflatten(list(zip(names, parameters, strict=True))))
        value, gradients = modules.value_and_grad(model, loss)(model, *data)
        slopes = [slope for _, slope in trees.tree_flatten(gradients)]
        return [value, *(p - 0.1 * slope for p, slope in zip(parameters, slopes, strict=True))]

    return function, [core.array(np.array(value)) for _, value in flat]


def crosses(
    source: str, function: Callable[..., Any], inputs: list[Any], folder: Path, rtol: float = 1e-4
) -> None:
    """A function exported by one library gives the same in both."""
    file = str(folder / "f.mlxfn")
    PACKAGES[source][0].export_function(file, function, *inputs)
    given = [np.array(x) for x in inputs]
    found = {
        name: [np.array(x) for x in core.import_function(file)(*map(core.array, given))]
        for name, (core, *_) in PACKAGES.items()
    }
    expected = function(*inputs)
    expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    for results in found.values():
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_allclose(one, np.array(other), rtol=rtol, atol=1e-5)


def data(name: str) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    if name.startswith("character"):
        return [generator.integers(0, 30, (2, 17)).astype(np.int32)]
    shape = (4, 8, 8, 1) if name == "digits_conv" else (4, 64)
    images = generator.uniform(0, 1, shape).astype(np.float32)
    return [images] if name == "digits_vae" else [images, np.array([1, 0, 7, 9], np.int32)]


MODELS: dict[str, Callable[[ModuleType], Any]] = {
    "digits_mlp": lambda module: module.MLP(16),
    "digits_conv": lambda module: module.ConvolutionalNetwork(),
    "digits_vae": lambda module: module.VAE(16),
    "character_transformer": lambda module: module.Transformer(32, 2, 1),
    "character_rnn": lambda module: module.Writer(16),
}


# MLX has no `scan`, which the recurrent network uses.
STEPS = [(name, package) for name in MODELS for package in PACKAGES]
STEPS.remove(("character_rnn", "mlx"))


@pytest.mark.parametrize(("name", "package"), STEPS)
def test_training_steps_of_the_examples(name: str, package: str, tmp_path: Path) -> None:
    module = example(name, package)
    core = PACKAGES[package][0]
    core.random.seed(1)
    function, parameters = step(package, MODELS[name](module), module.loss_fn)

    def seeded(*inputs: Any) -> list[Any]:
        core.random.seed(2)  # noise is drawn while the function is traced
        return function(*inputs)

    crosses(package, seeded, [*parameters, *map(core.array, data(name))], tmp_path, 1e-3)


def test_loops_of_the_examples(tmp_path: Path) -> None:
    """MLX's files have no loops: they are unrolled."""
    kalman = example("kalman", "ingot")
    seen = mx.array(np.random.default_rng(0).standard_normal(4).astype(np.float32))
    crosses("ingot", kalman.filtered, [mx.array([0.3, 0.5]), seen], tmp_path)
    pendulum = example("pendulum", "ingot")
    crosses(
        "ingot",
        lambda y: pendulum.runge_kutta(lambda y: pendulum.slope(y, 1.0, 0.2), y, 0.1, 3),
        [mx.array(pendulum.START)],
        tmp_path,
    )


def block(package: str) -> Any:
    modules = PACKAGES[package][1]
    return modules.TransformerEncoderLayer(16, 4, 32, dropout=0.0)


@pytest.mark.parametrize("package", PACKAGES)
def test_transformer_block(package: str, tmp_path: Path) -> None:
    core = PACKAGES[package][0]
    layer = block(package)
    core.eval(layer.parameters())
    x = core.array(np.random.default_rng(0).standard_normal((2, 5, 16)).astype(np.float32))
    crosses(package, lambda x: layer(x, None), [x], tmp_path)


@pytest.mark.parametrize("package", PACKAGES)
def test_training_step_with_adam(package: str, tmp_path: Path) -> None:
    core, modules, optimizers, trees = PACKAGES[package]
    layer = modules.Linear(3, 2)
    optimizer = optimizers.AdamW(0.1)
    optimizer.init(layer.trainable_parameters())
    core.eval(layer.parameters(), optimizer.state)
    flat = trees.tree_flatten({"model": layer.parameters(), "state": optimizer.state})
    names = [name for name, _ in flat]

    def function(*inputs: Any) -> list[Any]:
        *values, x, y = inputs
        tree = trees.tree_unflatten(list(zip(names, values, strict=True)))
        layer.update(tree["model"])
        optimizer.state = tree["state"]
        loss = modules.value_and_grad(layer, lambda x, y: modules.losses.mse_loss(layer(x), y))
        value, gradients = loss(x, y)
        optimizer.update(layer, gradients)
        found = trees.tree_flatten({"model": layer.parameters(), "state": optimizer.state})
        return [value, *(array for _, array in found)]

    generator = np.random.default_rng(0)
    x = core.array(generator.standard_normal((4, 3)).astype(np.float32))
    y = core.array(generator.standard_normal((4, 2)).astype(np.float32))
    crosses(package, function, [*(value for _, value in flat), x, y], tmp_path)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("name", ["gelu", "gelu_approx", "silu", "softplus", "mish", "log_softmax"])
def test_activations(name: str, package: str, tmp_path: Path) -> None:
    core, modules, *_ = PACKAGES[package]
    x = core.array(np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4))
    crosses(package, getattr(modules, name), [x], tmp_path)
