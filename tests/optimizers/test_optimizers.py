"""Optimizers against MLX: several steps in a row, states, schedules, trees, compiled, resumed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import mlx.core
import mlx.nn
import mlx.optimizers
import mlx.utils
import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim
from ingot import utils

INGOT = SimpleNamespace(mx=mx, nn=nn, optim=optim, utils=utils)
MLX = SimpleNamespace(mx=mlx.core, nn=mlx.nn, optim=mlx.optimizers, utils=mlx.utils)

Make = Callable[[Any], Any]  # an optimizer, of the module of optimizers

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda o: o.SGD(0.1),
    "sgd momentum": lambda o: o.SGD(0.1, momentum=0.9),
    "sgd dampening": lambda o: o.SGD(0.1, momentum=0.9, dampening=0.3, weight_decay=0.01),
    "sgd nesterov": lambda o: o.SGD(0.1, momentum=0.9, nesterov=True),
    "sgd decay": lambda o: o.SGD(0.1, weight_decay=0.1),
    "rmsprop": lambda o: o.RMSprop(0.01),
    "rmsprop options": lambda o: o.RMSprop(0.01, 0.9, 1e-4),
    "adagrad": lambda o: o.Adagrad(0.1, eps=1e-6),
    "adadelta": lambda o: o.AdaDelta(0.5, rho=0.8, eps=1e-5),
    "adam": lambda o: o.Adam(0.01),
    "adam corrected": lambda o: o.Adam(0.01, [0.8, 0.99], bias_correction=True),
    "adamw": lambda o: o.AdamW(0.01, weight_decay=0.1),
    "adamw corrected": lambda o: o.AdamW(0.01, bias_correction=True),
    "adamax": lambda o: o.Adamax(0.01),
    "lion": lambda o: o.Lion(0.01),
    "lion decay": lambda o: o.Lion(0.01, (0.8, 0.9), weight_decay=0.1),
    "adafactor": lambda o: o.Adafactor(),
    "adafactor warm": lambda o: o.Adafactor(warmup_init=True, beta_1=0.9),
    "adafactor absolute": lambda o: o.Adafactor(
        0.02, relative_step=False, scale_parameter=False, weight_decay=0.1, clip_threshold=0.5
    ),
    "muon": lambda o: o.Muon(0.02),
    "muon plain": lambda o: o.Muon(0.02, nesterov=False, weight_decay=0.0, ns_steps=3),
    "scheduled": lambda o: o.Adam(o.cosine_decay(0.1, 4)),
    "several": lambda o: o.MultiOptimizer(
        [o.Muon(0.02), o.SGD(0.05, momentum=0.9), o.AdamW(o.linear_schedule(0.0, 0.1, 3))],
        [lambda path, g: g.ndim == 2, lambda path, g: "bias" in path],
    ),
    "one of several": lambda o: o.MultiOptimizer([o.Adam(0.1)]),
}


def tree(library: Any, seed: int, dtype: str = "float32") -> dict[str, Any]:
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> Any:
        made = library.mx.array(random.normal(size=shape).astype(np.float32))
        return made.astype(getattr(library.mx, dtype))

    return {
        "layers": [
            {"weight": numbers(4, 6), "bias": numbers(4)},
            {"weight": numbers(6, 3), "bias": numbers(6)},
        ],
        "filters": {"weight": numbers(4, 3, 2, 2)},
        "scale": numbers(),
    }


def flat(library: Any, value: Any) -> dict[str, np.ndarray]:
    pairs = library.utils.tree_flatten(value)
    return {path: np.array(leaf.astype(library.mx.float32)) for path, leaf in pairs}


def kinds(library: Any, value: Any) -> dict[str, str]:
    pairs = library.utils.tree_flatten(value)
    return {path: str(leaf.dtype).split(".")[-1] for path, leaf in pairs}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    assert set(ours) == set(theirs)
    for path, expected in theirs.items():
        np.testing.assert_allclose(
            ours[path], expected, rtol=tolerance, atol=tolerance, err_msg=path
        )


def run(library: Any, make: Make, steps: int, dtype: str = "float32") -> list[Any]:
    """Parameters and state after each step, with gradients that change from step to step."""
    optimizer = make(library.optim)
    parameters = tree(library, 0, dtype)
    found = []
    for step in range(steps):
        gradients = tree(library, step + 1, dtype)
        parameters = optimizer.apply_gradients(gradients, parameters)
        states = (flat(library, optimizer.state), kinds(library, optimizer.state))
        found.append((flat(library, parameters), kinds(library, parameters), states))
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_equal_mlx(name: str) -> None:
    results = (run(library, OPTIMIZERS[name], 6) for library in (INGOT, MLX))
    tolerance = 2e-4 if "muon" in name or name == "several" else 2e-5
    for ours, theirs in zip(*results, strict=True):
        assert_same(ours[0], theirs[0], tolerance)
        assert ours[1] == theirs[1]
        assert_same(ours[2][0], theirs[2][0], tolerance)
        assert ours[2][1] == theirs[2][1]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_keeps_its_dtype(name: str, dtype: str) -> None:
    for ours, theirs in zip(
        *(run(library, OPTIMIZERS[name], 2, dtype) for library in (INGOT, MLX)), strict=True
    ):
        assert ours[1] == theirs[1]
        assert ours[2][1] == theirs[2][1]
        assert_same(ours[0], theirs[0], 0.1 if dtype == "bfloat16" else 0.03)


def model(library: Any) -> Any:
    library.mx.random.seed(3)
    return library.nn.Sequential(
        library.nn.Linear(5, 8), library.nn.ReLU(), library.nn.Linear(8, 2)
    )


X = np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)
Y = (X[:, :2] ** 2).astype(np.float32)


def loss_of(library: Any, model: Any, x: Any, y: Any) -> Any:
    return library.mx.square(model(x) - y).mean()


def trained(library: Any, make: Make, steps: int) -> list[float]:
    net, optimizer = model(library), make(library.optim)
    step = library.nn.value_and_grad(net, partial(loss_of, library, net))
    losses = []
    for _ in range(steps):
        loss, gradients = step(library.mx.array(X), library.mx.array(Y))
        assert optimizer.update(net, gradients) is None
        library.mx.eval(net.parameters(), optimizer.state)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_a_module_equals_mlx(name: str) -> None:
    mlx.core.disable_compile()
    try:
        expected = trained(MLX, OPTIMIZERS[name], 5)
    finally:
        mlx.core.enable_compile()
    np.testing.assert_allclose(trained(INGOT, OPTIMIZERS[name], 5), expected, rtol=1e-3)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("initialised", [False, True])
def test_compiled_training_equals_eager(name: str, initialised: bool) -> None:
    net, optimizer = model(INGOT), OPTIMIZERS[name](optim)
    if initialised:
        optimizer.init(net.trainable_parameters())
    state = [net.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x: mx.array, y: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(net, partial(loss_of, INGOT, net))(x, y)
        optimizer.update(net, gradients)
        return loss

    losses = []
    for _ in range(5):
        losses.append(step(mx.array(X), mx.array(Y)).item())
        mx.eval(state)
    np.testing.assert_allclose(losses, trained(INGOT, OPTIMIZERS[name], 5), rtol=1e-4)
    first = optimizer.optimizers[0] if "several" in name else optimizer
    assert first.step.item() == 5


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_is_saved_and_resumed(name: str, tmp_path: Path) -> None:
    make = OPTIMIZERS[name]
    optimizer, parameters = make(optim), tree(INGOT, 0)
    for step in range(3):
        parameters = optimizer.update(parameters, tree(INGOT, step + 1))
    file = str(tmp_path / "state.safetensors")
    mx.save_safetensors(file, utils.tree_flatten(optimizer.state, destination={}))

    resumed = make(optim)
    resumed.state = utils.tree_unflatten(list(mx.load(file).items()))
    again = parameters
    for step in range(3, 6):
        parameters = optimizer.update(parameters, tree(INGOT, step + 1))
        again = resumed.update(again, tree(INGOT, step + 1))
    assert_same(flat(INGOT, again), flat(INGOT, parameters), 0)
    assert_same(flat(INGOT, resumed.state), flat(INGOT, optimizer.state), 0)


# Trees


class Pair(NamedTuple):
    weight: mx.array
    bias: mx.array


def test_update_of_trees_returns_new_parameters() -> None:
    optimizer = optim.SGD(0.5)
    parameters = {"a": mx.array([1.0, 2.0]), "b": [mx.array(3.0), (mx.array(4.0),)]}
    updated = optimizer.update(parameters, utils.tree_map(mx.ones_like, parameters))
    assert updated["a"].tolist() == [0.5, 1.5]
    assert updated["b"][0].item() == 2.5
    assert isinstance(updated["b"][1], tuple)
    assert updated["b"][1][0].item() == 3.5
    assert parameters["a"].tolist() == [1.0, 2.0]


def test_trees_need_not_be_dicts() -> None:
    for parameters in (
        [mx.array(1.0), {"w": mx.array(2.0)}],
        (mx.array(1.0), mx.array(2.0)),
        mx.array(1.0),
        Pair(mx.array(1.0), mx.array(2.0)),
    ):
        optimizer = optim.Adam(0.1)
        gradients = utils.tree_map(mx.ones_like, parameters)
        for _ in range(2):
            parameters = optimizer.update(parameters, gradients)
        assert type(parameters) is type(gradients)
        expected = optim.Adam(0.1)
        single = {"x": mx.array(1.0)}
        for _ in range(2):
            single = expected.update(single, {"x": mx.array(1.0)})
        first = utils.tree_flatten(parameters)[0][1]
        assert first.item() == single["x"].item()


def test_gradients_may_be_a_part() -> None:
    optimizer = optim.SGD(1.0, momentum=0.5)
    parameters = {"a": mx.array(1.0), "b": {"c": mx.array(2.0), "d": mx.array(3.0)}}
    updated = optimizer.update(parameters, {"b": {"c": mx.array(1.0)}})
    assert utils.tree_map(mx.array.item, updated) == {"a": 1.0, "b": {"c": 1.0, "d": 3.0}}
    assert "a" not in optimizer.state
    # Another part later has a state of its own.
    updated = optimizer.update(updated, {"a": mx.array(1.0), "b": {"c": mx.array(1.0)}})
    assert utils.tree_map(mx.array.item, updated) == {"a": 0.0, "b": {"c": -0.5, "d": 3.0}}


def test_unfrozen_parameters_get_a_state() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net.layers[0].freeze()
    optimizer = optim.Adam(0.1)
    for _ in range(2):
        step = nn.value_and_grad(net, lambda x: net(x).sum())
        optimizer.update(net, step(mx.ones((1, 2)))[1])
        net.unfreeze()
    assert set(optimizer.state["layers"][0]["weight"]) == {"m", "v"}


def test_empty_trees() -> None:
    optimizer = optim.SGD(optim.exponential_decay(1e-1, 0.9))
    assert optimizer.learning_rate.item() == pytest.approx(0.1)
    for _ in range(5):
        assert optimizer.update({}, {}) == {}
    assert optimizer.learning_rate.item() == pytest.approx(0.06561)
    assert optimizer.step.item() == 5


def test_init_makes_the_whole_state() -> None:
    optimizer = optim.SGD(learning_rate=1e-1, momentum=0.9)
    optimizer.init(nn.Linear(2, 2).trainable_parameters())
    assert list(optimizer.state) == ["step", "learning_rate", "weight", "bias"]
    assert optimizer.state["step"].dtype == mx.uint64
    assert optimizer.state["weight"]["v"].shape == (2, 2)


def test_learning_rate_can_be_assigned() -> None:
    optimizer = optim.SGD(0.5)
    optimizer.learning_rate = 0.25
    assert optimizer.update(mx.array(1.0), mx.array(1.0)).item() == 0.75
    both = optim.MultiOptimizer([optim.SGD(1.0), optim.Adam(1.0)], [lambda path, g: True])
    both.learning_rate = 0.125
    assert [each.learning_rate.item() for each in both.optimizers] == [0.125, 0.125]
    assert both.learning_rate.item() == 0.125


def test_own_optimizers() -> None:
    class Halving(optim.Optimizer):
        def __init__(self) -> None:
            super().__init__(schedulers={"factor": lambda step: 0.5 ** (step + 1)})

        def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
            state["count"] = mx.array(0)

        def apply_single(
            self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
        ) -> mx.array:
            state["count"] += 1
            return parameter - self.state["factor"] * gradient

    optimizer = Halving()
    x = mx.array(1.0)
    for _ in range(2):
        x = optimizer.update({"x": x}, {"x": mx.array(1.0)})["x"]
    assert x.item() == 0.25
    assert optimizer.state["x"]["count"].item() == 2
    with pytest.raises(NotImplementedError, match=r"\[Optimizer\] has no init_single"):
        optim.Optimizer().update({"x": x}, {"x": x})


# Clipping


@pytest.mark.parametrize("max_norm", [0.5, 100.0, 0.0, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_clip_grad_norm_equals_mlx(max_norm: float, dtype: str) -> None:
    ours, theirs = (
        library.optim.clip_grad_norm(tree(library, 0, dtype), max_norm) for library in (INGOT, MLX)
    )
    assert_same(flat(INGOT, ours[0]), flat(MLX, theirs[0]), 1e-5 if dtype == "float32" else 1e-2)
    assert kinds(INGOT, ours[0]) == kinds(MLX, theirs[0])
    assert str(ours[1].dtype).split(".")[-1] == str(theirs[1].dtype).split(".")[-1]
    np.testing.assert_allclose(ours[1].item(), theirs[1].item(), rtol=1e-2)


def test_clip_grad_norm_of_large_and_whole_numbers() -> None:
    large, norm = optim.clip_grad_norm([mx.full((4,), 300.0, mx.float16)], 1.0)
    assert norm.item() == 600
    np.testing.assert_allclose(np.array(large[0]), 0.5, rtol=1e-3)
    whole, norm = optim.clip_grad_norm({"w": mx.array([2, 3]), "v": mx.array([1])}, 2.0)
    theirs, their_norm = mlx.optimizers.clip_grad_norm(
        {"w": mlx.core.array([2, 3]), "v": mlx.core.array([1])}, 2.0
    )
    np.testing.assert_allclose(whole["w"].tolist(), theirs["w"].tolist(), rtol=1e-6)
    np.testing.assert_allclose(norm.item(), their_norm.item(), rtol=1e-6)
    with pytest.raises(ValueError, match="max_norm must not be negative, got -1"):
        optim.clip_grad_norm({}, -1)


# Errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: o.SGD(0.1, nesterov=True), "nesterov needs momentum"),
        (lambda o: o.SGD(0.1, 0.9, dampening=0.1, nesterov=True), "dampening 0.1"),
        (lambda o: o.RMSprop(0.1, alpha=-1), "alpha should be >=0, got -1"),
        (lambda o: o.RMSprop(0.1, eps=0), "epsilon should be >0, got 0"),
        (lambda o: o.Adagrad(0.1, eps=-1e-3), "epsilon should be >0"),
        (lambda o: o.AdaDelta(0.1, rho=-0.1), "rho should be >=0"),
        (lambda o: o.AdaDelta(0.1, eps=0), "epsilon should be >0"),
        (lambda o: o.Adam(0.1, [0.9, 1.0]), r"beta 2 must be in \[0, 1\), got 1.0"),
        (lambda o: o.AdamW(0.1, [-0.1, 0.9]), r"\[AdamW\] beta 1"),
        (lambda o: o.Adam(0.1, eps=-1.0), "epsilon should be >=0"),
        (lambda o: o.Lion(0.1, [0.9, 1.5]), "beta 2"),
        (lambda o: o.MultiOptimizer([o.SGD(0.1), o.SGD(0.1)]), "2 optimizers need 1 filters"),
        (lambda o: setattr(o.MultiOptimizer([o.SGD(0.1)]), "state", {}), "list of 1 states"),
        (lambda o: o.clip_grad_norm({}, -0.5), "max_norm"),
        (lambda o: o.step_decay(0.1, 0.9, 0), "step_size must be at least 1, got 0"),
        (lambda o: o.cosine_decay(0.1, 0), "decay_steps must be at least 1"),
        (lambda o: o.linear_schedule(0.1, 0.2, 0), "steps must be at least 1"),
        (lambda o: o.join_schedules([], []), "at least one schedule"),
        (lambda o: o.join_schedules([lambda s: s], [3]), "1 schedules need 0 boundaries, got 1"),
    ],
)
def test_errors_as_in_mlx(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(optim)
    with pytest.raises(ValueError, match=r"."):  # its message is another one
        call(mlx.optimizers)


def test_parameters_cannot_be_named_as_the_state() -> None:
    with pytest.raises(ValueError, match="'step' cannot be the name of a parameter"):
        optim.SGD(0.1).update({"step": mx.array(1.0)}, {"step": mx.array(1.0)})
